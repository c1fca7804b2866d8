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

"""Which kind of guest may join a host, and which host suits it best.

Pure: figures in, verdicts out.
"""

import dataclasses
import enum

from nova_numa_guard import guests, occupancy

# A mixed host changes its dominant kind when the other one has more than this
# share of the guests' memory.
MAJORITY = 0.6

# The likeness of an empty host to either kind.
NEUTRAL = 0.5

BOTH = frozenset(guests.Kind)


class Isolation(enum.StrEnum):
    """What floating and affined guests may share."""

    NONE = 'none'
    HOST = 'host'
    CELL = 'cell'


class MixedHosts(enum.Enum):
    """What a host that holds both kinds may still take."""

    DOMINANT = 'dominant'
    CLOSED = 'closed'
    OPEN = 'open'


class Reason(enum.StrEnum):
    """Stable codes of verdicts; the wording beside them may change."""

    # It may join.
    NOT_ISOLATED = 'not-isolated'
    BY_CELL = 'isolated-by-cell'
    EXEMPT = 'exempt'
    NO_OTHER_KIND = 'no-other-kind'
    MIXED_OPEN = 'mixed-open'
    DOMINANT_KIND = 'dominant-kind'
    UNREADABLE = 'unreadable'
    # Its kind is wrong.
    FLOATING_PRESENT = 'floating-present'
    AFFINED_PRESENT = 'affined-present'
    MIXED_CLOSED = 'mixed-closed'
    MINORITY_KIND = 'minority-kind'
    NOT_ACCEPTED = 'not-accepted'
    # It does not fit.
    SMALL_PAGES_SHORT = 'small-pages-short'
    CELL_MEMORY_SHORT = 'floating-cells-memory-short'
    CELL_CPUS_SHORT = 'floating-cells-cpus-short'


_OF_KIND = frozenset(
    {
        Reason.FLOATING_PRESENT,
        Reason.AFFINED_PRESENT,
        Reason.MIXED_CLOSED,
        Reason.MINORITY_KIND,
        Reason.NOT_ACCEPTED,
    }
)


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What is to be kept apart on a host.

    :param accepts: the kinds that the host is for
    :param last: the dominant kind of the host when it was last looked at
    """

    isolation: Isolation
    mixed_hosts: MixedHosts = MixedHosts.DOMINANT
    accepts: frozenset[guests.Kind] = BOTH
    last: guests.Kind | None = None


# Not frozen, as little as what occupancy makes for each host.
@dataclasses.dataclass(slots=True)
class Verdict:
    """Whether a guest may join a host.

    :param reason: a stable code
    :param detail: what the code means here, with figures
    """

    passes: bool
    reason: Reason
    detail: str = ''

    @property
    def of_kind(self) -> bool:
        """Whether only the guest's kind is wrong, and the host would do."""
        return self.reason in _OF_KIND


# What passes needs no words, and is the same for every host.
_EXEMPT = Verdict(True, Reason.EXEMPT)
_NOT_ISOLATED = Verdict(True, Reason.NOT_ISOLATED)
_BY_CELL = Verdict(True, Reason.BY_CELL)
_NO_OTHER_KIND = Verdict(True, Reason.NO_OTHER_KIND)
_MIXED_OPEN = Verdict(True, Reason.MIXED_OPEN)
_DOMINANT_KIND = Verdict(True, Reason.DOMINANT_KIND)


def judge(
    kind: guests.Kind | None, present: occupancy.HostContent, policy: Policy
) -> Verdict:
    """Whether a guest of a kind may join a host.

    :param kind: None for a guest that is exempt
    """
    if kind is None:
        return _EXEMPT
    if kind not in policy.accepts:
        accepted = sorted(k.value for k in policy.accepts)
        return Verdict(
            False,
            Reason.NOT_ACCEPTED,
            'by its aggregates the host accepts '
            + (' and '.join(accepted) or 'neither kind'),
        )
    if policy.isolation is Isolation.NONE:
        return _NOT_ISOLATED
    if policy.isolation is Isolation.CELL:
        return _BY_CELL
    other = kind.other
    if not present.of(other):
        return _NO_OTHER_KIND
    if present.mixed:
        return _judge_mixed(kind, present, policy)
    reason = (
        Reason.FLOATING_PRESENT
        if other is guests.Kind.FLOATING
        else Reason.AFFINED_PRESENT
    )
    return Verdict(False, reason, describe(other, present))


def _judge_mixed(
    kind: guests.Kind, present: occupancy.HostContent, policy: Policy
) -> Verdict:
    if policy.mixed_hosts is MixedHosts.OPEN:
        return _MIXED_OPEN
    both = f'floating {present.floating} MiB, affined {present.affined} MiB'
    both += _doubt(present)
    if policy.mixed_hosts is MixedHosts.CLOSED:
        return Verdict(False, Reason.MIXED_CLOSED, f'mixed host: {both}')
    if dominant(present, policy.last) is kind:
        return _DOMINANT_KIND
    return Verdict(
        False,
        Reason.MINORITY_KIND,
        f'mixed host, mostly {kind.other}: {both}',
    )


def describe(kind: guests.Kind, present: occupancy.HostContent) -> str:
    """How many guests of a kind there are, in words."""
    text = f'{kind} guests present: '
    if present.count:
        text += f'{present.count}, '
    return f'{text}{present.of(kind)} MiB{_doubt(present)}'


def _doubt(present: occupancy.HostContent) -> str:
    if not present.estimated:
        return ''
    return ', estimated, because the host does not report its reserve'


def dominant(
    present: occupancy.HostContent, last: guests.Kind | None = None
) -> guests.Kind | None:
    """The kind that has most of the guests' memory; None on an empty host.

    Near the middle it is the one that it was, so that a host does not go to
    and fro. If it was none, a tie goes to the affined guests, which find
    another host less easily.
    """
    total = present.floating + present.affined
    if not total:
        return None
    share = present.affined / total
    if 1 - MAJORITY <= share <= MAJORITY and last is not None:
        return last
    return guests.Kind.AFFINED if share >= 0.5 else guests.Kind.FLOATING


def likeness(
    kind: guests.Kind | None,
    present: occupancy.HostContent,
    isolation: Isolation,
) -> float:
    """How well a host suits a kind: 1.0 best, 0.0 worst.

    It is the share of its guests' memory that is of the kind. An empty host
    is 0.5: better than one of the other kind, and worse than one of the same
    kind, so that empty hosts stay empty for whatever comes. A host that is
    isolated by cell suits both kinds, and any of the hosts that are in use
    suits a guest that is exempt.
    """
    total = present.floating + present.affined
    if not total:
        return NEUTRAL
    if kind is None or isolation is Isolation.CELL:
        return 1.0
    return present.of(kind) / total
