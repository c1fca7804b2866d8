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

"""Whether a host has room for one more guest without a topology.

Pure: figures in, verdicts out. Nova counts a host's memory as one sum, in
which the huge pages are, and its CPUs likewise. A floating guest can use the
small pages only and, under ``isolation = cell``, those of the floating cells.
"""

import dataclasses

from nova_numa_guard import isolation, occupancy


@dataclasses.dataclass(frozen=True, slots=True)
class Need:
    """What a guest asks for.

    :param memory: MiB
    :param vcpus: of its flavor
    """

    memory: int
    vcpus: int


# Not frozen, as little as what occupancy makes for each host.
@dataclasses.dataclass(slots=True)
class Capacity:
    """What a host has for all its guests without a topology together.

    :param memory: MiB of small pages, what others have of them taken off
    :param cpus: that they share; None if nothing but Nova limits them
    :param ram_allocation_ratio: how often a MiB may be given out
    :param cpu_allocation_ratio: how often a CPU may be given out
    :param cells: the host's cells that they are confined to; empty if to none
    """

    memory: int
    cpus: int | None = None
    ram_allocation_ratio: float = 1.0
    cpu_allocation_ratio: float = 1.0
    cells: tuple[int, ...] = ()

    def memory_left(self, untied: occupancy.Share) -> int:
        """MiB that one more guest may have.

        :param untied: what the guests without a topology have already
        """
        return max(
            0, int(self.memory * self.ram_allocation_ratio) - untied.memory
        )

    def cpus_left(self, untied: occupancy.Share) -> int | None:
        """vCPUs that one more guest may have; None: nothing limits them."""
        if self.cpus is None:
            return None
        return max(
            0, int(self.cpus * self.cpu_allocation_ratio) - untied.vcpus
        )


def judge(
    need: Need, untied: occupancy.Share, capacity: Capacity
) -> isolation.Verdict | None:
    """Why a guest has no room on a host; None if it has.

    :param untied: what the guests without a topology have already
    """
    memory = capacity.memory_left(untied)
    if need.memory > memory:
        short = isolation.Reason.SMALL_PAGES_SHORT
        where = 'small-page memory'
        if capacity.cells:
            short = isolation.Reason.CELL_MEMORY_SHORT
            where += f' of the floating cells {_names(capacity.cells)}'
        return _verdict(short, where, f'{need.memory} MiB', memory)
    cpus = capacity.cpus_left(untied)
    if cpus is not None and need.vcpus > cpus:
        return _verdict(
            isolation.Reason.CELL_CPUS_SHORT,
            f'CPUs of the floating cells {_names(capacity.cells)}',
            f'{need.vcpus} vCPUs',
            cpus,
        )
    return None


def _names(cells: tuple[int, ...]) -> str:
    return ','.join(map(str, cells))


def _verdict(
    reason: isolation.Reason, where: str, needed: str, available: int
) -> isolation.Verdict:
    return isolation.Verdict(
        False, reason, f'{where}: needed {needed}, available {available}'
    )
