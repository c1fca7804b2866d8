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

"""Where a host that fails has too few others of its kind.

Pure: groups of hosts in, groups that are too small out.
"""

from collections.abc import Iterable, Mapping
import dataclasses

# One host for each kind, and one to take the guests of one that fails.
ENOUGH = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Hosts that guests are placed on together.

    :param what: ``zone`` or ``aggregate``
    :param hosts: that may be chosen
    :param isolated: whether they are isolated by host
    """

    what: str
    name: str
    hosts: frozenset[str]
    isolated: bool


def groups(
    hosts: Iterable[tuple[str, str, Mapping[str, bool]]], isolated: bool
) -> tuple[Group, ...]:
    """The zones and aggregates of hosts.

    :param hosts: for each its name, its zone, and its aggregates, with
        whether they ask for isolation by host
    :param isolated: whether all hosts are isolated by host
    """
    members: dict[tuple[str, str], set[str]] = {}
    asks: dict[tuple[str, str], bool] = {}
    for name, zone, aggregates in hosts:
        found = {('zone', zone): isolated}
        for aggregate, asked in aggregates.items():
            found['aggregate', aggregate] = isolated or asked
        for key, asked in found.items():
            members.setdefault(key, set()).add(name)
            asks[key] = asked
    return tuple(
        Group(*key, frozenset(members[key]), asks[key])
        for key in sorted(members)
    )


def too_small(found: Iterable[Group]) -> tuple[Group, ...]:
    """Those in which a host may fail that no other can replace."""
    return tuple(
        group
        for group in found
        if group.isolated and len(group.hosts) < ENOUGH
    )
