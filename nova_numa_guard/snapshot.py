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

"""The gauges of one audit, for Prometheus.

doc/source/metrics.rst describes each.
"""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses

from oslo_utils import units
from prometheus_client import core, registry

_POOL_GAUGES = {
    'total': 'Huge pages of the pool.',
    'free': 'Huge pages that the kernel has free.',
    'configured': 'Huge pages that reserved_huge_pages leaves to others.',
    'reserved': 'Huge pages that Nova leaves to others.',
    'claimed': 'Huge pages that the guests of this host may use.',
    'unaccounted': 'Huge pages in use by what Nova does not know.',
}


@dataclasses.dataclass(frozen=True, slots=True)
class PoolFigures:
    """One pool of huge pages as an audit found it.

    All but the first two are in pages, and None if they could not be read.

    :param node: id of the host's NUMA node
    :param page_size: KiB
    :param total: pages of the pool
    :param free: those that the kernel has free
    :param configured: those that [DEFAULT] reserved_huge_pages says
    :param reserved: those that Nova leaves to others
    :param claimed: those that the guests of this host may use
    :param unaccounted: those in use by what Nova does not know
    """

    node: int
    page_size: int
    total: int | None = None
    free: int | None = None
    configured: int | None = None
    reserved: int | None = None
    claimed: int | None = None
    unaccounted: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Kinds:
    """The guests that Nova counts on a host, told apart by kind.

    :param isolation: that is in force on the host
    :param memory: MiB of their flavors, by kind
    """

    isolation: str
    memory: Mapping[str, int]


class Snapshot(registry.Collector):
    """The gauges of the last audit, and nothing of the one before.

    A Gauge of the library keeps every label that it was ever given: a pool
    that is gone, or cannot be read any more, would show its last figures.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._metrics = _gauges((), {}, {}, None)

    def set(
        self,
        pools: Iterable[PoolFigures],
        numatunes: Mapping[str, int],
        remote: Mapping[int, int],
        kinds: Kinds | None = None,
    ) -> None:
        self._metrics = _gauges(pools, numatunes, remote, kinds)

    def collect(self) -> Iterator[core.Metric]:
        yield from self._metrics

    def describe(self) -> Iterator[core.Metric]:
        yield from _gauges((), {}, {}, None)


def _gauges(
    pools: Iterable[PoolFigures],
    numatunes: Mapping[str, int],
    remote: Mapping[int, int],
    kinds: Kinds | None,
) -> list[core.Metric]:
    # Numbers here, because what is none would fail every scrape later.
    found = tuple(pools)
    metrics: list[core.Metric] = []
    for name, text in _POOL_GAUGES.items():
        pool_gauge = core.GaugeMetricFamily(
            f'numa_guard_pool_{name}', text, labels=('numa_node', 'page_size')
        )
        for pool in found:
            pages = getattr(pool, name)
            if pages is not None:
                pool_gauge.add_metric(
                    (str(pool.node), str(pool.page_size)), float(pages)
                )
        metrics.append(pool_gauge)
    guests = core.GaugeMetricFamily(
        'numa_guard_guests',
        'Guests of this host, by how their memory is bound.',
        labels=('numatune',),
    )
    for numatune, count in numatunes.items():
        guests.add_metric((str(numatune),), float(count))
    elsewhere = core.GaugeMetricFamily(
        'numa_guard_remote_small_memory_bytes',
        "Memory in small pages on nodes that are not the guests' own.",
        labels=('numa_node',),
    )
    for node, size in remote.items():
        elsewhere.add_metric((str(node),), float(size))
    memory = core.GaugeMetricFamily(
        'numa_guard_guest_memory_bytes',
        "Memory of the guests' flavors, by kind.",
        labels=('kind',),
    )
    in_force = core.GaugeMetricFamily(
        'numa_guard_isolation',
        '1 for the isolation that is in force.',
        labels=('isolation',),
    )
    if kinds is not None:
        in_force.add_metric((str(kinds.isolation),), 1)
        for kind, size in kinds.memory.items():
            memory.add_metric((str(kind),), float(size * units.Mi))
    return [*metrics, guests, elsewhere, memory, in_force]
