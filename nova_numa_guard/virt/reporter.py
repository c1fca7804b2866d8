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

"""Make the record of a compute host, and its topology, for Nova's tracker."""

from collections.abc import Callable
import dataclasses
import time
from typing import Any

from nova import context as nova_context
from nova import exception, objects
import nova.conf
from nova.virt import hardware
from oslo_log import log as logging

from nova_numa_guard import (
    census,
    guests,
    installed,
    isolation,
    metrics,
    occupancy,
    pools,
    refusals,
    report,
    snapshot,
)
from nova_numa_guard.virt import (
    claims,
    complaints,
    floating_cells,
    guest_xml,
    host_guests,
    late_check,
    truth,
)

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class Reporter:
    """What one compute host tells the scheduler, from audit to audit.

    :param kernel: where the figures of its pools come from
    :param complained: who is told of what cannot be read
    :param running: what the domains that run may use; without it Nova is told
        of pages what it knows itself
    :param launching: tells the uuids of guests whose launch has begun, and
        has not returned

    ``kinds`` are the guests that the last audit found; None if it could not
    tell.
    """

    def __init__(
        self,
        kernel: pools.Kernel,
        cells: floating_cells.FloatingCells,
        check: late_check.LateCheck,
        refused: refusals.Refusals,
        complained: complaints.Complaints,
        running: claims.Claims | None = None,
        launching: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self.kernel = kernel
        self.truth = truth.Truth(running, launching, complained)
        self._cells = cells
        self._check = check
        self._refused = refused
        self._mixed = False
        self._started = False
        self._complaints = complained
        self._last: report.Report | None = None
        self.kinds: snapshot.Kinds | None = None

    def complete(self, resources: dict[str, Any], host: str) -> None:
        """Put the record into what the driver tells Nova's tracker.

        :param resources: what get_available_resource() returns; it is changed
        :param host: the name of this compute host
        """
        self.kinds = None
        node = resources['hypervisor_hostname']
        found = self._find(host, node)
        text = resources.get('numa_topology')
        # The record is made of the same figures as those that Nova gets.
        text = self.truth.tell(text, self.kernel, found)
        resources['numa_topology'] = self._cells.hide(text)
        try:
            self._report(resources, text, found)
        except Exception as exc:
            # Nova's audit would end, and with it all news of this host.
            self._complaints.add('This host does not report to the guard', exc)

    def refreshed(self) -> str | None:
        """The last record, with the refusals and free pages of now.

        For a refusal between two audits. None if there was no audit yet.
        """
        if self._last is None:
            return None
        headroom = self._headroom()
        return report.encode(
            dataclasses.replace(
                self._last,
                headroom=headroom,
                refused=self._current(headroom),
            )
        )

    def _report(
        self,
        resources: dict[str, Any],
        text: str | None,
        found: list[host_guests.Found] | None,
    ) -> None:
        topology = objects.NUMATopology.obj_from_db_obj(text) if text else None
        record = self._record(topology, resources['numa_topology'], found)
        self._last = record
        if found is not None:
            self.kinds = snapshot.Kinds(
                record.isolation.value,
                {
                    guests.Kind.FLOATING.value: record.floating.memory,
                    guests.Kind.AFFINED.value: record.affined.memory,
                },
            )
        resources.setdefault('stats', {})[report.STATS_KEY] = report.encode(
            record
        )
        if record.floating_cells and not self._started and found is not None:
            self._started = True
            self._cells.warn(
                record.floating_cells,
                found,
                resources.get('pci_passthrough_devices'),
            )

    def _find(self, host: str, node: str) -> list[host_guests.Found] | None:
        """The guests of this host; None if Nova's records cannot be read."""
        try:
            found = host_guests.find(
                nova_context.get_admin_context(), host, node
            )
        except Exception as exc:
            self._complaints.add(
                'The guests of this host are not known, and are not in its '
                'report',
                exc,
                metrics.Source.NOVA,
            )
            return None
        return found

    def _record(
        self,
        topology: Any,
        visible: str | None,
        found: list[host_guests.Found] | None,
    ) -> report.Report:
        known = found or []
        here = [each.guest for each in known]
        sums = census.tally(here)
        present = census.content(here)
        if found is not None:
            self._check.last = isolation.dominant(present, self._check.last)
            self._warn_if_mixed(present, here)
        seen = self._seen(visible, found) if found is not None else None
        host = topology.cells if topology else ()
        headroom = self._headroom()
        cells = self._cells.capacity(topology, known)
        in_force = isolation.Isolation(CONF.numa_guard.isolation)
        if in_force is isolation.Isolation.CELL and cells is None:
            in_force = isolation.Isolation.NONE  # nothing is confined yet
        return report.Report(
            isolation=in_force,
            enforce=self._check.enforce,
            correction=occupancy.Correction(
                reserved_memory=CONF.reserved_host_memory_mb,
                reserved_cpus=CONF.reserved_host_cpus,
                unseen_memory=(
                    max(0, sums.tied.memory - seen.memory) if seen else 0
                ),
                unseen_vcpus=sums.tied.vcpus - seen.vcpus if seen else 0,
                exempt_floating=sums.exempt_floating,
                exempt_affined=sums.exempt_affined,
            ),
            floating=sums.floating,
            affined=sums.affined,
            dominant=self._check.last,
            small_memory=(
                sum(map(floating_cells.small_memory, host)) if host else None
            ),
            floating_cells=cells,
            headroom=headroom,
            refused=self._current(headroom),
            written=guest_xml.here(self._cells.confinement),
            guard=installed.guard(),
        )

    def _current(
        self, headroom: dict[int, dict[int, int]]
    ) -> tuple[refusals.Refusal, ...]:
        return self._refused.current(
            time.time(),
            {
                (node, size): free
                for size, nodes in headroom.items()
                for node, free in nodes.items()
            },
        )

    def _headroom(self) -> dict[int, dict[int, int]]:
        free: dict[int, dict[int, int]] = {}
        try:
            for pool in self.kernel.pools():
                free.setdefault(pool.page_size, {})[pool.node] = pool.free
        except pools.UnreadableError as exc:
            self._complaints.add(
                'Free huge pages are not in the report',
                exc,
                metrics.Source.KERNEL,
            )
            return {}
        return free

    def _seen(
        self, visible: str | None, found: list[host_guests.Found]
    ) -> occupancy.Share | None:
        """What Nova's tracker shows of affined guests in the host's cells.

        By Nova's own function: it counts shared CPUs here and pinned ones
        there, and cores where threads are isolated. None if it cannot be
        told, as when guests claim the same CPU.
        """
        if visible is None:
            return occupancy.NOBODY
        topology = objects.NUMATopology.obj_from_db_obj(visible)
        try:
            for each in found:
                topology = hardware.numa_usage_from_instance_numa(
                    topology, each.topology
                )
        except (exception.NovaException, ValueError) as exc:
            self._complaints.add(
                'What Nova counts of affined guests on this host is not known',
                exc,
            )
            return None
        return occupancy.Share(
            memory=sum(cell.memory_usage for cell in topology.cells),
            vcpus=sum(
                cell.cpu_usage + len(cell.pinned_cpus)
                for cell in topology.cells
            ),
        )

    def _warn_if_mixed(
        self, present: occupancy.HostContent, here: list[census.HostGuest]
    ) -> None:
        """Say once that this host holds both kinds, until it does not."""
        by_host = isolation.Isolation.HOST.value
        was, self._mixed = self._mixed, present.mixed
        if not self._mixed or was or CONF.numa_guard.isolation != by_host:
            return
        minority = sorted(
            guest.uuid
            for guest in here
            if guest.kind not in (self._check.last, None)
        )
        LOG.warning(
            'NUMA guard: this host holds both kinds of guest, floating ones '
            'of %d MiB and affined ones of %d MiB; the minority is %s',
            present.floating,
            present.affined,
            ', '.join(minority),
        )
