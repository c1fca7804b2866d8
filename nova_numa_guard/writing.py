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

"""How a compute host writes the XML of its guests.

Pure: text in, text out. Hosts of one cloud differ, and a guest may go from
any of them to any other.
"""

from collections.abc import Mapping
import dataclasses

from nova_numa_guard import confinement, tuning


@dataclasses.dataclass(frozen=True, slots=True)
class Writing:
    """What a host makes of the XML that Nova has written.

    :param small_pages: the policy for them; None where ``<numatune>`` stays
        Nova's
    :param floating: where floating guests are confined to; None where they
        are not
    """

    small_pages: tuning.SmallPagePolicy | None = None
    floating: confinement.Confinement | None = None


# Of a host that has no guard, too.
STOCK = Writing()


def apply(xml: str, writing: Writing) -> str:
    """Write a host's XML instead of Nova's.

    :raises ValueError: this is not the XML of a domain
    """
    if writing.floating is not None:
        xml = confinement.apply(xml, writing.floating)
    if writing.small_pages is not None:
        xml = tuning.apply(xml, writing.small_pages)
    return xml


def restore(xml: str, nodes: Mapping[int, int]) -> str:
    """Write Nova's XML instead of any host's.

    The CPUs of a confined guest stay as they are: Nova writes them anew where
    a guest arrives.

    :param nodes: the host node of each guest cell, for the cells whose
        ``<memnode>`` is gone
    :raises ValueError: this is not the XML of a domain
    """
    return tuning.restore(confinement.release(xml), nodes)
