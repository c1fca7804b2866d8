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

"""Which guests may join a host, and which host suits them."""

import dataclasses
import itertools

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import guests, isolation, occupancy
from tests.unit import base

FLOATING, AFFINED = guests.Kind.FLOATING, guests.Kind.AFFINED
Isolation, MixedHosts = isolation.Isolation, isolation.MixedHosts
Reason = isolation.Reason
MIB = st.integers(0, 1 << 20)
KINDS = st.sampled_from(guests.Kind)
CONTENT = st.builds(occupancy.HostContent, floating=MIB, affined=MIB)

CONTENTS = {
    'empty': (0, 0),
    'floating': (1024, 0),
    'affined': (0, 1024),
    'mostly floating': (3000, 1000),
    'mostly affined': (1000, 3000),
    'tie': (2000, 2000),
}
PASSES = {
    Reason.NOT_ISOLATED,
    Reason.BY_CELL,
    Reason.EXEMPT,
    Reason.NO_OTHER_KIND,
    Reason.MIXED_OPEN,
    Reason.DOMINANT_KIND,
    Reason.UNREADABLE,
}
WRONG_KIND = {
    Reason.FLOATING_PRESENT,
    Reason.AFFINED_PRESENT,
    Reason.MIXED_CLOSED,
    Reason.MINORITY_KIND,
    Reason.NOT_ACCEPTED,
}

# Under isolation by host: the reason for a floating guest, for an affined one.
OF_ONE_KIND = {
    'empty': (Reason.NO_OTHER_KIND, Reason.NO_OTHER_KIND),
    'floating': (Reason.NO_OTHER_KIND, Reason.FLOATING_PRESENT),
    'affined': (Reason.AFFINED_PRESENT, Reason.NO_OTHER_KIND),
}
OF_BOTH_KINDS = {
    (MixedHosts.DOMINANT, 'mostly floating'): (
        Reason.DOMINANT_KIND,
        Reason.MINORITY_KIND,
    ),
    (MixedHosts.DOMINANT, 'mostly affined'): (
        Reason.MINORITY_KIND,
        Reason.DOMINANT_KIND,
    ),
    (MixedHosts.DOMINANT, 'tie'): (
        Reason.MINORITY_KIND,
        Reason.DOMINANT_KIND,
    ),
    **{
        (mixed, content): (reason, reason)
        for mixed, reason in (
            (MixedHosts.CLOSED, Reason.MIXED_CLOSED),
            (MixedHosts.OPEN, Reason.MIXED_OPEN),
        )
        for content in ('mostly floating', 'mostly affined', 'tie')
    },
}


def content(*figures, **more):
    return occupancy.HostContent(*figures, **more)


