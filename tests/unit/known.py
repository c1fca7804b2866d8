# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""What is known of a host's pages, in few words, for the tests."""

from nova_numa_guard import availability, facts, guests
from tests.unit import samples

HUGE = samples.HUGE


def need(pages, node=0, size=HUGE):
    return guests.PageNeed(node, size, pages)


def pool(free, node=0, size=HUGE, total=100, **values):
    return availability.Pool(node, size, total, free, **values)


def claim(uuid, *needs, number=1, anywhere=()):
    return availability.Claim(uuid, number, uuid, needs, anywhere)


def promise(uuid, *needs, **values):
    return facts.Promise(uuid, needs, **values)


def figures(*found, bound=None, **values):
    """Of pools; one of a hundred free pages if none is given.

    :param bound: of the huge pages
    """
    found = found or (pool(100),)
    bounds = {
        each.page_size: availability.Bound()
        for each in found
        if not each.small
    }
    if bound is not None:
        bounds[HUGE] = bound
    return facts.Figures(found, bounds, **values)
