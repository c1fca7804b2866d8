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

"""Why the hosts of a cloud take a guest, or do not, in one line.

Pure: verdicts in, words out.
"""

import collections
from collections.abc import Iterable, Sequence
import dataclasses
import enum

from nova_numa_guard import isolation

Reason = isolation.Reason

# Of hosts, in the plural.
_WORDS = {
    Reason.FLOATING_PRESENT: 'hold floating guests',
    Reason.AFFINED_PRESENT: 'hold affined guests',
    Reason.MIXED_CLOSED: 'are mixed and closed',
    Reason.MINORITY_KIND: 'are mixed, mostly with the other kind',
    Reason.NOT_ACCEPTED: 'do not accept the kind',
    Reason.SMALL_PAGES_SHORT: 'short of small pages',
    Reason.CELL_MEMORY_SHORT: 'short of memory of their floating cells',
    Reason.CELL_CPUS_SHORT: 'short of CPUs of their floating cells',
}


class Word(enum.Enum):
    """What a filter does with a host.

    WARNS: it passes, because nothing is enforced. LAST: it is kept for a guest
    that moves, behind all others.
    """

    PASSES = 'passes'
    FAILS = 'fails'
    WARNS = 'would fail'
    LAST = 'last choice'
    UNKNOWN = 'unknown'


@dataclasses.dataclass(frozen=True, slots=True)
class Opinion:
    """What one filter makes of a host.

    :param short: the reason in few words, to count hosts by
    :param text: with figures
    """

    word: Word
    short: str = ''
    text: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What is known of one host.

    :param away: why the scheduler does not look at it; empty if it does
    :param guard: the opinion of NUMAGuardFilter
    :param nova: that of NUMATopologyFilter
    """

    host: str
    away: str
    guard: Opinion
    nova: Opinion

    @property
    def passes(self) -> bool:
        return not self.reason

    @property
    def reason(self) -> str:
        """Why the host is out, in few words; empty if it is not."""
        if self.away:
            return self.away
        for opinion in (self.guard, self.nova):
            if opinion.word in {Word.FAILS, Word.UNKNOWN}:
                return opinion.short
        return ''


def guards(
    verdict: isolation.Verdict, enforce: bool, lenient: bool
) -> Opinion:
    """The guard's opinion.

    :param enforce: whether a host that does not pass is removed
    :param lenient: whether one of the wrong kind is better than none
    """
    text = f'{verdict.reason}: {verdict.detail}'.removesuffix(': ')
    if verdict.passes:
        return Opinion(Word.PASSES, text=text)
    word = Word.FAILS
    if not enforce:
        word = Word.WARNS
    elif lenient and verdict.of_kind:
        word = Word.LAST
    return Opinion(word, _WORDS.get(verdict.reason, verdict.reason), text)


def summary(findings: Sequence[Finding]) -> str:
    """How many hosts there are for a guest, and why not more."""
    passing = sum(each.passes for each in findings)
    reasons = collections.Counter(
        each.reason for each in findings if not each.passes
    )
    text = f'{passing} of {len(findings)} hosts'
    if reasons:
        text += ': ' + _counts(reasons.most_common())
    softened = collections.Counter(
        each.guard.word.value
        for each in findings
        if each.passes and each.guard.word in {Word.WARNS, Word.LAST}
    )
    if softened:
        text += f'; of those that pass, {_counts(softened.most_common())}'
    return text


def _counts(counted: Iterable[tuple[str, int]]) -> str:
    return ', '.join(
        f'{count} {reason}'
        for reason, count in sorted(counted, key=lambda e: (-e[1], e[0]))
    )
