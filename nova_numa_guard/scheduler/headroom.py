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

"""What is free on a host of the pages that a guest needs."""

from typing import Any

from nova.virt import hardware
from oslo_utils import units

from nova_numa_guard import report
from nova_numa_guard.scheduler import host_states, judgement

# KiB, of any architecture.
_LARGEST_SMALL_PAGE = 64


def page_sizes(spec_obj: Any) -> set[int]:
    """The page sizes that a request names, as Nova writes them.

    KiB, or one of Nova's numbers below zero for small, large and any. Without
    a topology or a size it is small pages.
    """
    topology = spec_obj.numa_topology
    if not topology:
        return {hardware.MEMPAGES_SMALL}
    return {
        cell.pagesize or hardware.MEMPAGES_SMALL for cell in topology.cells
    }


def of(host_state: Any, sizes: set[int], found: judgement.Look) -> int:
    """MiB that are free in the pools that a guest needs, of the scarcest.

    Of huge pages it is the node that has most which counts: a guest's cell
    has to fit on one.

    :param sizes: as page_sizes() has them
    """
    # Nearly every guest has one.
    if len(sizes) == 1:
        (size,) = sizes
        return _free(host_state, size, found)
    return min(_free(host_state, size, found) for size in sizes)


def _free(host_state: Any, size: int, found: judgement.Look) -> int:
    # Each is looked for only where it is asked for: to count small pages
    # takes longer than all the rest.
    if size == hardware.MEMPAGES_LARGE:
        return _huge(host_state, found.record)
    if size == hardware.MEMPAGES_ANY:
        return max(_small(host_state, found), _huge(host_state, found.record))
    if size <= _LARGEST_SMALL_PAGE:
        return _small(host_state, found)
    return _huge(host_state, found.record, size)


def _small(host_state: Any, found: judgement.Look) -> int:
    """MiB of small pages; of all the host if it does not say."""
    capacity = host_states.capacity_of(
        host_state, found.record, found.unreported
    )
    if capacity is None:
        return max(0, int(host_state.free_ram_mb))
    return capacity.memory_left(found.present.untied)


def _huge(
    host_state: Any, record: report.Report | None, size: int | None = None
) -> int:
    """MiB on the node that has most.

    The report has what the kernel has free; without it, Nova's figures.

    :param size: of the pages in KiB; None: of the size that has most
    """
    if record and record.headroom:
        if size is not None:
            nodes = record.headroom.get(size)
            return max(nodes.values()) * size // units.Ki if nodes else 0
        return max(
            (
                max(nodes.values(), default=0) * known // units.Ki
                for known, nodes in record.headroom.items()
            ),
            default=0,
        )
    most = 0
    for known, free in host_states.free_pages(host_state, size):
        if known > _LARGEST_SMALL_PAGE and free * known > most:
            most = free * known
    return most // units.Ki


def refused(record: report.Report | None, sizes: set[int], now: float) -> bool:
    """Whether the host lately refused a guest for want of such pages.

    On which node does not matter: Nova chooses by its own figures, and would
    choose the same node again.

    :param now: seconds since the epoch
    """
    if record is None:
        return False
    return any(
        refusal.page_size in sizes
        or (
            hardware.MEMPAGES_LARGE in sizes
            and refusal.page_size > _LARGEST_SMALL_PAGE
        )
        for refusal in record.refused
        if refusal.expires > now
    )
