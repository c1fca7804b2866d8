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

"""The host's cells for floating guests: whether they can be, and their size.

Pure: a host and its configuration in, complaints and figures out.
"""

from collections.abc import Collection, Iterable
import dataclasses

from nova_numa_guard import sets


@dataclasses.dataclass(frozen=True, slots=True)
class HostCell:
    """A NUMA cell of a host.

    :param id: of the host's NUMA node
    :param shared_cpus: CPUs that guests share
    :param dedicated_cpus: CPUs that ``cpu_dedicated_set`` gives to guests
    :param small_memory: MiB of small pages
    """

    id: int
    shared_cpus: frozenset[int]
    dedicated_cpus: frozenset[int]
    small_memory: int


def contradictions(
    floating: Collection[int], host: Iterable[HostCell]
) -> tuple[str, ...]:
    """Why a host cannot have floating cells; empty if it can.

    :param floating: ids of the cells that are to be
    :param host: every cell that the host has
    """
    known = {cell.id: cell for cell in host}
    if not floating:
        return ('isolation is "cell", but floating_cells names none',)
    if not known:
        return ('the host has no NUMA topology that Nova knows',)
    has = f'the host has {sets.text(known)}'
    if unknown := set(floating) - set(known):
        return (f'floating_cells has {sets.text(unknown)}, but {has}',)
    if set(floating) == set(known):
        return (
            f'floating_cells has {sets.text(floating)}, and {has} only, so '
            f'that no cell is left for affined guests',
        )
    chosen = [known[cell] for cell in sorted(floating)]
    found = []
    for cell in chosen:
        if not cell.shared_cpus:
            found.append(
                f'floating cell {cell.id} has no CPU that guests share '
                f'([compute] cpu_shared_set)'
            )
        if cell.dedicated_cpus:
            found.append(
                f'[compute] cpu_dedicated_set reaches into floating cell '
                f'{cell.id} with CPUs {sets.text(cell.dedicated_cpus)}'
            )
    return tuple(found)


def cpus(
    floating: Collection[int], host: Iterable[HostCell]
) -> frozenset[int]:
    """The CPUs that floating guests share."""
    shared: frozenset[int] = frozenset()
    for cell in host:
        if cell.id in floating:
            shared |= cell.shared_cpus
    return shared


def part_of_reserve(reserve: int, part: int, whole: int) -> int:
    """How much of what a host keeps for itself some of its cells have to give.

    In proportion to their size, rounded up: nobody says where the host's own
    processes run.
    """
    return -(-reserve * part // whole) if whole else 0
