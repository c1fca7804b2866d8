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

This is done for every host and every request, so fields of Nova's objects are
read where Nova keeps them: their properties first ask whether the field is to
be loaded, which takes six times as long, and of these objects none is.
"""

import dataclasses
import itertools
import operator
from typing import Any

import nova.conf
from nova.objects import base
from oslo_log import log as logging
from oslo_utils import units

from nova_numa_guard import guests, isolation, occupancy, policies, report
from nova_numa_guard import room as rooms

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


def fields(*names: str) -> Any:
    """What reads these fields of one of Nova's objects, at once.

    It raises AttributeError if one is not set.
    """
    return operator.attrgetter(*map(base.get_attrname, names))


_cells = fields('cells')
_memory_usage = fields('memory_usage')
_cpus = fields('cpu_usage', 'pinned_cpus')
_mempages = fields('mempages')
_page_size = fields('size_kb')
_pages = fields('size_kb', 'total', 'used')
_RESERVED = base.get_attrname('reserved')


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
    """What the host's compute has reported; None if nothing that we know.

    As Reports has it: without the free pages of most nodes.
    """
    text = _text_of(host_state)
    return None if text is None else _REPORTS.read(host_state.host, text)


def whole_report_of(host_state: Any) -> report.Report | None:
    """The same with the free pages of all nodes, which takes much longer."""
    text = _text_of(host_state)
    return None if text is None else _decode(host_state.host, text)


def _text_of(host_state: Any) -> str | None:
    stats = getattr(host_state, 'stats', None)
    text = stats.get(report.STATS_KEY) if isinstance(stats, dict) else None
    return None if text is None else str(text)


def assumed() -> occupancy.Correction:
    """What is believed of a host that has reported nothing."""
    return occupancy.Correction(CONF.reserved_host_memory_mb)


def content_of(
    host_state: Any,
    record: report.Report | None,
    unreported: occupancy.Correction | None = None,
) -> occupancy.HostContent:
    """The guests on a host, by kind.

    :param unreported: assumed(), for who asks for many hosts
    """
    topology = host_state.numa_topology
    cells = _cells(topology) if topology is not None else ()
    memory = sum(map(_memory_usage, cells))
    # Of a large fleet nothing is in the CPU's caches, and every object more
    # that is looked at costs as much as ten lines of this.
    cpus = None
    if record.floating_cells if record else memory:
        cpus = 0
        for shared, pinned in map(_cpus, cells):
            cpus += shared + len(pinned)
    return occupancy.content(
        host_state.total_usable_ram_mb - host_state.free_ram_mb,
        host_state.vcpus_used,
        host_state.num_instances,
        memory,
        cpus,
        record.correction if record else unreported or assumed(),
        record is not None,
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
    need: rooms.Need,
    record: report.Report | None,
    present: occupancy.HostContent,
    unreported: occupancy.Correction | None = None,
) -> isolation.Verdict | None:
    """Why a guest without a topology has no room; None if it has."""
    capacity = capacity_of(host_state, record, unreported)
    if capacity is None:
        return None
    return rooms.judge(need, present.untied, capacity)


def capacity_of(
    host_state: Any,
    record: report.Report | None,
    unreported: occupancy.Correction | None = None,
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
    fix = record.correction if record else unreported or assumed()
    return rooms.Capacity(
        max(0, memory - fix.reserved_memory),
        None,
        _ratio(host_state.ram_allocation_ratio),
    )


def free_pages(host_state: Any, wanted: int | None) -> list[tuple[int, int]]:
    """The pools by Nova's own figures: pages in KiB, and how many are free.

    :param wanted: KiB; None: of every size
    """
    topology = host_state.numa_topology
    cells = _cells(topology) if topology is not None else ()
    pools = filter(None, map(_mempages, cells))
    found = []
    for pages in itertools.chain.from_iterable(pools):
        if wanted is None or _page_size(pages) == wanted:
            size, total, used = _pages(pages)
            # An old compute has none, as Nova says where it asks for it.
            reserved = getattr(pages, _RESERVED, 0)
            found.append((size, total - used - reserved))
    return found


def _small_memory(host_state: Any, record: report.Report | None) -> int | None:
    """MiB of small pages that affined guests leave to others.

    None if nobody knows.
    """
    reported = record.small_memory if record else None
    topology = host_state.numa_topology
    cells = _cells(topology) if topology is not None else ()
    if not cells:
        return reported
    taken = units.Ki * sum(map(_memory_usage, cells))
    # Most hosts have either kind, and then there is no page to be counted.
    if reported is not None and not taken:
        return reported
    pools = [*map(_mempages, cells)]
    if not all(pools):
        return None
    small = min(map(_page_size, pools[0]))
    total = 0
    for size, count, used in map(_pages, itertools.chain.from_iterable(pools)):
        if size == small:
            total += size * count
        else:
            taken -= size * used
    if reported is not None:
        total = reported * units.Ki
    left: int = (total - taken) // units.Ki
    return max(0, left)


def _ratio(ratio: float | None) -> float:
    """A compute that has not yet said so has none."""
    return ratio or 1.0


class Reports:
    """The records of hosts, decoded anew only when they change.

    It keeps the last one of each host, so that it holds as many as there are
    hosts, and a request that goes over all of them never drops one that the
    next will need. Of the free pages of a size it keeps the node that has
    most, which is all that is asked for: the rest is half of a record.
    Threads may share it: two may decode the same record.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, report.Report | None]] = {}

    def read(self, host: str, text: str) -> report.Report | None:
        """Decode a record, and complain of a bad one only when it changes."""
        known = self._known.get(host)
        if known is None or known[0] != text:
            known = self._known[host] = text, _brief(_decode(host, text))
        return known[1]

    def forget(self) -> None:
        """Decode all of them anew."""
        self._known.clear()


_REPORTS = Reports()


def _decode(host: str, text: str) -> report.Report | None:
    try:
        return report.decode(text)
    except ValueError as exc:
        LOG.warning(
            'The NUMA guard report of host %s is ignored: %s', host, exc
        )
        return None


def _brief(record: report.Report | None) -> report.Report | None:
    if record is None:
        return None
    return dataclasses.replace(
        record,
        headroom={
            size: dict([max(nodes.items(), key=operator.itemgetter(1))])
            if nodes
            else nodes
            for size, nodes in record.headroom.items()
        },
    )
