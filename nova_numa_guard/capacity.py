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

"""What hosts have left, and for whom.

Pure: figures in, figures out. It goes by sums, as an operator plans: whether
one guest fits in the end, ``explain`` tells.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_numa_guard import fitting, guests, occupancy

Kind = guests.Kind


@dataclasses.dataclass(frozen=True, slots=True)
class Free:
    """What a host has left.

    :param name: of the host
    :param chosen: whether the scheduler may choose it
    :param accepts: the kinds that it takes
    :param floating: MiB of small pages for floating guests
    :param vcpus: that floating guests may have; None: nothing limits them here
    :param memory: MiB of small pages for affined guests, by cell
    :param pages: free huge pages by size in KiB, and by cell
    :param dedicated: CPUs, by cell
    :param content: the guests that it has
    """

    name: str
    chosen: bool
    accepts: frozenset[Kind]
    floating: int
    vcpus: int | None
    memory: Mapping[int, int]
    pages: Mapping[int, Mapping[int, int]]
    dedicated: Mapping[int, int]
    content: occupancy.HostContent

    @property
    def huge(self) -> int:
        """MiB in free huge pages."""
        return sum(
            size * free // 1024
            for size, cells in self.pages.items()
            for free in cells.values()
        )

    @property
    def affined(self) -> int:
        """MiB for affined guests, in pages of any size."""
        return sum(self.memory.values()) + self.huge

    def room(self, kind: Kind) -> int:
        """MiB for more guests of a kind; none if the host takes none."""
        if not self.chosen or kind not in self.accepts:
            return 0
        return self.floating if kind is Kind.FLOATING else self.affined

    @property
    def stranded(self) -> int:
        """MiB that no guest can have that the host takes.

        Floating guests cannot have huge pages. Affined ones can have all, but
        not where Nova has no small pages for them.
        """
        if not self.accepts:
            return max(self.floating, sum(self.memory.values())) + self.huge
        if Kind.AFFINED in self.accepts:
            return 0
        return self.huge

    @property
    def stranded_cpus(self) -> int:
        """Dedicated CPUs that no guest can have that the host takes."""
        if Kind.AFFINED in self.accepts:
            return 0
        return sum(self.dedicated.values())

    @property
    def largest_cell(self) -> dict[int, int]:
        """MiB of the largest guest cell in huge pages, by size in KiB."""
        if Kind.AFFINED not in self.accepts:
            return {}
        return {
            size: max(cells.values(), default=0) * size // 1024
            for size, cells in sorted(self.pages.items())
        }


def free_in(
    cells: Iterable[fitting.HostCell],
) -> tuple[dict[int, int], dict[int, dict[int, int]], dict[int, int]]:
    """What cells have left, by Nova's count.

    :returns: MiB of small pages by cell, huge pages by size in KiB and cell,
        and dedicated CPUs by cell
    """
    memory: dict[int, int] = {}
    pages: dict[int, dict[int, int]] = {}
    dedicated: dict[int, int] = {}
    for cell in cells:
        dedicated[cell.id] = max(0, cell.dedicated - cell.pinned)
        if not cell.pages:
            memory[cell.id] = max(0, cell.memory - cell.memory_claimed)
            continue
        small, *huge = cell.pages
        memory[cell.id] = max(0, small.free) * small.size // 1024
        for each in huge:
            pages.setdefault(each.size, {})[cell.id] = max(0, each.free)
    return memory, pages, dedicated


def unplaceable(hosts: Iterable[Free]) -> dict[str, tuple[Kind, ...]]:
    """The hosts whose guests the others have no room for, by kind.

    A host that fails is emptied onto others that may be chosen and take its
    guests' kind. Nothing is said of how they would be divided.
    """
    hosts = tuple(hosts)
    room = {kind: sum(host.room(kind) for host in hosts) for kind in Kind}
    found = {}
    for host in hosts:
        kinds = tuple(
            kind
            for kind in Kind
            if host.content.of(kind) > room[kind] - host.room(kind)
        )
        if kinds:
            found[host.name] = kinds
    return found
