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

"""The compute hosts, as nova-scheduler sees them."""

from collections.abc import Iterable
import dataclasses
from typing import Any

from nova import servicegroup
import nova.conf
from nova.scheduler import host_manager

from nova_numa_guard.cloud import config, errors

CONF = nova.conf.CONF


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A compute host.

    :param state: nova.scheduler.host_manager.HostState
    :param zone: its availability zone
    :param away: why the scheduler does not choose it: ``disabled`` or
        ``down``; empty if it may
    :param aggregates: their names
    """

    state: Any
    zone: str
    away: str = ''
    aggregates: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Of the compute service."""
        return str(self.state.host)

    @property
    def reported(self) -> bool:
        """Whether its nova-compute has ever told what it has."""
        return self.state.uuid is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Fleet:
    """The compute hosts of a cloud, by name.

    :param silent: Nova's cells whose database did not answer
    """

    hosts: tuple[Host, ...]
    silent: tuple[str, ...] = ()

    def named(self, name: str) -> 'Fleet':
        """One host of it.

        :raises CloudError: there is none of that name
        """
        found = tuple(host for host in self.hosts if host.name == name)
        if not found:
            silent = ''.join(
                f'; the database of cell {cell} did not answer'
                for cell in self.silent
            )
            raise errors.CloudError(
                f'There is no compute host {name}{silent}. openstack compute '
                'service list --service nova-compute lists them.'
            )
        return Fleet(found, self.silent)


class _Manager(host_manager.HostManager):
    """The scheduler's, without what costs a query for each host.

    Which guests a host has neither of the filters asks.
    """

    def _load_filters(self) -> list[str]:
        return []

    def _init_instance_info(self, computes_by_cell: Any = None) -> None:
        pass

    def _get_instance_info(self, context: Any, compute: Any) -> dict[str, Any]:
        return {}

    def fleet(self, context: Any) -> Fleet:
        nodes, services = self._get_computes_for_cells(
            context, self.enabled_cells, compute_uuids=None
        )
        silent = tuple(
            sorted(
                cell.name or cell.uuid
                for cell in self.enabled_cells
                if cell.uuid not in nodes
            )
        )
        is_up = servicegroup.API().service_is_up
        states = self._get_host_states(context, nodes, services)
        hosts = (_host(state, is_up) for state in states)
        return Fleet(
            tuple(sorted(hosts, key=lambda h: (h.name, h.state.nodename))),
            silent,
        )


def read() -> Fleet:
    """All compute hosts of the cells that are enabled.

    :raises CloudError: a database does not answer, or the configuration is
        not one that nova-scheduler would start with
    """
    with config.reading() as context:
        try:
            manager = _Manager()
        except (ImportError, ValueError) as exc:
            raise errors.CloudError(
                f'nova-scheduler would not start: {exc}'
            ) from exc
        return manager.fleet(context)


def _host(state: Any, is_up: Any) -> Host:
    away = ''
    if state.service['disabled']:
        away = 'disabled'
    elif not is_up(state.service):
        away = 'down'
    return Host(
        state,
        _zone(aggregate.metadata for aggregate in state.aggregates),
        away,
        tuple(sorted(aggregate.name for aggregate in state.aggregates)),
    )


def _zone(metadata: Iterable[dict[str, str]]) -> str:
    """As Nova has it: an aggregate says so, or it is the default one."""
    for each in metadata:
        if 'availability_zone' in each:
            return each['availability_zone']
    return str(CONF.default_availability_zone)
