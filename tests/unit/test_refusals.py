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

"""Pools that lately were too small for a guest."""

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import refusals
from tests.unit import base

HUGE, GIANT = (0, 2048), (1, 1048576)


class RefusalsTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.refused = refusals.Refusals()

    def assert_current(self, expected, now, **free):
        """The pools that are remembered, with the time at which they end."""
        found = self.refused.current(now, free.get('free', {}))
        self.assertEqual(
            expected,
            [((each.node, each.page_size), each.expires) for each in found],
        )

    def test_nobody_was_refused(self):
        self.assert_current([], 0)
        self.refused.add({}, 0, 300)
        self.assert_current([], 0)

    def test_it_expires(self):
        self.refused.add({HUGE: 8}, 1000, 300)
        self.assert_current([(HUGE, 1300)], 1000)
        self.assert_current([(HUGE, 1300)], 1299.9)
        self.assert_current([], 1300)

    def test_once_expired_it_does_not_come_back(self):
        """Not even if the clock is set back."""
        self.refused.add({HUGE: 8}, 1000, 300)
        self.assert_current([], 1300)
        self.assert_current([], 1000)

    def test_no_time_to_live_is_no_report(self):
        self.refused.add({HUGE: 8}, 1000, 0)
        self.assert_current([], 1000)

    def test_a_later_refusal_begins_anew(self):
        self.refused.add({HUGE: 8}, 1000, 300)
        self.refused.add({HUGE: 8}, 1200, 300)
        self.assert_current([(HUGE, 1500)], 1300)

    def test_more_free_pages_end_it(self):
        for free in (8, 7, 0):
            self.refused.add({HUGE: 8}, 1000, 300)
            self.assert_current([(HUGE, 1300)], 1000, free={HUGE: free})
        self.assert_current([], 1000, free={HUGE: 9})
        self.assert_current([], 1000, free={HUGE: 8})

    def test_more_is_more_than_at_the_last_refusal(self):
        self.refused.add({HUGE: 8}, 1000, 300)
        self.refused.add({HUGE: 20}, 1000, 300)
        self.assert_current([(HUGE, 1300)], 1000, free={HUGE: 20})
        self.refused.add({HUGE: 4}, 1000, 300)
        self.assert_current([], 1000, free={HUGE: 5})

    def test_free_pages_that_are_not_known_change_nothing(self):
        self.refused.add({HUGE: 0}, 1000, 300)
        self.assert_current([(HUGE, 1300)], 1000, free={GIANT: 99})

    def test_pools_are_told_apart_and_sorted(self):
        self.refused.add({GIANT: 1, HUGE: 8, (0, 1048576): 0}, 1000, 300)
        self.refused.add({HUGE: 8}, 1100, 300)
        self.assert_current(
            [(HUGE, 1400), ((0, 1048576), 1300), (GIANT, 1300)], 1100
        )
        self.assert_current(
            [(HUGE, 1400), ((0, 1048576), 1300)], 1100, free={GIANT: 2}
        )

    def test_those_that_did_not_hold_before_are_told(self):
        for pools, now, ttl, fresh in (
            ({GIANT: 1, HUGE: 8}, 1000, 300, [(HUGE, 1300), (GIANT, 1300)]),
            ({HUGE: 8}, 1200, 300, []),
            ({GIANT: 1, HUGE: 8}, 1300, 300, [(GIANT, 1600)]),
            ({HUGE: 8}, 1500, 0, []),
            ({HUGE: 8}, 1600, 0, []),
            ({HUGE: 8}, 1600, 1, [(HUGE, 1601)]),
        ):
            self.assertEqual(
                fresh,
                [
                    ((each.node, each.page_size), each.expires)
                    for each in self.refused.add(pools, now, ttl)
                ],
            )

    def test_one_that_more_free_pages_ended_is_told_again(self):
        self.refused.add({HUGE: 8}, 1000, 300)
        self.refused.current(1000, {HUGE: 9})
        self.assertEqual(1, len(self.refused.add({HUGE: 2}, 1001, 300)))

    @hypothesis.given(
        st.lists(
            st.tuples(
                st.sampled_from([HUGE, GIANT]),
                st.integers(0, 9),
                st.integers(0, 50),
                st.integers(0, 30),
            )
        ),
        st.integers(0, 99),
    )
    def test_one_that_holds_was_refused_not_long_ago(self, events, now):
        refused = refusals.Refusals()
        ends = {}
        for pool, free, at, ttl in events:
            refused.add({pool: free}, at, ttl)
            ends[pool] = at + ttl
        self.assertEqual(
            sorted((*pool, end) for pool, end in ends.items() if end > now),
            [
                (each.node, each.page_size, each.expires)
                for each in refused.current(now, {})
            ],
        )