class JudgeTest(base.TestCase):
    def judge(self, kind, *figures, mixed='dominant', last=None, **more):
        return isolation.judge(
            kind,
            content(*figures, **more),
            isolation.Policy(Isolation.HOST, MixedHosts(mixed), last=last),
        )

    def expected(self, kind, by, name, mixed, accepts):
        """The reason, as the tables above and the documentation have it."""
        if kind is None:
            return Reason.EXEMPT
        if kind not in accepts:
            return Reason.NOT_ACCEPTED
        if by is Isolation.NONE:
            return Reason.NOT_ISOLATED
        if by is Isolation.CELL:
            return Reason.BY_CELL
        reasons = OF_ONE_KIND.get(name) or OF_BOTH_KINDS[mixed, name]
        return reasons[kind is AFFINED]

    def test_every_case(self):
        accepted = [
            frozenset(kinds)
            for count in range(3)
            for kinds in itertools.combinations(guests.Kind, count)
        ]
        for case in itertools.product(
            (None, *guests.Kind), Isolation, CONTENTS, MixedHosts, accepted
        ):
            kind, by, name, mixed, accepts = case
            verdict = isolation.judge(
                kind,
                content(*CONTENTS[name]),
                isolation.Policy(by, mixed, accepts),
            )
            reason = self.expected(*case)
            self.assertIs(reason, verdict.reason, case)
            self.assertIs(reason in PASSES, verdict.passes, case)
            self.assertIs(reason in WRONG_KIND, verdict.of_kind, case)
            self.assertIs(verdict.passes, not verdict.detail, case)

    def test_without_a_word_of_it_a_host_is_for_both_and_dominant(self):
        policy = isolation.Policy(Isolation.HOST)
        self.assertIs(MixedHosts.DOMINANT, policy.mixed_hosts)
        self.assertEqual(set(guests.Kind), policy.accepts)
        self.assertIsNone(policy.last)

    def test_a_mebibyte_of_the_other_kind_is_enough(self):
        self.assertFalse(self.judge(AFFINED, 1, 0).passes)
        self.assertFalse(self.judge(FLOATING, 0, 1).passes)

    def test_the_other_kind_is_named_with_figures(self):
        self.assertEqual(
            'floating guests present: 7 MiB',
            self.judge(AFFINED, 7, 0).detail,
        )
        self.assertEqual(
            'affined guests present: 3, 9 MiB',
            self.judge(FLOATING, 0, 9, count=3).detail,
        )

    def test_an_estimate_is_called_one(self):
        self.assertEqual(
            'floating guests present: 2, 7 MiB, estimated, because the host '
            'does not report its reserve',
            self.judge(AFFINED, 7, 0, count=2, estimated=True).detail,
        )

    def test_a_mixed_host_is_described(self):
        self.assertEqual(
            'mixed host, mostly affined: floating 1 MiB, affined 9 MiB',
            self.judge(FLOATING, 1, 9).detail,
        )
        self.assertEqual(
            'mixed host, mostly floating: floating 9 MiB, affined 1 MiB',
            self.judge(AFFINED, 9, 1).detail,
        )
        for kind in guests.Kind:
            self.assertEqual(
                'mixed host: floating 9 MiB, affined 1 MiB',
                self.judge(kind, 9, 1, mixed='closed').detail,
            )

    def test_that_it_is_an_estimate(self):
        for mixed in ('dominant', 'closed'):
            verdict = isolation.judge(
                FLOATING,
                dataclasses.replace(content(1, 9), estimated=True),
                isolation.Policy(Isolation.HOST, isolation.MixedHosts(mixed)),
            )
            self.assertIn('affined 9 MiB, estimated', verdict.detail)

    def test_what_the_host_accepts_is_said(self):
        for accepts, words in (
            ({FLOATING}, 'floating'),
            ({AFFINED}, 'affined'),
            (set(), 'neither kind'),
        ):
            for kind in set(guests.Kind) - accepts:
                verdict = isolation.judge(
                    kind,
                    content(0, 0),
                    isolation.Policy(
                        Isolation.NONE, accepts=frozenset(accepts)
                    ),
                )
                self.assertEqual(
                    f'by its aggregates the host accepts {words}',
                    verdict.detail,
                )

    def test_near_the_middle_the_dominant_kind_stays(self):
        for last in guests.Kind:
            for kind in guests.Kind:
                verdict = self.judge(kind, 45, 55, last=last)
                self.assertIs(kind is last, verdict.passes)

    def test_last_means_nothing_to_a_host_of_one_kind(self):
        for last in guests.Kind:
            self.assertTrue(self.judge(FLOATING, 9, 0, last=last).passes)
            self.assertFalse(self.judge(AFFINED, 9, 0, last=last).passes)
            self.assertTrue(self.judge(AFFINED, 0, 9, last=last).passes)

    def test_room_is_not_of_kind(self):
        """Even a lenient move needs it."""
        for reason in set(Reason) - WRONG_KIND:
            self.assertFalse(isolation.Verdict(False, reason).of_kind)

    def test_codes_are_stable(self):
        self.assertEqual(
            [
                'affined-present',
                'dominant-kind',
                'exempt',
                'floating-cells-cpus-short',
                'floating-cells-memory-short',
                'floating-present',
                'isolated-by-cell',
                'minority-kind',
                'mixed-closed',
                'mixed-open',
                'no-other-kind',
                'not-accepted',
                'not-isolated',
                'small-pages-short',
                'unreadable',
            ],
            sorted(str(reason) for reason in Reason),
        )


