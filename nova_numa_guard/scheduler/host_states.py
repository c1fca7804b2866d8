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

"""Translate Nova's HostState and RequestSpec into what isolation.py judges."""

import functools
from typing import Any

import nova.conf
from oslo_log import log as logging

from nova_numa_guard import guests, isolation, report

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


def kind_of(spec_obj: Any) -> guests.Kind:
    """The kind of the guest that a RequestSpec asks for."""
    return guests.kind_of(bool(spec_obj.numa_topology))


def content_of(host_state: Any) -> isolation.HostContent:
    """The guests on a host, by kind.

    Reads only what HostState holds, and nothing that loads lazily:
    ``HostState.instances`` would ask the database guest by guest. All of it
    is kept up to date while the guests of one request are placed one by one,
    except for ``stats``, of which nothing that changes is used.
    """
    record = _report_of(host_state)
    topology = host_state.numa_topology
    return isolation.content(
        isolation.HostUsage(
            memory=host_state.total_usable_ram_mb - host_state.free_ram_mb,
            vcpus=host_state.vcpus_used,
            guests=host_state.num_instances,
            cells=tuple(
                isolation.CellUsage(
                    memory=cell.memory_usage,
                    cpus=cell.cpu_usage + len(cell.pinned_cpus),
                )
                for cell in (topology.cells if topology else ())
            ),
            reserved=(
                record.reserved_memory
                if record
                else CONF.reserved_host_memory_mb
            ),
            reported=record is not None,
        )
    )


def _report_of(host_state: Any) -> report.Report | None:
    stats = getattr(host_state, 'stats', None)
    text = stats.get(report.STATS_KEY) if isinstance(stats, dict) else None
    return _decode(host_state.host, text if text is None else str(text))


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
