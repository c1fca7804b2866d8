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

"""How long nova-scheduler takes to choose a host, with the guard and without.

What Nova's scheduler does for a request once Placement has answered: the
filters that are on by default and NUMATopologyFilter, all of Nova's weighers,
and the order of the hosts. With the guard NUMAGuardFilter is there as well,
before NUMATopologyFilter, and NUMAGuardWeigher. Half of the hosts are of each
kind, have two NUMA cells, and are isolated by host.

Run it as ``python -m benchmarks.select_destinations``.
"""

from typing import Any

from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager, manager
from nova.scheduler import weights as nova_weights

from benchmarks import fleet, side_by_side
from nova_numa_guard import isolation

HOSTS = 300
FILTER = 'nova_numa_guard.scheduler.filters.NUMAGuardFilter'


def scheduler(guard: bool) -> manager.SchedulerManager:
    """Nova's, without what its constructors ask the database for."""
    found = object.__new__(manager.SchedulerManager)
    hosts = object.__new__(host_manager.HostManager)
    found.host_manager = hosts
    available = ['nova.scheduler.filters.all_filters']
    names = list(fleet.CONF.filter_scheduler.enabled_filters)
    classes = ['nova.scheduler.weights.all_weighers']
    if guard:
        available.append(FILTER)
        names.append('NUMAGuardFilter')
        classes.append(fleet.WEIGHER)
    names.append('NUMATopologyFilter')
    hosts.filter_handler = nova_filters.HostFilterHandler()
    hosts.filter_obj_map = {}
    hosts.filter_cls_map = {
        cls.__name__: cls
        for cls in hosts.filter_handler.get_matching_classes(available)
    }
    hosts.enabled_filters = hosts._choose_host_filters(names)
    hosts.weight_handler = nova_weights.HostWeightHandler()
    hosts.weighers = [
        cls() for cls in hosts.weight_handler.get_matching_classes(classes)
    ]
    return found


def main() -> None:
    results = side_by_side.Results(__doc__)
    fleet.set_up(isolation='host')
    # The services' heartbeats are as old as the fleet.
    fleet.CONF.set_override('service_down_time', 3600)
    fleet.CONF.set_override('isolation', 'host', 'numa_guard')
    stock, guard = scheduler(guard=False), scheduler(guard=True)
    whole = fleet.Fleet(HOSTS, cells=2)
    whole.report(isolation.Isolation.HOST)

    def select(chosen: manager.SchedulerManager, spec: Any) -> list[Any]:
        found: list[Any] = chosen._get_sorted_hosts(spec, whole.hosts, 0)
        return found

    for affined in (False, True):
        spec = fleet.request(affined)
        for chosen, count in ((stock, HOSTS), (guard, HOSTS // 2)):
            fleet.offer(whole.hosts)
            assert len(select(chosen, spec)) == count
        kind = 'affined' if affined else 'floating'
        results.time(
            {
                f'{kind}, {name}': side_by_side.Timed(
                    lambda chosen=chosen, spec=spec: select(chosen, spec),
                    HOSTS,
                    lambda: fleet.offer(whole.hosts),
                )
                for name, chosen in (('stock', stock), ('guard', guard))
            }
        )
    results.write()


if __name__ == '__main__':
    main()
