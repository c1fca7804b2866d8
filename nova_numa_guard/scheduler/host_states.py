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

"""Translate Nova's HostState and RequestSpec into what the core judges.

It reads only what they hold, and nothing that loads lazily:
``HostState.instances`` would ask the database guest by guest. All of it is
kept up to date while the guests of one request are placed one by one, except
for ``stats``.
"""

import functools
from typing import Any

import nova.conf
from oslo_log import log as logging
from oslo_utils import units

from nova_numa_guard import guests, isolation, occupancy, policies, report
from nova_numa_guard import room as rooms

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


def kind_of(spec_obj: Any) -> guests.Kind | None:
    """The kind of the guest that a RequestSpec asks for; None if exempt."""
    if guests.is_exempt(spec_obj.flavor.extra_specs or {}):
        return None
    return guests.kind_of(bool(spec_obj.numa_topology))


def is_move(spec_obj: Any) -> bool:
    """Whether the guest has a host already, which it has to leave.

    Nova tells the scheduler to ignore that host when it evacuates, migrates
    and, unless it may stay, resizes a guest; for nothing else does it set
    ignore_hosts.
    """
    return bool(
        spec_obj.obj_attr_is_set('ignore_hosts') and spec_obj.ignore_hosts
    )


def report_of(host_state: Any) -> report.Report | None:
    """What the host's compute has reported; None if nothing that we know."""
    stats = getattr(host_state, 'stats', None)
    text = stats.get(report.STATS_KEY) if isinstance(stats, dict) else None
    return _decode(host_state.host, text if text is None else str(text))


def content_of(
    host_state: Any, record: report.Report | None
) -> occupancy.HostContent:
    """The guests on a host, by kind."""
    topology = host_state.numa_topology
    return occupancy.content(
        occupancy.HostUsage(
            memory=host_state.total_usable_ram_mb - host_state.free_ram_mb,
            vcpus=host_state.vcpus_used,
            guests=host_state.num_instances,
            cells=tuple(
                occupancy.CellUsage(
                    memory=cell.memory_usage,
                    cpus=cell.cpu_usage + len(cell.pinned_cpus),
                )
                for cell in (topology.cells if topology else ())
            ),
            correction=(
                record.correction
                if record
                else occupancy.Correction(CONF.reserved_host_memory_mb)
            ),
            reported=record is not None,
        )
    )


def wishes_of(host_state: Any) -> tuple[policies.Wish, ...]:
    """What the host's aggregates ask for, by name."""
    found = [
        policies.wish_of(aggregate.name, aggregate.metadata)
        for aggregate in host_state.aggregates
        if not policies.KEYS.isdisjoint(aggregate.metadata)
    ]
    return tuple(sorted(found, key=lambda wish: wish.name))


def judge_room(
    host_state: Any,
    spec_obj: Any,
    record: report.Report | None,
    present: occupancy.HostContent,
) -> isolation.Verdict | None:
    """Why a guest without a topology has no room; None if it has."""
    need = rooms.Need(spec_obj.memory_mb, spec_obj.vcpus)
    capacity = capacity_of(host_state, record)
    if capacity is None:
        return None
    return rooms.judge(need, present.untied, capacity)


def capacity_of(
    host_state: Any, record: report.Report | None
) -> rooms.Capacity | None:
    """What a host has for guests without a topology; None: nobody knows."""
    if record and record.floating_cells:
        cells = record.floating_cells
        return rooms.Capacity(
            cells.memory,
            cells.cpus,
            _ratio(host_state.ram_allocation_ratio),
            _ratio(host_state.cpu_allocation_ratio),
            cells.cells,
        )
    memory = _small_memory(host_state, record)
    if memory is None:
        return None
    reserved = (
        record.correction.reserved_memory
        if record
        else CONF.reserved_host_memory_mb
    )
    return rooms.Capacity(
        max(0, memory - reserved),
        ram_allocation_ratio=_ratio(host_state.ram_allocation_ratio),
    )


def _small_memory(host_state: Any, record: report.Report | None) -> int | None:
    """MiB of small pages that affined guests leave to others.

    None if nobody knows.
    """
    topology = host_state.numa_topology
    if not topology or not topology.cells:
        return record.small_memory if record else None
    total = taken = 0
    for cell in topology.cells:
        if not cell.mempages:
            return None
        small, *huge = sorted(cell.mempages, key=_size)
        total += small.total * small.size_kb
        taken += cell.memory_usage * units.Ki
        taken -= sum(pages.used * pages.size_kb for pages in huge)
    if record and record.small_memory is not None:
        total = record.small_memory * units.Ki
    return max(0, (total - taken) // units.Ki)


def _size(pages: Any) -> int:
    size: int = pages.size_kb
    return size


def _ratio(ratio: float | None) -> float:
    """A compute that has not yet said so has none."""
    return ratio or 1.0


@functools.lru_cache(maxsize=4096)
def _decode(host: str, text: str | None) -> report.Report | None:
    """Decode a record, and complain of a bad one only when it changes."""
    try:
        return report.decode(text)
    except ValueError as exc:
        LOG.warning(
            'The NUMA guard report of host %s is ignored: %s', host, exc
        )
        return None
