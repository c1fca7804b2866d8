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

"""What Nova is told of pools, and who holds the pages of them."""

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import accounting, availability, guests
from tests.unit import base

HUGE, GIANT = 2048, 1048576
POOL = (0, HUGE)
Pages = accounting.Pages
Pool = availability.Pool


def claim(uuid, pages=0, node=0, size=HUGE, anywhere=()):
    needs = (guests.PageNeed(node, size, pages),) if pages else ()
    return availability.Claim(uuid, 1, f'name-of-{uuid}', needs, anywhere)


class OutsidersTest(base.TestCase):
    """Of a pool of 100 pages; each guest is "a", and Nova counts 40 for it."""

    def outsiders(
        self, used, *claims, counted=40, held=None, starting=(), node=0
    ):
        """How many pages of the pool nobody whom Nova counts holds."""
        found = accounting.outsiders(
            claims,
            {'a': {(node, HUGE): counted}} if counted else {},
            {} if held is None else {'a': held},
            starting,
            [Pool(0, HUGE, 100, 100 - used)],
        )
        self.assertEqual({POOL}, set(found))
        return found[POOL]

    def test_it_runs(self):
        self.assertEqual(0, self.outsiders(40, claim('a', 40)))
        self.assertEqual(7, self.outsiders(47, claim('a', 40)))

    def test_it_is_paused_after_it_gave_memory_back(self):
        held = {POOL: 10}
        self.assertEqual(30, self.outsiders(40, claim('a', 40), held=held))
        # Without a look at it, it is believed to hold all.
        self.assertEqual(0, self.outsiders(40, claim('a', 40)))
        self.assertEqual(0, self.outsiders(10, claim('a', 40)))

    def test_it_is_starting(self):
        for held in (0, 15, 40):
            self.assertEqual(
                5,
                self.outsiders(
                    held + 5,
                    claim('a', 40),
                    held={POOL: held},
                    starting={'a'},
                ),
            )

    def test_it_is_starting_and_cannot_be_looked_at(self):
        self.assertEqual(
            20, self.outsiders(20, claim('a', 40), starting={'a'})
        )

    def test_it_arrives(self):
        """By its new topology, and its old one does not matter."""
        self.assertEqual(
            3, self.outsiders(18, claim('a', 40), held={POOL: 15})
        )

    def test_it_is_on_its_way_out(self):
        self.assertEqual(3, self.outsiders(43, claim('a', 40)))

    def test_it_is_stopping_or_being_deleted(self):
        """Its domain has ended, and the kernel has not all of it back."""
        self.assertEqual(25, self.outsiders(25))

    def test_it_is_shut_off_suspended_or_waits_to_be_confirmed(self):
        self.assertEqual(0, self.outsiders(0))
        self.assertEqual(9, self.outsiders(9))

    def test_it_is_an_orphan_or_of_another_tool(self):
        self.assertEqual(40, self.outsiders(40, claim('a', 40), counted=0))

    def test_it_has_left_and_runs_here_still(self):
        self.assertEqual(
            40, self.outsiders(40, claim('a', 40), counted=0, held={POOL: 40})
        )

    def test_it_runs_on_another_node_than_nova_counts_it_on(self):
        self.assertEqual(40, self.outsiders(40, claim('a', 40), node=1))
        self.assertEqual(
            40, self.outsiders(40, claim('a', 40), held={POOL: 40}, node=1)
        )

    def test_it_holds_more_than_nova_counts(self):
        self.assertEqual(30, self.outsiders(40, claim('a', 40), counted=10))

    def test_it_names_no_node(self):
        loose = claim('a', anywhere=((HUGE, 40),))
        self.assertEqual(40, self.outsiders(40, loose))
        self.assertEqual(5, self.outsiders(40, loose, held={POOL: 35}))

    def test_more_is_held_than_in_use(self):
        """As when it ends between two looks."""
        self.assertEqual(0, self.outsiders(10, claim('a', 40)))
        self.assertEqual(
            0, self.outsiders(10, claim('a', 40), held={POOL: 40})
        )

    def test_pools_are_told_apart(self):
        self.assertEqual(
            {(0, HUGE): 2, (1, HUGE): 60, (0, GIANT): 1},
            accounting.outsiders(
                [claim('a', 40), claim('b', 40, node=1)],
                {'a': {(0, HUGE): 40}, 'b': {(0, HUGE): 40}},
                {},
                (),
                [
                    Pool(0, HUGE, 100, 58),
                    Pool(1, HUGE, 100, 40),
                    Pool(0, GIANT, 4, 3),
                ],
            ),
        )


