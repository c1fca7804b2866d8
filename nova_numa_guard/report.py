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

"""What a compute host tells the scheduler about itself.

One record in the stats of Nova's ComputeNode, under the key ``numa_guard``:
JSON, with its version first. A scheduler that does not know the version, or
finds no record, uses what Nova itself knows of the host.
"""

from collections.abc import Mapping
import dataclasses
import json
from typing import Any

from nova_numa_guard import (
    confinement,
    guests,
    isolation,
    occupancy,
    refusals,
    sets,
    tuning,
    writing,
)

STATS_KEY = 'numa_guard'
VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class FloatingCells:
    """Where a host that is isolated by cell runs its floating guests.

    :param cells: ids of the host's NUMA nodes
    :param cpus: how many CPUs they share, those of the host's reserve taken
        off
    :param memory: MiB of small pages, what the host keeps and affined guests
        have of them taken off
    """

    cells: tuple[int, ...]
    cpus: int
    memory: int


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The record.

    :param isolation: in force on the host
    :param enforce: whether its late check refuses
    :param correction: what Nova's figures of the host do not tell
    :param floating: guests of that kind when the host last looked, and
    :param affined: those of the other
    :param dominant: the kind that a mixed host takes
    :param small_memory: MiB of small pages of all cells, hidden ones too;
        None if it is not known
    :param floating_cells: None unless the host is isolated by cell
    :param headroom: free huge pages by page size in KiB, and by node
    :param refused: the last ones that have not expired
    :param written: how the host writes the XML of its guests, for those that
        send it some
    :param guard: the version of nova-numa-guard there, for people to read;
        empty if it does not say
    """

    isolation: isolation.Isolation
    enforce: bool
    correction: occupancy.Correction
    floating: occupancy.Share = occupancy.NOBODY
    affined: occupancy.Share = occupancy.NOBODY
    dominant: guests.Kind | None = None
    small_memory: int | None = None
    floating_cells: FloatingCells | None = None
    headroom: Mapping[int, Mapping[int, int]] = dataclasses.field(
        default_factory=dict
    )
    refused: tuple[refusals.Refusal, ...] = ()
    written: writing.Writing = writing.STOCK
    guard: str = ''


def encode(report: Report) -> str:
    """Write the record as text for ComputeNode.stats."""
    fix = report.correction
    cells = report.floating_cells
    return json.dumps(
        {
            'version': VERSION,
            'isolation': report.isolation.value,
            'enforce': report.enforce,
            'reserved': [fix.reserved_memory, fix.reserved_cpus],
            'unseen': [fix.unseen_memory, fix.unseen_vcpus],
            'floating': _numbers(report.floating),
            'affined': _numbers(report.affined),
            'exempt_floating': _numbers(fix.exempt_floating),
            'exempt_affined': _numbers(fix.exempt_affined),
            'dominant': report.dominant and report.dominant.value,
            'small_memory': report.small_memory,
            'floating_cells': cells
            and [list(cells.cells), cells.cpus, cells.memory],
            'headroom': {
                str(size): {str(node): free for node, free in nodes.items()}
                for size, nodes in report.headroom.items()
            },
            'refusals': [
                [refusal.node, refusal.page_size, refusal.expires]
                for refusal in report.refused
            ],
            'writing': _words(report.written),
            **({'guard': report.guard} if report.guard else {}),
        },
        separators=(',', ':'),
    )


def decode(text: object) -> Report | None:
    """Read the record of a host; None if there is none, or not one we know.

    :param text: what ComputeNode.stats holds, which may be anything
    :raises ValueError: it is a record, but not a sound one
    """
    if text is None:
        return None
    try:
        record = json.loads(str(text))
        if int(record['version']) != VERSION:
            return None
        return _report(record)
    except (
        ArithmeticError,  # Infinity
        AttributeError,
        LookupError,
        RecursionError,  # [[[[…
        TypeError,
        ValueError,
    ) as exc:
        raise ValueError(f'not a record of the guard: {text!r:.200}') from exc


def _report(record: dict[str, Any]) -> Report:
    reserved_memory, reserved_cpus = map(_natural, record['reserved'])
    unseen_memory, unseen_vcpus = record['unseen']
    floating_cells = None
    if record['floating_cells'] is not None:
        cells, cpus, memory = record['floating_cells']
        floating_cells = FloatingCells(
            tuple(map(_natural, cells)), _natural(cpus), _natural(memory)
        )
    kind = isolation.Isolation(record['isolation'])
    if (kind is isolation.Isolation.CELL) is not bool(floating_cells):
        raise ValueError('isolation and floating_cells contradict')
    dominant, small_memory = record['dominant'], record['small_memory']
    return Report(
        isolation=kind,
        enforce=bool(record['enforce']),
        correction=occupancy.Correction(
            reserved_memory=reserved_memory,
            reserved_cpus=reserved_cpus,
            unseen_memory=_natural(unseen_memory),
            unseen_vcpus=int(unseen_vcpus),
            exempt_floating=_share(record['exempt_floating']),
            exempt_affined=_share(record['exempt_affined']),
        ),
        floating=_share(record['floating']),
        affined=_share(record['affined']),
        dominant=None if dominant is None else guests.Kind(dominant),
        small_memory=None if small_memory is None else _natural(small_memory),
        floating_cells=floating_cells,
        headroom={
            int(size): {
                int(node): _natural(free) for node, free in nodes.items()
            }
            for size, nodes in record['headroom'].items()
        },
        refused=tuple(
            refusals.Refusal(int(node), int(size), float(expires))
            for node, size, expires in record['refusals']
        ),
        written=_writing(*record['writing']),
        # Added later; nothing is decided by it.
        guard=str(record.get('guard', '')),
    )


def _words(written: writing.Writing) -> list[Any]:
    confined = written.floating
    return [
        written.small_pages and written.small_pages.value,
        confined
        and [
            sets.text(confined.nodes),
            sets.text(confined.cpus),
            confined.mode.value,
        ],
    ]


def _writing(
    policy: str | None, confined: list[str] | None
) -> writing.Writing:
    if policy is None and confined is None:
        return writing.STOCK
    return writing.Writing(
        None if policy is None else tuning.SmallPagePolicy(policy),
        None
        if confined is None
        else confinement.Confinement(
            sets.parse(confined[0]),
            sets.parse(confined[1]),
            confinement.Mode(confined[2]),
        ),
    )


def _numbers(share: occupancy.Share) -> tuple[int, ...]:
    return dataclasses.astuple(share)


def _share(numbers: list[int]) -> occupancy.Share:
    count, memory, vcpus = map(_natural, numbers)
    # A scheduler holds thousands of these, and most are nobody.
    if not (count or memory or vcpus):
        return occupancy.NOBODY
    return occupancy.Share(count, memory, vcpus)


def _natural(number: Any) -> int:
    value = int(number)
    if value < 0:
        raise ValueError(f'{number!r} is below zero')
    return value
