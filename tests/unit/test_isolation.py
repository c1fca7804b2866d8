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

"""Which guests a host has, and which may join it."""

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import guests, isolation
from tests.unit import base

FLOATING, AFFINED = guests.Kind.FLOATING, guests.Kind.AFFINED
MIB = st.integers(0, 1 << 20)
CONTENT = st.builds(isolation.HostContent, floating=MIB, affined=MIB)


def usage(*cells, memory=512, vcpus=0, count=0, reserved=512, reported=True):
    return isolation.HostUsage(
        memory=memory,
        vcpus=vcpus,
        guests=count,
        cells=[isolation.CellUsage(*cell) for cell in cells],
        reserved=reserved,
        reported=reported,
    )


class ContentTest(base.TestCase):
    def assert_content(self, floating, affined, present):
        self.assertEqual(
            isolation.HostContent(floating=floating, affined=affined),
            isolation.content(present),
        )

    def test_empty(self):
        for reported in (True, False):
            self.assert_content(0, 0, usage((0, 0), reported=reported))

    def test_floating_guests_are_what_no_cell_uses(self):
        self.assert_content(
            1024, 2048, usage((2048, 2), memory=512 + 3072, vcpus=4, count=2)
        )

    def test_cells_are_summed(self):
        self.assert_content(
            0, 3000, usage((1000, 1), (2000, 1), memory=3512, vcpus=2, count=1)
        )

    def test_the_reserve_is_nobodys(self):
        self.assert_content(0, 0, usage(memory=4096, reserved=4096))

    def test_a_reserve_that_is_larger_than_the_use(self):
        self.assert_content(0, 0, usage(memory=100, reserved=4096))

    def test_a_host_without_numa_has_floating_guests_only(self):
        self.assert_content(1024, 0, usage(memory=1536, vcpus=2, count=1))

    def test_reported_memory_is_exact_whatever_the_cpus_say(self):
        """A pinned guest may hold more CPUs than it has, and hide vCPUs."""
        self.assert_content(
            1024, 1024, usage((1024, 64), memory=2560, vcpus=4, count=2)
        )
        self.assert_content(
            0, 1024, usage((1024, 2), memory=1536, vcpus=64, count=1)
        )

    def test_unreported_memory_needs_vcpus_beside_affined_guests(self):
        """The host may reserve more than the scheduler believes."""
        more = {'memory': 512 + 1024 + 3000, 'count': 1, 'reported': False}
        self.assert_content(0, 1024, usage((1024, 4), vcpus=4, **more))
        self.assert_content(3000, 1024, usage((1024, 4), vcpus=5, **more))

    def test_unreported_guests_without_affined_ones_are_floating(self):
        """Even if the host reserves less than the scheduler believes."""
        self.assert_content(
            1,
            0,
            usage(
                memory=1024, reserved=4096, vcpus=2, count=1, reported=False
            ),
        )

    def test_unreported_reserve_alone_is_no_guest(self):
        self.assert_content(0, 0, usage(memory=4096, reported=False))
        self.assert_content(0, 0, usage(memory=4096, vcpus=2, reported=False))

    @hypothesis.given(
        st.lists(st.tuples(MIB, st.integers(0, 64)), max_size=4),
        MIB,
        MIB,
        st.integers(0, 99),
        st.integers(0, 9),
        st.booleans(),
    )
    def test_never_negative(self, cells, memory, reserved, vcpus, n, reported):
        present = isolation.content(
            usage(
                *cells,
                memory=memory,
                reserved=reserved,
                vcpus=vcpus,
                count=n,
                reported=reported,
            )
        )
        self.assertGreaterEqual(present.floating, 0)
        self.assertEqual(sum(mib for mib, _ in cells), present.affined)

    @hypothesis.given(MIB, st.lists(MIB, max_size=4), MIB)
    def test_reported_content_adds_up(self, floating, affined, reserved):
        present = isolation.content(
            usage(
                *((mib, 0) for mib in affined),
                memory=floating + sum(affined) + reserved,
                reserved=reserved,
            )
        )
        self.assertEqual(floating, present.of(FLOATING))
        self.assertEqual(sum(affined), present.of(AFFINED))


class JudgeTest(base.TestCase):
    def judge(self, kind, floating=0, affined=0, mode='host'):
        return isolation.judge(
            kind,
            isolation.HostContent(floating=floating, affined=affined),
            isolation.Isolation(mode),
        )

    def test_an_empty_host_takes_either(self):
        for kind in guests.Kind:
            verdict = self.judge(kind)
            self.assertTrue(verdict.passes)
            self.assertEqual(isolation.Reason.NO_OTHER_KIND, verdict.reason)

    def test_like_joins_like(self):
        self.assertTrue(self.judge(FLOATING, floating=1).passes)
        self.assertTrue(self.judge(AFFINED, affined=1).passes)

    def test_the_other_kind_is_refused_with_figures(self):
        self.assertEqual(
            isolation.Verdict(
                False,
                isolation.Reason.FLOATING_PRESENT,
                'floating guests present: 7 MiB',
            ),
            self.judge(AFFINED, floating=7),
        )
        self.assertEqual(
            isolation.Verdict(
                False,
                isolation.Reason.AFFINED_PRESENT,
                'affined guests present: 9 MiB',
            ),
            self.judge(FLOATING, affined=9),
        )

    def test_a_mixed_host_takes_neither(self):
        for kind in guests.Kind:
            self.assertFalse(self.judge(kind, floating=1, affined=1).passes)

    def test_without_isolation_everything_passes(self):
        for kind in guests.Kind:
            verdict = self.judge(kind, floating=1, affined=1, mode='none')
            self.assertTrue(verdict.passes)
            self.assertEqual(isolation.Reason.NOT_ISOLATED, verdict.reason)

    def test_codes_are_stable(self):
        self.assertEqual(
            [
                'affined-present',
                'floating-present',
                'no-other-kind',
                'not-isolated',
                'unreadable',
            ],
            sorted(str(reason) for reason in isolation.Reason),
        )


class LikenessTest(base.TestCase):
    def test_figures(self):
        for floating, affined, expected in (
            (0, 0, 0.5),
            (1, 0, 0.0),
            (0, 1, 1.0),
            (3, 1, 0.25),
        ):
            self.assertEqual(
                expected,
                isolation.likeness(
                    AFFINED, isolation.HostContent(floating, affined)
                ),
            )

    @hypothesis.given(CONTENT)
    def test_shares_of_both_kinds_are_the_whole(self, present):
        shares = [isolation.likeness(kind, present) for kind in guests.Kind]
        for share in shares:
            self.assertGreaterEqual(share, 0.0)
            self.assertLessEqual(share, 1.0)
        self.assertAlmostEqual(1.0, sum(shares))

    @hypothesis.given(MIB.filter(bool))
    def test_alike_before_empty_before_unlike(self, mib):
        alike, empty, unlike = (
            isolation.likeness(FLOATING, isolation.HostContent(*content))
            for content in ((mib, 0), (0, 0), (0, mib))
        )
        self.assertGreater(alike, empty)
        self.assertGreater(empty, unlike)