class ToLookAtTest(base.TestCase):
    def look_at(self, *claims, used=80, reserved=0, starting=()):
        return set(
            accounting.to_look_at(
                claims,
                [Pool(0, HUGE, 100, 100 - used), Pool(1, HUGE, 100, 0)],
                {HUGE: availability.Bound(reserved=reserved)},
                starting,
            )
        )

    def test_at_rest_nobody_is(self):
        guests = claim('a', 40), claim('b', 40), claim('c')
        self.assertEqual(set(), self.look_at(*guests))
        self.assertEqual(set(), self.look_at(*guests, used=90))

    def test_claims_that_are_more_than_what_is_in_use(self):
        guests = claim('a', 40), claim('b', 40), claim('c', 9, node=1)
        self.assertEqual({'a', 'b'}, self.look_at(*guests, used=79))

    def test_reserved_pages(self):
        guests = claim('a', 40), claim('c', 9, node=1), claim('d')
        self.assertEqual({'a', 'c'}, self.look_at(*guests, reserved=1))

    def test_of_guests_that_start_only_they(self):
        guests = claim('a', 40), claim('b', 60), claim('d')
        self.assertEqual(
            {'b'}, self.look_at(*guests, starting={'b', 'd', 'x'})
        )

    def test_one_that_names_no_node(self):
        guests = claim('a', 40), claim('e', anywhere=((HUGE, 1),))
        self.assertEqual({'e'}, self.look_at(*guests))

    def test_a_size_without_a_bound(self):
        self.assertEqual(
            frozenset(),
            accounting.to_look_at(
                [claim('a', 1)], [Pool(0, HUGE, 1, 0)], {}, ()
            ),
        )


class CorrectTest(base.TestCase):
    """A cell of 1000 small pages, of which Nova knows 8 huge ones as well."""

    KNOWN = (Pages(4, 10000), Pages(HUGE, 8, reserved=2))

    def told(self, *pools, known=KNOWN, **outsiders):
        return accounting.correct(
            0, known, pools, outsiders.get('outsiders', {})
        )

    def test_nothing_has_changed(self):
        self.assertEqual(self.KNOWN, self.told(Pool(0, HUGE, 8, 8)))

    def test_the_larger_of_what_is_configured_and_what_others_hold(self):
        for others, reserved in ((0, 2), (2, 2), (3, 3), (8, 8)):
            self.assertEqual(
                Pages(HUGE, 8, reserved),
                self.told(Pool(0, HUGE, 8, 0), outsiders={(0, HUGE): others})[
                    1
                ],
            )

    def test_what_others_held_before_is_no_more_than_what_is_in_use(self):
        self.assertEqual(
            Pages(HUGE, 8, 3),
            self.told(Pool(0, HUGE, 8, 5), outsiders={(0, HUGE): 7})[1],
        )

    def test_a_pool_that_has_grown_takes_small_pages(self):
        self.assertEqual(
            (Pages(4, 10000 - 2 * 512), Pages(HUGE, 10, 2)),
            self.told(Pool(0, HUGE, 10, 10)),
        )

    def test_one_that_has_shrunk_gives_them_back(self):
        self.assertEqual(
            (Pages(4, 10000 + 8 * 512), Pages(HUGE, 0, 2)),
            self.told(Pool(0, HUGE, 0, 0)),
        )

    def test_surplus_pages_are_not_there_to_stay_but_take_memory(self):
        self.assertEqual(
            (Pages(4, 10000 - 4 * 512), Pages(HUGE, 8, 4)),
            self.told(
                Pool(0, HUGE, 12, 8, surplus=4), outsiders={(0, HUGE): 4}
            ),
        )
        self.assertEqual(
            Pages(HUGE, 0, 0),
            self.told(
                Pool(0, HUGE, 12, 0, surplus=12),
                known=(Pages(4, 10000), Pages(HUGE, 8)),
                outsiders={(0, HUGE): 12},
            )[1],
        )

    def test_a_size_that_nova_does_not_know(self):
        self.assertEqual(
            (*self.KNOWN, Pages(GIANT, 0)),
            self.told(Pool(0, HUGE, 8, 8), Pool(0, GIANT, 0, 0)),
        )
        self.assertEqual(
            (Pages(4, 737856), Pages(HUGE, 8, 2), Pages(GIANT, 1, 1)),
            self.told(
                Pool(0, HUGE, 8, 8),
                Pool(0, GIANT, 1, 0),
                known=(Pages(4, 10**6), Pages(HUGE, 8, reserved=2)),
                outsiders={(0, GIANT): 1},
            ),
        )

    def test_a_size_that_the_kernel_does_not_know(self):
        self.assertEqual((Pages(4, 14096), Pages(HUGE, 0, 2)), self.told())

    def test_other_cells_do_not_matter(self):
        self.assertEqual(
            self.KNOWN,
            self.told(
                Pool(0, HUGE, 8, 8),
                Pool(1, HUGE, 99, 0),
                Pool(1, GIANT, 9, 0),
                outsiders={(1, HUGE): 8},
            ),
        )

    def test_small_pages_are_never_fewer_than_none(self):
        self.assertEqual(Pages(4, 0), self.told(Pool(0, HUGE, 99, 99))[0])

    def test_begun_small_pages_are_lost(self):
        """64 KiB pages, and pools that are not whole ones of them."""
        told = self.told(
            Pool(0, 100, 9, 9), known=(Pages(64, 100), Pages(100, 8))
        )
        self.assertEqual((Pages(64, 98), Pages(100, 9)), told)

    def test_a_cell_without_pages_is_left_alone(self):
        self.assertEqual((), self.told(Pool(0, HUGE, 8, 8), known=()))


