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

"""Isolation by cell on a compute host: floating guests have cells to share."""

from collections.abc import Callable
import json
from typing import Any

from nova import exception, objects
import nova.conf
from nova.pci import whitelist
from oslo_log import log as logging
from oslo_utils import units

from nova_numa_guard import (
    cells,
    census,
    confinement,
    isolation,
    once,
    pools,
    report,
    sets,
)
from nova_numa_guard.virt import host_guests

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class FloatingCells:
    """The cells of one compute host; none until settle() was called.

    :param kernel: where the figures come from
    """

    def __init__(self, kernel: pools.Kernel) -> None:
        self.kernel = kernel
        self.confinement: confinement.Confinement | None = None
        self._complaints = once.Once()

    @property
    def _nodes(self) -> frozenset[int]:
        return self.confinement.nodes if self.confinement else frozenset()

    def settle(self, topology: Any) -> None:
        """Read the configuration, once the host's topology is known.

        :param topology: nova.objects.NUMATopology as Nova has it, or None
        :raises nova.exception.InvalidConfiguration: the cells contradict the
            host, or the rest of its configuration
        """
        if CONF.numa_guard.isolation != isolation.Isolation.CELL.value:
            return
        text = CONF.numa_guard.floating_cells
        try:
            nodes = sets.parse(text) if text else frozenset()
        except ValueError as exc:  # such as 3-1
            raise exception.InvalidConfiguration(
                f'[numa_guard] floating_cells: {exc}'
            ) from exc
        host = [_host_cell(cell) for cell in _cells(topology)]
        problems = cells.contradictions(nodes, host)
        if problems:
            raise exception.InvalidConfiguration(
                f'[numa_guard] isolation by cell is not possible: '
                f'{"; ".join(problems)}'
            )
        self.confinement = confinement.Confinement(
            nodes,
            cells.cpus(nodes, host),
            confinement.Mode(CONF.numa_guard.floating_memory_mode),
        )
        LOG.info(
            'NUMA guard: floating guests share CPUs %s and the memory of '
            'cells %s (%s), which Nova does not see',
            sets.text(self.confinement.cpus),
            sets.text(nodes),
            self.confinement.mode.value,
        )

    def hide(self, text: str | None) -> str | None:
        """Take the floating cells out of the topology that Nova is told.

        Nova filters and claims by this one; it writes guests' XML by another,
        in which a guest that is still on these cells has to find them.

        :param text: get_available_resource()['numa_topology']
        """
        if not self._nodes or text is None:
            return text
        topology = objects.NUMATopology.obj_from_db_obj(text)
        topology.cells = [
            cell for cell in topology.cells if cell.id not in self._nodes
        ]
        hidden: str = topology._to_json()
        return hidden

    def capacity(
        self, topology: Any, found: list[host_guests.Found]
    ) -> report.FloatingCells | None:
        """What these cells have for all floating guests together.

        :param topology: with the floating cells in it
        """
        if self.confinement is None:
            return None
        host = [_host_cell(cell) for cell in _cells(topology)]
        memory = sum(c.small_memory for c in host if c.id in self._nodes)
        shared = len(self.confinement.cpus)
        keeps = cells.part_of_reserve(
            CONF.reserved_host_memory_mb,
            memory,
            sum(cell.small_memory for cell in host),
        )
        reserved_cpus = cells.part_of_reserve(
            CONF.reserved_host_cpus,
            shared,
            sum(len(cell.shared_cpus) for cell in host),
        )
        tied = census.small_memory((f.guest for f in found), self._nodes)
        return report.FloatingCells(
            cells=tuple(sorted(self._nodes)),
            cpus=max(0, shared - reserved_cpus),
            memory=max(0, memory - keeps - tied),
        )

    def warn(
        self,
        capacity: report.FloatingCells,
        found: list[host_guests.Found],
        pci_devices: str | None,
    ) -> None:
        """Say at start what is not as it should be, but does no harm yet.

        :param pci_devices: get_available_resource()['pci_passthrough_devices']
        """
        names = sets.text(self._nodes)
        tied = sorted(
            each.guest.uuid
            for each in found
            if any(cell.id in self._nodes for cell in _cells(each.topology))
        )
        if tied:
            LOG.warning(
                'NUMA guard: %d affined guests are still on floating cells '
                '%s, where floating guests may take memory that they need: %s',
                len(tied),
                names,
                ', '.join(tied),
            )
        devices = sorted(_assignable(pci_devices, self._nodes))
        if devices:
            LOG.warning(
                'NUMA guard: %d PCI devices for guests are on floating cells '
                '%s, where no affined guest is placed: %s',
                len(devices),
                names,
                ', '.join(devices),
            )
        self._warn_of_overcommit(capacity, found)

    def _warn_of_overcommit(
        self, capacity: report.FloatingCells, found: list[host_guests.Found]
    ) -> None:
        ratio = CONF.ram_allocation_ratio or CONF.initial_ram_allocation_ratio
        used = sum(each.guest.memory for each in found if not each.guest.tied)
        may_use = max(used, int(capacity.memory * ratio))
        if may_use <= capacity.memory:
            return
        try:
            swap = self.kernel.swap()
        except pools.UnreadableError as exc:
            LOG.warning(
                'NUMA guard: it is not known if there is swap: %s', exc
            )
            return
        if not swap:
            LOG.warning(
                'NUMA guard: floating guests may have %d MiB together, and '
                'floating cells %s have %d MiB for them and no swap: the '
                'kernel will kill some when they use it',
                may_use,
                sets.text(self._nodes),
                capacity.memory,
            )

    def verify(self, instance: Any, guest: Any) -> None:
        """Look whether the kernel keeps a guest to the floating cells.

        :param guest: nova.virt.libvirt.guest.Guest, which may be running
        """
        astray = self._astray(instance, lambda: guest)
        if astray:
            LOG.error(
                'The guest may take memory from cells %s, and should from '
                'floating cells %s only: the kernel has not taken its cpuset',
                astray,
                sets.text(self._nodes),
                instance=instance,
            )

    def verify_arrival(self, instance: Any, host: Any) -> None:
        """The same, of a guest that was migrated here, live.

        A source without the guard leaves its memory free.

        :param host: nova.virt.libvirt.host.Host
        """
        astray = self._astray(instance, lambda: host.get_guest(instance))
        if astray:
            LOG.warning(
                'The guest was migrated here by a host that does not know of '
                'floating cells %s: it may take memory from cells %s until '
                'its next hard reboot',
                sets.text(self._nodes),
                astray,
                instance=instance,
            )

    def _astray(self, instance: Any, guest_of: Callable[[], Any]) -> str:
        """The cells whose memory a floating guest may take, if any is wrong.

        :param guest_of: tells the guest
        """
        if self.confinement is None or instance.numa_topology is not None:
            return ''
        try:
            guest = guest_of()
            if not guest.is_active():
                return ''
            allowed = self.kernel.allowed_nodes(guest.name)
        except Exception as exc:
            # Whatever it is, the guest runs.
            if self._complaints.is_new(type(exc).__name__):
                LOG.warning(
                    'NUMA guard does not know if the guest keeps to the '
                    'floating cells: %s',
                    exc,
                    instance=instance,
                )
            return ''
        return '' if allowed <= self._nodes else sets.text(allowed)


def _cells(topology: Any) -> Any:
    return topology.cells if topology else ()


def _host_cell(cell: Any) -> cells.HostCell:
    """Translate nova.objects.NUMACell.

    Without cpu_dedicated_set Nova lists all CPUs as dedicated ones too, which
    is not what an operator has asked for.
    """
    dedicated = cell.pcpuset if CONF.compute.cpu_dedicated_set else ()
    return cells.HostCell(
        id=cell.id,
        shared_cpus=frozenset(cell.cpuset),
        dedicated_cpus=frozenset(dedicated),
        small_memory=small_memory(cell),
    )


def small_memory(cell: Any) -> int:
    """MiB of small pages of a nova.objects.NUMACell."""
    if not cell.mempages:
        return int(cell.memory)
    page = min(cell.mempages, key=lambda pages: pages.size_kb)
    return int(page.total * page.size_kb // units.Ki)


def _assignable(text: str | None, nodes: frozenset[int]) -> list[str]:
    """The addresses of devices on some nodes that guests may have."""
    specs = whitelist.Whitelist(CONF.pci.device_spec)
    return [
        device['address']
        for device in json.loads(text or '[]')
        if device.get('numa_node') in nodes and specs.device_assignable(device)
    ]
