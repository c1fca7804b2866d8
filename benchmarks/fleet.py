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

"""A fleet of hosts as nova-scheduler has them, and requests for guests.

Each is Nova's HostState, updated from Nova's ComputeNode. Half of the hosts
have floating guests and half have affined ones, all of them placed by Nova's
own code.
"""

from collections.abc import Sequence
import datetime
import os
from typing import Any

from nova import objects
import nova.conf
from nova.scheduler import host_manager
from oslo_utils import timeutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import conf, isolation, occupancy, refusals, report
from nova_numa_guard.scheduler import host_states
from tests.unit import samples

CONF = nova.conf.CONF

objects.register_all()

SMALL = os.sysconf('SC_PAGESIZE') // 1024
HUGE, GIANT = 2048, 1048576  # KiB
CELL = 65536  # MiB of each host cell
HUGE_PAGES, GIANT_PAGES = 12288, 16
AFFINED, FLOATING = 3, 8  # guests on a host
POOL = 'aggregate_instance_extra_specs:pool'
WEIGHER = 'nova_numa_guard.scheduler.weights.NUMAGuardWeigher'

# Hosts share their aggregates, as they do in HostManager.
AGGREGATES = (
    objects.Aggregate(name='az', metadata={'availability_zone': 'here'}),
    objects.Aggregate(name='pool', metadata={'pool': 'general'}),
)


def set_up(**options: Any) -> None:
    """Nova's options; those of [numa_guard] as given."""
    conf.register_opts(CONF)
    CONF([], default_config_files=[], default_config_dirs=[])
    CONF.set_override('weight_classes', [WEIGHER], 'filter_scheduler')
    for name, value in options.items():
        CONF.set_override(name, value, 'numa_guard')


def _cell(index: int) -> Any:
    cell = samples.host_cell(index, memory=CELL)
    taken = HUGE_PAGES * HUGE + GIANT_PAGES * GIANT
    cell.mempages = [
        objects.NUMAPagesTopology(size_kb=size, total=total, used=0)
        for size, total in (
            (SMALL, (CELL * 1024 - taken) // SMALL),
            (HUGE, HUGE_PAGES),
            (GIANT, GIANT_PAGES),
        )
    ]
    return cell


def request(affined: bool, **extra_specs: str) -> Any:
    """A guest of 4 GiB, of two cells of huge pages if it is affined."""
    cells = (
        samples.guest_cell(2048, cpus=(0,), page_size=HUGE, node=0),
        samples.guest_cell(2048, cpus=(1,), page_size=HUGE, node=1),
    )
    spec = samples.request(*(cells if affined else ()), memory=4096)
    spec.image = objects.ImageMeta(properties=objects.ImageMetaProps())
    spec.flavor.extra_specs = {POOL: 'general', **extra_specs}
    spec.ignore_hosts = spec.force_hosts = spec.force_nodes = None
    spec.requested_destination = spec.instance_group = None
    spec.project_id = uuids.project
    spec.limits = objects.SchedulerLimits()
    return spec


def _template(cells: int, affined: bool) -> host_manager.HostState:
    """A host with guests of one kind."""
    state = samples.host_state(
        *map(_cell, range(cells)), memory=cells * CELL, used=512
    )
    state.allocation_candidates = [{'mappings': {}}]
    for _ in range(AFFINED if affined else FLOATING):
        state.consume_from_request(request(affined))
    assert state.num_instances == (AFFINED if affined else FLOATING)
    return state


class Fleet:
    """So many hosts, each of which has so many cells.

    ``hosts`` are without reports until they are given some.
    """

    def __init__(self, hosts: int, cells: int) -> None:
        self.cells = cells
        templates = [_template(cells, affined) for affined in (False, True)]
        texts = [each.numa_topology._to_json() for each in templates]
        self.hosts = [
            self._host(number, templates[number % 2], texts[number % 2])
            for number in range(hosts)
        ]

    def _host(self, number: int, template: Any, text: str) -> Any:
        compute = samples.compute_node(
            memory=self.cells * CELL,
            used=template.total_usable_ram_mb - template.free_ram_mb,
            vcpus_used=template.vcpus_used,
            stats={'num_instances': str(template.num_instances)},
        )
        compute.numa_topology = text
        state = host_manager.HostState(
            f'compute-{number:05}', f'compute-{number:05}', uuids.cell
        )
        state.update(
            compute=compute,
            aggregates=list(AGGREGATES),
            service={
                'disabled': False,
                'forced_down': False,
                'last_seen_up': timeutils.utcnow().replace(
                    tzinfo=datetime.UTC
                ),
            },
        )
        return state

    def report(self, kind: isolation.Isolation | None) -> None:
        """Let all hosts have reported, and be isolated so; None: none has.

        The scheduler has decoded the reports, as it has all but those that
        have changed since the last request. Their texts are others, as they
        are when it reads them anew from the database.
        """
        for number, host in enumerate(self.hosts):
            host.stats = dict(host.stats)
            host.stats.pop(report.STATS_KEY, None)
            if kind is not None:
                text = record_text(number, self.cells, kind)
                host.stats[report.STATS_KEY] = text
                host_states.report_of(host)
                host.stats[report.STATS_KEY] = ''.join([*text])


def record_text(number: int, cells: int, kind: isolation.Isolation) -> str:
    """What a host reports."""
    affined = bool(number % 2)
    guests = occupancy.Share(
        AFFINED if affined else FLOATING,
        4096 * (AFFINED if affined else FLOATING),
        2 * (AFFINED if affined else FLOATING),
    )
    hidden = None
    if kind is isolation.Isolation.CELL:
        # Nova does not see the cell.
        hidden = report.FloatingCells((cells,), 14, CELL)
    used = AFFINED * 1024 if affined else 0
    return samples.record_text(
        kind.value,
        floating=occupancy.NOBODY if affined else guests,
        affined=guests if affined else occupancy.NOBODY,
        small_memory=cells * (CELL - HUGE_PAGES * 2 - GIANT_PAGES * 1024),
        cells=hidden,
        headroom={
            HUGE: {
                node: HUGE_PAGES - (used if node < 2 else 0) - number % 97
                for node in range(cells)
            },
            GIANT: dict.fromkeys(range(cells), GIANT_PAGES),
        },
        # Some have refused a guest lately.
        refused=(refusals.Refusal(0, GIANT, 4e9),) if not number % 50 else (),
    )


def offer(hosts: Sequence[Any]) -> None:
    """Let Placement offer each host: a filter takes the offers away."""
    for host in hosts:
        host.allocation_candidates = [{'mappings': {}}]