class FiguresTest(base.TestCase):
    def test_a_row_for_each_pool(self):
        """Case 34: and not one for the host."""
        self.assertEqual(
            (
                accounting.Figure(0, HUGE, 96, 10, 5, 30, 60, 26),
                accounting.Figure(1, HUGE, 0, 0, 0, 0, 0, 0),
            ),
            accounting.figures(
                [claim('a', 40), claim('b', 20)],
                [Pool(0, HUGE, 100, 10, surplus=4), Pool(1, HUGE, 0, 0)],
                {(0, HUGE): 26},
                {0: [Pages(4, 99, 7), Pages(HUGE, 90, 5)]},
                {0: [Pages(4, 99, 7), Pages(HUGE, 96, 30)]},
            ),
        )


GUEST = st.tuples(
    st.integers(0, 30),  # claimed
    st.integers(0, 30),  # held
    st.integers(0, 30),  # counted by Nova
    st.sampled_from(['rest', 'starting', 'read', 'unknown']),
)


class WhatNovaBelievesTest(base.TestCase):
    @hypothesis.given(
        st.lists(GUEST, max_size=4), st.integers(0, 40), st.integers(0, 40)
    )
    def test_it_is_never_more_than_what_the_kernel_has_free(
        self, found, others, configured
    ):
        """Whoever holds what, and whatever could be read of it."""
        claims, counted, held, starting = [], {}, {}, set()
        used, tracked = others, 0
        for index, (claimed, holds, counts, state) in enumerate(found):
            uuid = str(index)
            holds = claimed if state == 'rest' else min(holds, claimed)
            used += holds
            claims.append(claim(uuid, claimed))
            if state == 'unknown':
                continue
            tracked += counts
            counted[uuid] = {POOL: counts}
            if state == 'starting':
                starting.add(uuid)
            elif state == 'read':
                held[uuid] = {POOL: holds}
        pool = Pool(0, HUGE, 200, 200 - used)
        unaccounted = accounting.outsiders(
            [each for each in claims if each.uuid in counted],
            counted,
            held,
            starting,
            [pool],
        )
        self.assertLessEqual(others, unaccounted[POOL])
        _, told = accounting.correct(
            0,
            [Pages(4, 9**9), Pages(HUGE, 5, configured)],
            [pool],
            unaccounted,
        )
        believed = told.total - told.reserved - tracked
        self.assertLessEqual(believed, pool.free)
        if not starting and all(
            claimed == counts and state == 'rest'
            for claimed, _, counts, state in found
        ):
            self.assertEqual(
                min(pool.free, pool.free + others - configured), believed
            )