class DominantTest(base.TestCase):
    def assert_dominant(self, expected, floating, affined, last=None):
        self.assertIs(
            expected, isolation.dominant(content(floating, affined), last)
        )

    def test_nobody_is_on_an_empty_host(self):
        for last in (None, *guests.Kind):
            self.assert_dominant(None, 0, 0, last)

    def test_a_tie_goes_to_the_affined(self):
        self.assert_dominant(AFFINED, 1000, 1000)
        self.assert_dominant(FLOATING, 1001, 1000)
        self.assert_dominant(AFFINED, 1000, 1001)

    def test_a_tie_stays_what_it_was(self):
        for last in guests.Kind:
            self.assert_dominant(last, 1000, 1000, last)

    def test_the_edges_of_the_middle(self):
        """40 and 60 percent belong to it."""
        for last in guests.Kind:
            for scale in (1, 7, 1 << 20):
                self.assert_dominant(last, 40 * scale, 60 * scale, last)
                self.assert_dominant(last, 60 * scale, 40 * scale, last)
            self.assert_dominant(AFFINED, 39, 60, last)
            self.assert_dominant(FLOATING, 60, 39, last)

    def test_one_kind_alone_is_dominant_whatever_was(self):
        for last in (None, *guests.Kind):
            self.assert_dominant(FLOATING, 1, 0, last)
            self.assert_dominant(AFFINED, 0, 1, last)

    @hypothesis.given(CONTENT, st.none() | KINDS)
    def test_it_is_never_a_small_minority(self, present, last):
        found = isolation.dominant(present, last)
        total = present.floating + present.affined
        self.assertEqual(found is None, not total)
        if found:
            self.assertGreaterEqual(present.of(found) / total, 0.4)

    @hypothesis.given(CONTENT, st.none() | KINDS)
    def test_looking_twice_changes_nothing(self, present, last):
        found = isolation.dominant(present, last)
        self.assertIs(found, isolation.dominant(present, found))


class Host:
    """A host whose guests arrive by verdict, and leave as they like."""

    def __init__(self, here, last):
        self.guests = list(here)
        self.last = last

    @property
    def present(self):
        sums = dict.fromkeys(guests.Kind, 0)
        for kind, memory in self.guests:
            sums[kind] += memory
        return content(sums[FLOATING], sums[AFFINED])

    def share(self, kind):
        return self.present.of(kind) / sum(mib for _, mib in self.guests)

    def arrive(self, kind, memory):
        verdict = isolation.judge(
            kind,
            self.present,
            isolation.Policy(Isolation.HOST, last=self.last),
        )
        if verdict.passes:
            self.guests.append((kind, memory))
        return verdict.passes

    def leave(self, index):
        if self.guests:
            del self.guests[index % len(self.guests)]

    def report(self):
        self.last = isolation.dominant(self.present, self.last)


GUEST = st.tuples(KINDS, st.integers(1, 100))
GUESTS = st.lists(GUEST, max_size=8)
# A guest that would arrive, the place of one that leaves, or a report.
EVENTS = st.lists(GUEST | st.integers(0, 99) | st.none(), max_size=40)


