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

"""Translate the topologies that Nova has of guests and hosts."""

from typing import Any

from nova.objects import fields

from nova_numa_guard import fitting

PINS = {
    fields.CPUAllocationPolicy.DEDICATED,
    fields.CPUAllocationPolicy.MIXED,
}
_SHARES = {
    fields.CPUAllocationPolicy.SHARED,
    fields.CPUAllocationPolicy.MIXED,
    None,
}


def guest_cells(topology: Any) -> tuple[fitting.GuestCell, ...]:
    """Translate nova.objects.InstanceNUMATopology."""
    isolated = topology.emulator_threads_isolated
    return tuple(
        fitting.GuestCell(
            id=cell.id,
            memory=cell.memory,
            page_size=(cell.pagesize if 'pagesize' in cell else None) or None,
            shared=len(cell.cpuset),
            dedicated=len(cell.pcpuset),
            # Nova puts it beside the first cell.
            overhead=1 if isolated and not index else 0,
            pins=cell.cpu_policy in PINS,
            shares=cell.cpu_policy in _SHARES,
        )
        for index, cell in enumerate(topology.cells)
    )


def host_cells(topology: Any) -> tuple[fitting.HostCell, ...]:
    """Translate nova.objects.NUMATopology."""
    return tuple(
        fitting.HostCell(
            id=cell.id,
            pages=tuple(
                fitting.Pages(
                    pages.size_kb,
                    pages.total,
                    pages.used,
                    pages.reserved if 'reserved' in pages else 0,
                )
                for pages in sorted(
                    cell.mempages or (), key=lambda pages: pages.size_kb
                )
            ),
            memory=cell.memory,
            memory_claimed=cell.memory_usage,
            shared=len(cell.cpuset),
            shared_claimed=cell.cpu_usage,
            dedicated=len(cell.pcpuset),
            pinned=len(cell.pinned_cpus),
        )
        for cell in topology.cells
    )
