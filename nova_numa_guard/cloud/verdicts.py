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

"""What the guard's filter and Nova's make of hosts, and why."""

import copy
import dataclasses
from typing import Any

from nova import exception, objects
import nova.conf
from nova.scheduler.filters import numa_topology_filter
from nova.virt import hardware

from nova_numa_guard import explanation, fitting, occupancy, report
from nova_numa_guard.cloud import hosts, requests, topologies
from nova_numa_guard.scheduler import host_states, judgement

CONF = nova.conf.CONF

Opinion, Word = explanation.Opinion, explanation.Word

_UNKNOWN = Opinion(
    Word.FAILS,
    'do not fit for a reason that is not known',
    'Nova says that it does not fit. The reason is not known: the cells have '
    'the pages, the memory and the CPUs',
)


class Explainer:
    """Judges hosts for one request.

    :raises ValueError: an option of the guard's is bad
    """

    def __init__(self, request: requests.Request) -> None:
        self._spec = request.spec
        self._left = request.host
        self._request = judgement.Judge().request(request.spec)
        self._nova = numa_topology_filter.NUMATopologyFilter()
        asked = request.spec.pci_requests
        self._pci = asked.requests if asked else None
        self._network = None
        if 'network_metadata' in request.spec:
            self._network = request.spec.network_metadata

    @property
    def kind(self) -> str:
        """What sort of guest it is."""
        kind = self._request.kind
        return kind.value if kind else 'exempt'

    def remarks(self, assume_empty: bool) -> list[str]:
        """What an operator should know beside the verdicts."""
        found = []
        enabled = CONF.filter_scheduler.enabled_filters
        for name in ('NUMAGuardFilter', 'NUMATopologyFilter'):
            if name not in enabled:
                found.append(
                    f'{name} is not among [filter_scheduler] enabled_filters: '
                    'nova-scheduler does not ask it.'
                )
        if self._left:
            found.append(
                f'The server is on host {self._left}; others are judged as '
                'for a move.'
            )
        if assume_empty and self._pci:
            found.append('PCI devices in use count as in use.')
        return found

    def of(self, host: hosts.Host) -> explanation.Finding:
        """What is known of one host."""
        away = host.away
        if not away and not host.reported:
            away = 'have not reported yet'
        if not away and host.name == self._left:
            away = 'holds the server'
        if not host.reported:
            unknown = Opinion(Word.UNKNOWN, away, 'it has not reported yet')
            return explanation.Finding(host.name, away, unknown, unknown)
        return explanation.Finding(
            host.name, away, self._guard(host.state), self._novas(host.state)
        )

    def _guard(self, state: Any) -> explanation.Opinion:
        try:
            look = self._request.look(state)
            verdict = self._request.fits(state, look)
        except Exception as exc:
            # The filter lets it pass then, and warns.
            return Opinion(Word.PASSES, text=f'unreadable: {exc!r}')
        return explanation.guards(
            verdict, look.rule.decision.enforce, self._request.lenient
        )

    def _novas(self, state: Any) -> explanation.Opinion:
        if not self._threads(state):
            return _fails(
                'without hyperthreads',
                'cpu_thread_policy is "require", and the host has no '
                'hyperthreads',
            )
        # The filter itself would copy the whole request for each host, which
        # takes longer than all the rest.
        if not self._spec.numa_topology or self._fits(
            state, self._pci, self._network
        ):
            return Opinion(Word.PASSES)
        if not state.numa_topology:
            return Opinion(
                Word.FAILS,
                'report no NUMA topology',
                'the host reports no NUMA topology',
            )
        known = fitting.fit(
            topologies.guest_cells(self._spec.numa_topology),
            topologies.host_cells(state.numa_topology),
            fitting.Ratios(
                state.cpu_allocation_ratio, state.ram_allocation_ratio
            ),
        )
        if not known.fits:
            return Opinion(Word.FAILS, known.short, known.text)
        return self._beyond(state)

    def _beyond(self, state: Any) -> explanation.Opinion:
        """Why it fails although its cells have what is needed.

        Nova is asked again, without what may be in the way.
        """
        cells = self._spec.numa_topology.cells
        pins = any(cell.cpu_policy in topologies.PINS for cell in cells)
        if not self._fits(state):
            if pins:
                return _fails(
                    'short of cores',
                    'there are as many dedicated CPUs as are needed, but not '
                    'the cores that cpu_thread_policy asks for',
                )
            return _UNKNOWN
        if self._pci and not self._fits(state, pci=self._pci):
            devices = ', '.join(
                f'{each.count} {each.alias_name or "of a port"}'
                for each in self._pci
            )
            return _fails(
                'short of PCI devices',
                f'PCI devices ({devices}) are not free near the host cells '
                'that have the rest',
            )
        if self._network and not self._fits(state, network=self._network):
            return _fails(
                'far from a network',
                'its networks are on other host cells than those that have '
                'the rest',
            )
        return _UNKNOWN

    def _threads(self, state: Any) -> bool:
        """Nova's own condition; private there, and without effects."""
        return bool(
            self._nova._satisfies_cpu_policy(
                state,
                self._spec.flavor.extra_specs,
                self._spec.image.properties,
            )
        )

    def _fits(self, state: Any, pci: Any = None, network: Any = None) -> bool:
        limits = objects.NUMATopologyLimits(
            cpu_allocation_ratio=state.cpu_allocation_ratio,
            ram_allocation_ratio=state.ram_allocation_ratio,
        )
        if network:
            limits.network_metadata = network
        try:
            found = hardware.numa_fit_instance_to_host(
                state.numa_topology,
                self._spec.numa_topology.obj_clone(),
                provider_mapping=None,
                limits=limits,
                pci_requests=pci,
                pci_stats=state.pci_stats,
            )
        except exception.NovaException:
            return False
        return found is not None


def _fails(short: str, text: str) -> explanation.Opinion:
    return Opinion(Word.FAILS, short, text)


def emptied(host: hosts.Host) -> hosts.Host:
    """A host as if it had no guest; what is reserved stays reserved.

    PCI devices stay as they are: how many there are in all Nova does not tell
    a scheduler.
    """
    state = copy.copy(host.state)
    if not host.reported:
        return host
    record = host_states.report_of(state)
    reserved = (
        record.correction
        if record
        else occupancy.Correction(CONF.reserved_host_memory_mb)
    )
    state.free_ram_mb = state.total_usable_ram_mb - reserved.reserved_memory
    state.vcpus_used = reserved.reserved_cpus
    state.num_instances = 0
    if state.numa_topology:
        state.numa_topology = state.numa_topology.obj_clone()
        for cell in state.numa_topology.cells:
            cell.cpu_usage = cell.memory_usage = 0
            cell.pinned_cpus = set()
            for pages in cell.mempages or ():
                pages.used = 0
    if record:
        state.stats = {
            **state.stats,
            report.STATS_KEY: report.encode(
                dataclasses.replace(
                    record,
                    correction=occupancy.Correction(
                        reserved.reserved_memory, reserved.reserved_cpus
                    ),
                    floating=occupancy.NOBODY,
                    affined=occupancy.NOBODY,
                    dominant=None,
                )
            ),
        }
    return hosts.Host(state, host.zone, host.away, host.aggregates)