class ConvergenceTest(base.TestCase):
    """What becomes of a host with mixed_hosts = dominant."""

    @hypothesis.given(GUESTS, st.none() | KINDS, EVENTS)
    def test_a_host_of_one_kind_is_never_mixed(self, here, last, events):
        host = Host(here, last)
        for event in events:
            was_mixed = host.present.mixed
            if event is None:
                host.report()
            elif isinstance(event, int):
                host.leave(event)
            else:
                host.arrive(*event)
            self.assertLessEqual(host.present.mixed, was_mixed)

    @hypothesis.given(GUESTS, st.none() | KINDS, EVENTS)
    def test_a_mixed_host_does_not_gain_a_minority(self, here, last, events):
        """Nor does it begin to take the other kind before that has 60 %."""
        host, taken = Host(here, last), None
        host.report()
        for event in events:
            if isinstance(event, int):
                host.leave(event)
            mixed = host.present.mixed
            if isinstance(event, tuple):
                kind, _ = event
                share = host.share(kind) if mixed else None
                if host.arrive(*event) and mixed:
                    self.assertGreaterEqual(share, 0.4)
                    if taken not in (None, kind):
                        self.assertGreater(share, 0.6)
                    taken = kind
            if not mixed:
                taken = None
            host.report()

    @hypothesis.given(
        GUESTS, st.none() | KINDS, st.lists(GUEST | st.none(), max_size=40)
    )
    def test_while_none_leaves_one_kind_alone_joins(self, here, last, events):
        host = Host(here, last)
        hypothesis.assume(host.present.mixed)
        joined = set()
        for event in events:
            if event is None:
                host.report()
            elif host.arrive(*event):
                joined.add(event[0])
        self.assertLessEqual(len(joined), 1)

    @hypothesis.given(GUESTS, st.none() | KINDS)
    def test_a_host_that_is_not_closed_takes_some_kind(self, here, last):
        self.assertTrue(
            any(Host(here, last).arrive(kind, 1) for kind in guests.Kind)
        )


class LikenessTest(base.TestCase):
    def likeness(self, kind, *figures, by=Isolation.HOST):
        return isolation.likeness(kind, content(*figures), by)

    def test_figures(self):
        for floating, affined, expected in (
            (0, 0, 0.5),
            (1, 0, 0.0),
            (0, 1, 1.0),
            (3, 1, 0.25),
        ):
            for by in (Isolation.NONE, Isolation.HOST):
                self.assertEqual(
                    expected, self.likeness(AFFINED, floating, affined, by=by)
                )

    def test_a_host_that_is_isolated_by_cell_suits_both(self):
        for kind, figures in itertools.product(
            guests.Kind, ((1, 0), (0, 1), (1, 1))
        ):
            self.assertEqual(
                1.0, self.likeness(kind, *figures, by=Isolation.CELL)
            )

    def test_a_host_in_use_suits_an_exempt_guest(self):
        for by in Isolation:
            for figures in ((1, 0), (0, 1), (1, 1)):
                self.assertEqual(1.0, self.likeness(None, *figures, by=by))

    def test_an_empty_host_is_neutral_to_all(self):
        for by in Isolation:
            for kind in (None, *guests.Kind):
                self.assertEqual(0.5, self.likeness(kind, 0, 0, by=by))

    @hypothesis.given(
        CONTENT, st.sampled_from([Isolation.NONE, Isolation.HOST])
    )
    def test_shares_of_both_kinds_are_the_whole(self, present, by):
        shares = [
            isolation.likeness(kind, present, by) for kind in guests.Kind
        ]
        for share in shares:
            self.assertGreaterEqual(share, 0.0)
            self.assertLessEqual(share, 1.0)
        self.assertAlmostEqual(1.0, sum(shares))

    @hypothesis.given(MIB.filter(bool), KINDS)
    def test_alike_before_empty_before_unlike(self, mib, kind):
        alike, empty, unlike = (
            self.likeness(kind, *figures)
            for figures in (
                (mib, 0) if kind is FLOATING else (0, mib),
                (0, 0),
                (0, mib) if kind is FLOATING else (mib, 0),
            )
        )
        self.assertGreater(alike, empty)
        self.assertGreater(empty, unlike)
