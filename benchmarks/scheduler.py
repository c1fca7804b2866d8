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

"""How long the filter and the weigher take for a host, beside Nova's own.

Of fleets of 100, 1,000 and 10,000 hosts with 2 and 8 NUMA cells, under each
isolation, with reports of the hosts and without. The weigher's part includes
its multiplier, which Nova asks for each host. NUMATopologyFilter takes so long
that at most 100 hosts are asked, from all over the fleet.

Run it as ``python -m benchmarks.scheduler``.
"""

from typing import Any

from nova.scheduler import weights as nova_weights
from nova.scheduler.filters import (
    aggregate_instance_extra_specs,
    numa_topology_filter,
)

from benchmarks import fleet, side_by_side
from nova_numa_guard import isolation
from nova_numa_guard.scheduler import filters, weights

SIZES = (100, 1000, 10000)
CELLS = (2, 8)


def weigh(weigher: weights.NUMAGuardWeigher, hosts: Any, spec: Any) -> None:
    """What Nova's handler asks of a weigher."""
    weigher.weigh_objects(hosts, spec)
    for weighed in hosts:
        weigher.weight_multiplier(weighed.obj)


def one(
    results: side_by_side.Results,
    name: str,
    hosts: list[Any],
    affined: bool,
) -> None:
    spec = fleet.request(affined)
    few = hosts[:: max(1, len(hosts) // 100)][:100]
    weighed = [nova_weights.WeighedHost(host, 0.0) for host in hosts]
    guard, weigher = filters.NUMAGuardFilter(), weights.NUMAGuardWeigher()
    aggregates = (
        aggregate_instance_extra_specs.AggregateInstanceExtraSpecsFilter()
    )
    topology = numa_topology_filter.NUMATopologyFilter()
    results.time(
        {
            f'{name}: NUMAGuardFilter': side_by_side.Timed(
                lambda: list(guard.filter_all(hosts, spec)), len(hosts)
            ),
            f'{name}: NUMAGuardWeigher': side_by_side.Timed(
                lambda: weigh(weigher, weighed, spec), len(hosts)
            ),
            f'{name}: AggregateInstanceExtraSpecsFilter': side_by_side.Timed(
                lambda: list(aggregates.filter_all(hosts, spec)), len(hosts)
            ),
            f'{name}: NUMATopologyFilter': side_by_side.Timed(
                lambda: list(topology.filter_all(few, spec)),
                len(few),
                lambda: fleet.offer(few),
            ),
        }
    )


def main() -> None:
    results = side_by_side.Results(__doc__)
    fleet.set_up()
    for cells in CELLS:
        whole = fleet.Fleet(max(SIZES), cells)
        for kind in isolation.Isolation:
            fleet.CONF.set_override('isolation', kind.value, 'numa_guard')
            for reports in (True, False):
                whole.report(kind if reports else None)
                for size in SIZES:
                    for affined in (False, True):
                        one(
                            results,
                            f'{size} hosts of {cells} cells, isolation '
                            f'{kind.value}, '
                            f'{"with" if reports else "without"} reports, '
                            f'{"affined" if affined else "floating"}',
                            whole.hosts[:size],
                            affined,
                        )
        del whole
    results.write()


if __name__ == '__main__':
    main()
