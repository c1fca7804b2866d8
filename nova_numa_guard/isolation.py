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

"""Which kinds of guest a host has, and which kind may join it.

Pure: figures in, verdicts out.
"""

from collections.abc import Sequence
import dataclasses
import enum

from nova_numa_guard import guests

# The likeness of an empty host to either kind.
NEUTRAL = 0.5


class Isolation(enum.Enum):
    """What floating and affined guests may share."""

    NONE = 'none'
    HOST = 'host'


class Reason(enum.StrEnum):
    """Stable codes of verdicts; the wording beside them may change."""

    NOT_ISOLATED = 'not-isolated'
    NO_OTHER_KIND = 'no-other-kind'
    FLOATING_PRESENT = 'floating-present'
    AFFINED_PRESENT = 'affined-present'
    UNREADABLE = 'unreadable'


@dataclasses.dataclass(frozen=True, slots=True)
class CellUsage:
    """What affined guests use of one host NUMA cell.

    :param memory: MiB
    :param cpus: CPUs, shared and pinned ones together
    """

    memory: int
    cpus: int


@dataclasses.dataclass(frozen=True, slots=True)
class HostUsage:
    """What a scheduler knows of a host without asking a database.

    :param memory: MiB in use, the host's reserve included
    :param vcpus: vCPUs in use, the host's reserve included
    :param guests: guests of either kind, those that are migrating in excluded
    :param cells: usage by affined guests, of each host NUMA cell
    :param reserved: MiB of the host's reserve
    :param reported: whether the host itself said how much it reserves
    """

    memory: int
    vcpus: int
    guests: int
    cells: Sequence[CellUsage]
    reserved: int
    reported: bool


@dataclasses.dataclass(frozen=True, slots=True)
class HostContent:
    """The guests on a host, by kind.

    :param floating: MiB of the floating guests
    :param affined: MiB of the affined guests
    :param estimated: whether the host has not reported its reserve, so that
        the floating guests are estimated
    """

    floating: int
    affined: int
    estimated: bool = dataclasses.field(default=False, compare=False)

    def of(self, kind: guests.Kind) -> int:
        """MiB of the guests of one kind."""
        return self.floating if kind is guests.Kind.FLOATING else self.affined


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a guest may join a host.

    :param reason: a stable code
    :param detail: what the code means here, with figures
    """

    passes: bool
    reason: Reason
    detail: str = ''


def content(usage: HostUsage) -> HostContent:
    """Tell a host's guests apart by the memory that they use.

    Nova counts affined guests by cell, and every guest in the total; what is
    left of the total, less the reserve, is floating. (CPUs cannot tell: a
    cell's cpu_usage leaves pinned CPUs out, and a pinned guest may hold more
    CPUs than it has.) A host that has not reported its reserve has floating
    guests if it has guests and no affined ones; among affined ones they are
    believed in only if the vCPUs in use say so as well.
    """
    affined = sum(cell.memory for cell in usage.cells)
    floating = max(0, usage.memory - affined - usage.reserved)
    if not usage.reported:
        cpus = sum(cell.cpus for cell in usage.cells)
        if not usage.guests or (affined and usage.vcpus <= cpus):
            floating = 0
        elif not affined:
            floating = max(1, floating)
    return HostContent(floating, affined, estimated=not usage.reported)


def judge(
    kind: guests.Kind, present: HostContent, isolation: Isolation
) -> Verdict:
    """Whether a guest of a kind may join a host."""
    if isolation is Isolation.NONE:
        return Verdict(True, Reason.NOT_ISOLATED)
    others = present.of(kind.other)
    if not others:
        return Verdict(True, Reason.NO_OTHER_KIND)
    reason = (
        Reason.FLOATING_PRESENT
        if kind.other is guests.Kind.FLOATING
        else Reason.AFFINED_PRESENT
    )
    detail = f'{kind.other.value} guests present: {others} MiB'
    if present.estimated:
        detail += ', estimated, because the host does not report its reserve'
    return Verdict(False, reason, detail)


def likeness(kind: guests.Kind, present: HostContent) -> float:
    """How much a host's guests are of a kind: 1.0 all, 0.0 none of them.

    An empty host is 0.5: better than one of the other kind, and worse than
    one of the same kind, so that empty hosts stay empty for whatever comes.
    """
    total = present.floating + present.affined
    if not total:
        return NEUTRAL
    return present.of(kind) / total
