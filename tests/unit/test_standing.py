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

"""What stands between free pages and a guest."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import availability, pools, spoken_for, standing
from tests.unit import base, known, samples

HUGE, GIANT, SMALL = samples.HUGE, samples.GIANT, pools.SMALL_PAGE
need = known.need
pool = known.pool
claim = known.claim
promise = known.promise
figures = known.figures
FITS = standing.Verdict.FITS
OVERCOMMITS = standing.Verdict.OVERCOMMITS
UNCERTAIN = standing.Verdict.UNCERTAIN
SHORT = standing.Verdict.SHORT


class StandingTestCase(base.TestCase):
    def judge(self, wanted, *promises, found=(), uuid='me', **values):
        """The outcome for a guest that wants pages of node 0, or needs."""
        if isinstance(wanted, int):
            wanted = (need(wanted),)
        return standing.judge(
            uuid, wanted, promises, figures(*found, **values)
        )

    def assert_room(self, pages, *promises, at_best=None, **values):
        """So many fit on node 0, and one more does not.

        :param at_best: so many may fit, when others have started
        """
        self.assertEqual(
            FITS, self.judge(pages, *promises, **values).verdict, pages
        )
        if at_best is not None:
            for wanted in (pages + 1, at_best):
                outcome = self.judge(wanted, *promises, **values)
                self.assertEqual(UNCERTAIN, outcome.verdict, wanted)
                self.assertEqual(pages, outcome.shortages[0].available)
            pages = at_best
        outcome = self.judge(pages + 1, *promises, **values)
        self.assertEqual(SHORT, outcome.verdict, pages + 1)
        self.assertEqual(
            (availability.Shortage(0, HUGE, pages + 1, pages),),
            outcome.shortages,
        )


class FreeTest(StandingTestCase):
    def test_what_is_free(self):
        self.assert_room(30, found=[pool(30)])

    def test_a_page_size_that_the_host_lacks(self):
        """Whoever else wants it, or says that it has it."""
        giant = need(1, size=GIANT)
        outcome = self.judge(
            (giant,),
            promise('a', giant),
            promise('b', giant, launching=True),
            claims=(claim('c', giant), claim('me', giant)),
            held={'b': {(0, GIANT): 1}, 'c': {}},
        )
        self.assertEqual(SHORT, outcome.verdict)
        self.assertEqual(
            'huge pages of 1048576 KiB on host NUMA node 0: needed 1, '
            'available 0',
            str(outcome.shortages[0]),
        )

    def test_what_nova_has_to_leave_to_others(self):
        """Less what of it they have taken, which is not free."""
        self.assert_room(80, configured={(0, HUGE): 20, (1, HUGE): 99})
        self.assert_room(30, configured={(0, HUGE): 20}, found=[pool(30)])

    def test_surplus_pages_go_when_they_are_free(self):
        self.assert_room(40, found=[pool(50, total=60, surplus=20)])


class RunningTest(StandingTestCase):
    """Guests that run, and may not have touched all that is theirs."""

    claims = (claim('a', need(40)),)

    def test_at_rest(self):
        """Nobody has to look at it."""
        self.assert_room(60, found=[pool(60)], claims=self.claims)

    def test_untouched_pages_are_not_for_others(self):
        for held in ({}, {'a': {}}, {'a': {(1, HUGE): 40, (0, GIANT): 40}}):
            self.assert_room(60, claims=self.claims, held=held)

    def test_outsider_and_untouched_pages_are_not_the_same(self):
        """Total 100, of which an outsider has 30 and a guest will have 40."""
        self.assert_room(
            30, found=[pool(70)], claims=self.claims, held={'a': {}}
        )
        self.assertEqual(
            (availability.Shortage(0, HUGE, 50, 30),),
            self.judge(
                50, found=[pool(70)], claims=self.claims, held={'a': {}}
            ).shortages,
        )

    def test_discarded_pages_stay_its_own(self):
        """A balloon, or post-copy: the guest may take them back any time."""
        self.assert_room(
            45,
            found=[pool(60)],  # and 15 of an outsider
            claims=self.claims,
            held={'a': {(0, HUGE): 25}},
        )

    def test_one_that_was_not_looked_at(self):
        """What is in use may be its own, less what is others'."""
        self.assert_room(60, found=[pool(70)], claims=self.claims)
        both = (*self.claims, claim('b', need(20)))
        # 50 are in use, of which b has 15.
        self.assert_room(
            40,
            found=[pool(50)],
            claims=both,
            held={'b': {(0, HUGE): 15}},
            bound=availability.Bound(),
        )
        # b has 20 of the 50; a has but 30 of its 40.
        self.assert_room(
            40,
            found=[pool(50)],
            claims=both,
            held={'b': {(0, HUGE): 20}},
        )

    def test_a_launch_that_took_pages_does_not_hide_untouched_ones(self):
        """30 in use are a launching guest's, so none is the other's."""
        self.assert_room(
            30,
            promise('b', need(30), launching=True),
            found=[pool(70)],
            claims=self.claims,
            held={'b': {(0, HUGE): 30}},
        )

    def test_nor_do_its_own(self):
        """Of 50 in use, 40 are those of the guest that is to restart."""
        self.assert_room(
            60,
            found=[pool(50)],
            claims=(
                claim('a', need(40)),
                claim('me', need(40)),
            ),
        )

    def test_it_holds_more_than_it_claims(self):
        self.assert_room(
            50,
            found=[pool(50), pool(100, node=1)],
            claims=self.claims,
            held={'a': {(0, HUGE): 50}},
        )

    def test_in_other_pools(self):
        elsewhere = claim('a', need(40, node=1), need(40, size=GIANT))
        self.assert_room(100, claims=(elsewhere,), held={'a': {}})

    def test_beside_what_is_left_to_others(self):
        """Claims count against the pool's size, touched or not."""
        self.assert_room(
            50,
            found=[pool(60)],
            claims=self.claims,
            configured={(0, HUGE): 10},
        )


class PromisedTest(StandingTestCase):
    """Guests that are about to start."""

    def test_what_is_promised(self):
        self.assert_room(70, promise('a', need(30)))
        self.assert_room(
            45,
            promise('a', need(30)),
            promise('b', need(25)),
        )

    def test_beside_an_outsider(self):
        self.assert_room(50, promise('a', need(30)), found=[pool(80)])

    def test_beside_what_is_left_to_others(self):
        self.assert_room(
            50, promise('a', need(30)), configured={(0, HUGE): 20}
        )

    def test_in_other_pools(self):
        self.assert_room(
            100,
            promise('a', need(99, node=1), need(99, size=GIANT)),
        )

    def test_what_it_was_promised_itself(self):
        self.assert_room(100, promise('me', need(99)))

    def test_nobody_waits_for_it(self):
        outcome = self.judge(71, promise('a', need(30)))
        self.assertEqual(frozenset(), outcome.awaited)
        self.assertFalse(outcome.doubtful)


class StartingTest(StandingTestCase):
    """Guests whose QEMU is touching its pages."""

    def test_between_the_worst_and_the_best(self):
        """It has touched 10 of 30; outsiders have 20."""
        self.assert_room(
            50,
            promise('a', need(30), launching=True),
            at_best=70,
            found=[pool(70)],
            claims=(claim('a', need(30)),),
            held={'a': {(0, HUGE): 10}},
        )

    def test_it_has_touched_all(self):
        self.assert_room(
            50,
            promise('a', need(30), launching=True),
            found=[pool(50)],
            held={'a': {(0, HUGE): 30}},
        )

    def test_and_more(self):
        self.assert_room(
            50,
            promise('a', need(30), launching=True),
            found=[pool(50)],
            held={'a': {(0, HUGE): 40}},
        )

    def test_it_may_not_be_looked_at(self):
        self.assert_room(
            30,
            promise('a', need(30), launching=True),
            at_best=60,
            found=[pool(60)],
        )

    def test_where_all_is_novas_nothing_is_in_doubt(self):
        """What is promised in all is all that can be taken."""
        for free in (100, 85, 70):
            self.assert_room(
                70,
                promise('a', need(30), launching=True),
                found=[pool(free)],
                held={'a': {(0, HUGE): 100 - free}},
            )

    def test_beside_what_is_left_to_others(self):
        self.assert_room(
            50,
            promise('a', need(30), launching=True),
            configured={(0, HUGE): 20},
        )

    def test_libvirt_lists_it_before_it_has_started(self):
        """It is not counted twice."""
        self.assert_room(
            70,
            promise('a', need(30), launching=True),
            claims=(claim('a', need(30)),),
        )

    def test_in_another_pool(self):
        self.assert_room(
            60,
            promise('a', need(30, node=1), launching=True),
            found=[pool(60), pool(60, node=1)],
        )


class ReservedTest(StandingTestCase):
    """Pages that processes mapped, on whichever node."""

    def bound(self, reserved):
        return availability.Bound(reserved=reserved)

    def test_of_an_outsider(self):
        self.assert_room(70, bound=self.bound(30))

    def test_those_of_a_guest_that_runs_do_not_count_twice(self):
        values = {
            'found': [pool(90)],
            'claims': (claim('a', need(40)),),
            'held': {'a': {(0, HUGE): 10}},
        }
        self.assert_room(60, bound=self.bound(30), **values)
        self.assert_room(40, bound=self.bound(50), **values)

    def test_those_of_a_guest_that_starts_do_not_count_twice(self):
        values = {
            'found': [pool(90)],
            'claims': (claim('a', need(30)),),
            'held': {'a': {(0, HUGE): 10}},
        }
        starts = promise('a', need(30), launching=True)
        for reserved in (0, 19, 20):
            self.assert_room(70, starts, bound=self.bound(reserved), **values)
        self.assert_room(45, starts, bound=self.bound(45), **values)

    def test_what_was_reserved_before_it_started_is_others(self):
        """At the worst: they may have touched it by now."""
        values = {
            'found': [pool(90)],
            'claims': (claim('a', need(30)),),
            'held': {'a': {(0, HUGE): 10}},
        }
        starts = promise('a', need(30), launching=True)
        self.assert_room(
            55,
            starts,
            at_best=70,
            bound=self.bound(20),
            reserved_before={HUGE: 15},
            **values,
        )
        # No more than is reserved now, and that of its own size.
        self.assert_room(
            50,
            starts,
            at_best=70,
            bound=self.bound(20),
            reserved_before={HUGE: 99},
            **values,
        )
        self.assert_room(
            70,
            starts,
            bound=self.bound(20),
            reserved_before={GIANT: 99},
            **values,
        )

    def test_those_of_a_guest_that_was_not_looked_at_are_its_own(self):
        """As far as what is in use cannot be its pages."""
        a = claim('a', need(40))
        self.assert_room(60, bound=self.bound(40), claims=(a,))
        self.assert_room(50, bound=self.bound(50), claims=(a,))
        # 50 are in use, of which 20 are b's; so a has but 30.
        for values in (
            {
                'claims': (a, claim('b', need(20))),
                'held': {'b': {(0, HUGE): 20}},
            },
            {
                'claims': (a,),
                'promises': [promise('b', need(20), launching=True)],
                'held': {'b': {(0, HUGE): 20}},
            },
        ):
            self.assert_room(
                40,
                *values.pop('promises', ()),
                found=[pool(50)],
                bound=self.bound(10),
                **values,
            )
        self.assert_room(
            60,
            found=[pool(50)],
            bound=self.bound(10),
            claims=(a, claim('me', need(20))),
        )
        # b has ended since it was looked at.
        self.assert_room(
            20,
            bound=self.bound(60),
            claims=(a, claim('b', need(20))),
            held={'b': {(0, HUGE): 20}},
        )

    def test_what_running_guests_had_reserved_before_is_theirs(self):
        self.assert_room(
            30,
            promise('a', need(30), launching=True),
            found=[pool(100)],
            claims=(claim('b', need(40)),),
            held={'b': {}},
            bound=self.bound(70),
            reserved_before={HUGE: 40},
        )

    def test_launches_in_other_pools_are_not_awaited(self):
        """What is reserved is taken for theirs."""
        outcome = self.judge(
            50,
            promise('a', need(30, node=1), launching=True),
            found=[pool(50), pool(30, node=1, total=30)],
            bound=self.bound(30),
            reserved_before={HUGE: 30},
        )
        self.assertEqual(standing.Outcome(FITS), outcome)

    def test_it_is_host_wide(self):
        found = [pool(50), pool(50, node=1)]
        bound = self.bound(30)
        self.assert_room(50, found=found, bound=bound)
        both = (need(40), need(31, node=1))
        [short] = self.judge(both, found=found, bound=bound).shortages
        self.assertEqual((1, 30), (short.node, short.available))


class MountTest(StandingTestCase):
    """A hugetlbfs mount gives out no more than its size."""

    bound = availability.Bound(mount_free=10)

    def test_what_it_may_still_give_out(self):
        self.assert_room(10, bound=self.bound)

    def test_less_what_is_promised_on_any_node(self):
        found = [pool(100), pool(100, node=1)]
        self.assert_room(
            6,
            promise('a', need(4, node=1)),
            found=found,
            bound=self.bound,
        )

    def test_a_guest_that_starts_on_any_node_is_awaited(self):
        starts = promise('a', need(4, node=1), launching=True)
        values = {
            'found': [pool(100), pool(100, node=1)],
            'bound': self.bound,
        }
        self.assert_room(6, starts, at_best=10, **values)
        self.assertEqual({'a'}, self.judge(7, starts, **values).awaited)
        held = {'a': {(1, HUGE): 3}}
        self.assert_room(9, starts, at_best=10, held=held, **values)

    def test_own_pages_are_given_out_anew(self):
        values = {
            'found': [pool(50), pool(50, node=1)],
            'claims': (claim('me', need(8)),),
        }
        self.assert_room(18, bound=self.bound, **values)
        # Nor less, whatever the mount says.
        self.assert_room(
            8,
            promise('a', need(40, node=1)),
            bound=self.bound,
            **values,
        )


class OwnTest(StandingTestCase):
    """A guest that is started anew."""

    claims = (claim('me', need(40)),)

    def test_its_pages_are_free_for_it(self):
        self.assert_room(50, found=[pool(10)], claims=self.claims)

    def test_but_not_those_that_it_has_not_touched(self):
        """They are free already."""
        self.assert_room(
            60,
            found=[pool(35)],
            claims=self.claims,
            held={'me': {(0, HUGE): 25}},
        )
        self.assert_room(
            35, found=[pool(35)], claims=self.claims, held={'me': {}}
        )

    def test_nor_those_on_other_nodes(self):
        self.assert_room(
            10,
            found=[pool(10), pool(10, node=1)],
            claims=(claim('me', need(40, node=1)),),
        )

    def test_what_it_has_is_never_refused(self):
        """Whatever else is promised, reserved, untouched, or left over."""
        others = (claim('a', need(20)),)
        for promises, values in (
            ([promise('a', need(90))], {}),
            ([], {'bound': availability.Bound(reserved=90)}),
            ([], {'configured': {(0, HUGE): 90}}),
            ([], {'bound': availability.Bound(mount_free=0)}),
            ([], {'claims': self.claims + others, 'held': {'a': {}}}),
            ([], {'found': [pool(0, total=40, surplus=40)]}),
        ):
            values = {
                'found': [pool(0)],
                'claims': self.claims,
                **values,
            }
            self.assert_room(40, *promises, **values)


class RestartTest(StandingTestCase):
    """Another guest that is started anew: its old domain first has to end."""

    restarts = promise('a', need(40), domain_id=7)

    def test_until_then_it_holds_them(self):
        self.assert_room(
            60,
            self.restarts,
            found=[pool(60)],
            claims=(claim('a', need(40), number=7),),
        )

    def test_with_pages_that_it_has_not_touched(self):
        self.assert_room(
            60,
            self.restarts,
            claims=(claim('a', need(40), number=7),),
            held={'a': {}},
        )

    def test_it_comes_back_larger(self):
        self.assert_room(
            50,
            promise('a', need(50), domain_id=7),
            found=[pool(60)],
            claims=(claim('a', need(40), number=7),),
        )

    def test_or_smaller(self):
        self.assert_room(
            60,
            promise('a', need(30), domain_id=7),
            found=[pool(60)],
            claims=(claim('a', need(40), number=7),),
        )

    def test_or_on_another_node(self):
        values = {
            'found': [pool(60), pool(100, node=1)],
            'claims': (claim('a', need(40), number=7),),
        }
        moves = promise('a', need(40, node=1), domain_id=7)
        self.assert_room(60, moves, **values)
        outcome = self.judge((need(61, node=1),), moves, **values)
        self.assertEqual(60, outcome.shortages[0].available)

    def test_when_it_has_ended_they_are_promised(self):
        self.assert_room(60, self.restarts)

    def test_what_it_had_may_be_on_its_way_back(self):
        """A process that shares its memory goes on for a while."""
        values = {'found': [pool(60)]}
        self.assert_room(20, self.restarts, at_best=60, **values)
        for wanted in (21, 61):
            outcome = self.judge(wanted, self.restarts, **values)
            self.assertEqual({'a'}, outcome.awaited)
            self.assertFalse(outcome.touching)
        self.assertTrue(outcome.doubtful)

    def test_two_that_return_do_not_take_it_from_each_other(self):
        other = promise('b', need(40), domain_id=8)
        self.assert_room(0, self.restarts, other, at_best=20, found=[pool(60)])
        self.assert_room(20, other, at_best=60, found=[pool(60)])

    def test_until_it_is_launched(self):
        launched = dataclasses.replace(
            self.restarts, launching=True, domain_id=None
        )
        for found in ([pool(60)], [pool(100)]):
            outcome = self.judge(61, launched, found=found)
            self.assertTrue(outcome.touching)

    def test_libvirt_does_not_say_that_it_has_ended(self):
        self.assert_room(20, self.restarts, found=[pool(60)], complete=False)

    def test_nobody_waits_for_its_end(self):
        outcome = self.judge(
            61,
            self.restarts,
            found=[pool(60)],
            claims=(claim('a', need(40), number=7),),
        )
        self.assertEqual(frozenset(), outcome.awaited)

    def test_another_domain_of_it_is_one_that_starts(self):
        """A soft reboot does not say so."""
        values = {
            'found': [pool(70)],  # and 20 are an outsider's
            'claims': (claim('a', need(40), number=8),),
            'held': {'a': {(0, HUGE): 10}},
        }
        self.assert_room(40, self.restarts, at_best=60, **values)
        self.assertEqual(
            {'a'}, self.judge(41, self.restarts, **values).awaited
        )

    def test_so_is_that_of_a_build(self):
        self.assert_room(
            40,
            promise('a', need(40)),
            at_best=60,
            found=[pool(70)],
            claims=(claim('a', need(40)),),
            held={'a': {(0, HUGE): 10}},
        )


class AnywhereTest(StandingTestCase):
    """Guests of others, for which no node is named."""

    claims = (claim('a', anywhere=((HUGE, 40), (GIANT, 7))),)

    def test_it_takes_them_from_any_node(self):
        found = [pool(50), pool(50, node=1)]
        values = {'found': found, 'claims': self.claims, 'held': {'a': {}}}
        self.assert_room(50, **values)
        both = (need(50), need(11, node=1))
        [short] = self.judge(both, **values).shortages
        self.assertEqual((1, 10), (short.node, short.available))

    def test_what_it_has_touched(self):
        found = [pool(50), pool(25, node=1)]
        held = {'a': {(0, HUGE): 15, (1, HUGE): 10, (1, GIANT): 7}}
        values = {'found': found, 'claims': self.claims, 'held': held}
        both = (need(50), need(11, node=1))
        [short] = self.judge(both, **values).shortages
        self.assertEqual((1, 10), (short.node, short.available))

    def test_more_than_it_claims(self):
        held = {'a': {(0, HUGE): 50}}
        self.assert_room(50, found=[pool(50)], claims=self.claims, held=held)

    def test_which_says_nothing_of_others(self):
        self.assert_room(
            10,
            found=[pool(20)],
            claims=(*self.claims, claim('b', anywhere=((HUGE, 40),))),
            held={'a': {(0, HUGE): 50}, 'b': {(0, HUGE): 30}},
        )

    def test_it_was_not_looked_at(self):
        self.assert_room(60, found=[pool(60)], claims=self.claims)

    def test_beside_a_guest_that_starts(self):
        self.assert_room(
            30,
            promise('b', need(30), launching=True),
            claims=self.claims,
            held={'a': {}},
        )

    def test_what_it_has_reserved_does_not_count_twice(self):
        for reserved, room in ((40, 60), (45, 55)):
            self.assert_room(
                room,
                claims=self.claims,
                held={'a': {}},
                bound=availability.Bound(reserved=reserved),
            )


class SmallTest(StandingTestCase):
    """The small pages of guests that are bound to their nodes."""

    def small(self, free, **values):
        return pool(free, size=SMALL, small=True, **values)

    def room(self, *promises, **values):
        [short] = self.judge(
            (need(999, size=SMALL),), *promises, **values
        ).shortages
        self.assertEqual(
            f'small pages of {SMALL} KiB on host NUMA node 0: needed 999, '
            f'available {short.available}',
            str(short),
        )
        return short.available

    def test_what_is_free(self):
        self.assertEqual(30, self.room(found=[self.small(30)]))

    def test_what_is_promised(self):
        found = [self.small(30)]
        self.assertEqual(
            20,
            self.room(promise('a', need(10, size=SMALL)), found=found),
        )

    def test_there_is_no_other_limit(self):
        """The kernel counts huge pages among the total of small ones."""
        self.assertEqual(
            30,
            self.room(
                found=[self.small(30, total=30, surplus=9)],
                configured={(0, SMALL): 25},
            ),
        )

    def test_of_a_guest_that_starts_nobody_knows_how_many_it_has(self):
        outcome = self.judge(
            (need(25, size=SMALL),),
            promise('a', need(10, size=SMALL), launching=True),
            found=[self.small(30)],
        )
        self.assertEqual(UNCERTAIN, outcome.verdict)
        self.assertEqual({'a'}, outcome.awaited)

    def test_one_that_is_to_restart_has_them(self):
        """Nobody says how many it touched."""
        restarts = promise('a', need(10, size=SMALL), domain_id=7)
        runs = {'found': [self.small(30)]}
        for wanted, verdict in (
            (20, FITS),
            (21, UNCERTAIN),
            (30, UNCERTAIN),
            (31, SHORT),
        ):
            outcome = self.judge((need(wanted, size=SMALL),), restarts, **runs)
            self.assertEqual(verdict, outcome.verdict, wanted)
        self.assertEqual(
            30,
            self.room(restarts, claims=(claim('a', number=7),), **runs),
        )

    def test_its_own_are_free_for_it(self):
        for found in ([self.small(0)], [self.small(5)]):
            wanted = (need(10, size=SMALL),)
            self.assertEqual(
                FITS,
                self.judge(wanted, found=found, claims=(claim('me'),)).verdict,
            )
            self.assertEqual(SHORT, self.judge(wanted, found=found).verdict)

    def test_beside_huge_ones(self):
        outcome = self.judge(
            (need(101), need(31, size=SMALL)),
            found=[pool(100), self.small(30)],
        )
        self.assertEqual(
            [(HUGE, 100, False), (SMALL, 30, True)],
            [
                (each.page_size, each.available, each.small)
                for each in outcome.shortages
            ],
        )


class VerdictTest(StandingTestCase):
    def test_the_kernel_may_add_pages(self):
        """Pool 20 of 20, nr_overcommit_hugepages 100, 60 asked."""
        outcome = self.judge(
            60,
            found=[pool(20, total=20)],
            bound=availability.Bound(overcommit=100),
        )
        self.assertEqual(OVERCOMMITS, outcome.verdict)
        self.assertEqual(
            (availability.Shortage(0, HUGE, 60, 20),), outcome.shortages
        )

    def test_but_not_of_another_size(self):
        outcome = self.judge(
            (need(60), need(2, size=GIANT)),
            found=[pool(20), pool(1, size=GIANT)],
            bound=availability.Bound(overcommit=100),
        )
        self.assertEqual(SHORT, outcome.verdict)

    def test_when_a_shortage_is_in_doubt(self):
        """Some start may fail, and give back what it took for a moment."""
        elsewhere = promise('a', need(5, node=1), launching=True)
        starts = promise('a', need(5), launching=True)
        two = [pool(10), pool(10, node=1)]
        for expected, promises, values in (
            (False, [], {}),
            (False, [], {'bound': availability.Bound(overcommit=9)}),
            (True, [], {'bound': availability.Bound(reserved=1)}),
            (True, [], {'complete': False}),
            (True, [starts], {}),
            (False, [elsewhere], {}),
            (False, [promise('a', need(5))], {}),
        ):
            outcome = self.judge(101, *promises, **{'found': two, **values})
            self.assertIs(expected, outcome.doubtful, (promises, values))

    def test_of_two_sizes_one_is_in_doubt(self):
        outcome = self.judge(
            (need(101), need(2, size=GIANT)),
            found=[pool(100), pool(1, size=GIANT)],
            bound=availability.Bound(reserved=1),
        )
        self.assertTrue(outcome.doubtful)

    def test_who_is_awaited(self):
        """Who starts in the same pools, and nobody else."""
        outcome = self.judge(
            (need(50), need(50, node=1)),
            promise('a', need(1), launching=True),
            promise(
                'b',
                need(1, node=1),
                need(9, node=16),
                launching=True,
            ),
            promise('c', need(9, node=16), launching=True),
            promise('d', need(1, size=GIANT), launching=True),
            promise('e', need(1)),
            promise('me', need(1), launching=True),
            found=[pool(51), pool(50, node=1)],
        )
        self.assertEqual(UNCERTAIN, outcome.verdict)
        self.assertEqual({'a', 'b'}, outcome.awaited)

    def test_what_fits_awaits_nobody(self):
        self.assertEqual(
            standing.Outcome(FITS),
            self.judge(10, promise('a', need(1), launching=True)),
        )


NODES = (0, 1)
PAGES = st.integers(0, 12)


def _some_needs(draw):
    return tuple(
        need(pages, node) for node in NODES for pages in [draw(PAGES)] if pages
    )


@st.composite
def _standings(draw):
    """Needs, promises and figures, however unlikely."""
    found = [
        pool(free, node, total=free + draw(PAGES), surplus=0)
        for node in NODES
        for free in [draw(st.integers(0, 40))]
    ]
    claims, held = [], {}
    for uuid in draw(st.sets(st.sampled_from('abm'))):
        claims.append(claim(uuid, *_some_needs(draw), number=draw(PAGES)))
        if draw(st.booleans()):
            held[uuid] = {(node, HUGE): draw(PAGES) for node in NODES}
    promises = [
        promise(
            uuid,
            *_some_needs(draw),
            launching=draw(st.booleans()),
            domain_id=draw(st.none() | PAGES),
        )
        for uuid in draw(st.sets(st.sampled_from('acd')))
    ]
    bound = availability.Bound(
        reserved=draw(PAGES), mount_free=draw(st.none() | st.integers(0, 60))
    )
    return (
        _some_needs(draw),
        promises,
        figures(
            *found,
            bound=bound,
            claims=tuple(claims),
            held=held,
            configured={(0, HUGE): draw(PAGES)},
            reserved_before={HUGE: draw(PAGES)},
        ),
    )


# The better, the further back.
GOOD = (SHORT, UNCERTAIN, FITS)


class PropertyTest(base.TestCase):
    @hypothesis.given(_standings(), PAGES)
    def test_more_free_pages_never_harm(self, case, more):
        wanted, promises, now = case
        first = standing.judge('m', wanted, promises, now)
        larger = dataclasses.replace(
            now,
            pools=tuple(
                dataclasses.replace(
                    each, free=each.free + more, total=each.total + more
                )
                for each in now.pools
            ),
        )
        then = standing.judge('m', wanted, promises, larger)
        self.assertGreaterEqual(
            GOOD.index(then.verdict), GOOD.index(first.verdict)
        )

    @hypothesis.given(_standings(), st.data())
    def test_another_promise_never_helps(self, case, data):
        wanted, promises, now = case
        first = standing.judge('m', wanted, promises, now)
        another = promise('z', *_some_needs(data.draw))
        then = standing.judge('m', wanted, [*promises, another], now)
        self.assertLessEqual(
            GOOD.index(then.verdict), GOOD.index(first.verdict)
        )

    @hypothesis.given(_standings())
    def test_to_have_launched_is_no_worse_than_to_launch(self, case):
        """At the best a guest that starts has touched its pages."""
        wanted, promises, now = case
        left = {}
        for at_best in (False, True):
            spoken = spoken_for.of_pools(
                'm', wanted, [p for p in promises if p.uuid != 'm'], now
            )
            found, bounds = standing._left(spoken, now, at_best)
            left[at_best] = [each.free for each in found] + [
                availability.host_wide(found, HUGE, bounds[HUGE])
            ]
        for worst, best in zip(left[False], left[True], strict=True):
            self.assertLessEqual(worst, best)

    @hypothesis.given(_standings(), st.randoms(use_true_random=False))
    def test_the_order_of_guests_and_pools_does_not_matter(self, case, rnd):
        wanted, promises, now = case
        mixed = {
            name: tuple(rnd.sample(list(each), len(each)))
            for name, each in (
                ('pools', now.pools),
                ('claims', now.claims),
            )
        }
        self.assertEqual(
            standing.judge('m', wanted, promises, now),
            standing.judge(
                'm',
                iter(wanted),
                iter(rnd.sample(promises, len(promises))),
                dataclasses.replace(now, **mixed),
            ),
        )

    @hypothesis.given(_standings())
    def test_what_is_offered_is_what_is_judged_by(self, case):
        wanted, _, now = case
        outcome = standing.judge('m', wanted, (), now)
        offers = standing.offers('m', iter(wanted), now)
        self.assertEqual(
            [(need.node, need.page_size, need.pages) for need in wanted],
            [(each.node, each.page_size, each.needed) for each in offers],
        )
        self.assertEqual(
            outcome.verdict is FITS, not any(each.short for each in offers)
        )
        if outcome.verdict in (SHORT, OVERCOMMITS):
            self.assertEqual(
                [str(each) for each in outcome.shortages],
                [
                    f'huge pages of {each.page_size} KiB on host NUMA node '
                    f'{each.node}: needed {each.needed}, '
                    f'available {each.available}'
                    for each in offers
                    if each.short
                ],
            )

    @hypothesis.given(_standings())
    def test_a_verdict_has_what_belongs_to_it(self, case):
        outcome = standing.judge('m', *case)
        self.assertEqual(outcome.verdict is FITS, not outcome.shortages)
        if outcome.verdict is UNCERTAIN:
            self.assertTrue(outcome.awaited)


@st.composite
def _hosts(draw):
    """A host as it is: who holds what, and who will.

    Each pool is the sum of its parts, so that nobody was promised too much.
    """
    parts = {
        node: {
            name: draw(PAGES)
            for name in (
                'left',
                'outsider',
                'held',
                'idle',
                'touched',
                'mapped',
                'unmapped',
                'promised',
                'own',
            )
        }
        for node in NODES
    }
    others = draw(st.integers(0, 12))  # mapped by an outsider, untouched
    hypothesis.assume(others <= sum(part['left'] for part in parts.values()))
    return parts, others


class ModelTest(base.TestCase):
    """Figures of a host of which everything is known."""

    def judged(self, wanted, parts, others):
        def of(*names):
            return tuple(
                need(pages, node)
                for node, part in parts.items()
                for pages in [sum(part[name] for name in names)]
                if pages
            )

        def held(name):
            return {(node, HUGE): part[name] for node, part in parts.items()}

        free = ('left', 'idle', 'mapped', 'unmapped', 'promised')
        starts = of('touched', 'mapped', 'unmapped')
        now = figures(
            *(
                pool(
                    sum(part[name] for name in free),
                    node,
                    total=sum(part.values()),
                )
                for node, part in parts.items()
            ),
            bound=availability.Bound(
                reserved=others
                + sum(p['idle'] + p['mapped'] for p in parts.values())
            ),
            claims=(
                claim('runs', *of('held', 'idle')),
                claim('starts', *starts),
                claim('me', *of('own')),
            ),
            held={'runs': held('held'), 'starts': held('touched')},
            reserved_before={
                HUGE: others + sum(p['idle'] for p in parts.values())
            },
        )
        promises = [
            promise('starts', *starts, launching=True),
            promise('waits', *of('promised')),
        ]
        return standing.judge('me', wanted, promises, now)

    @hypothesis.settings(max_examples=500)
    @hypothesis.given(_hosts(), st.data())
    def test_a_guest_fits_if_everybody_else_gets_what_is_theirs(
        self, host, data
    ):
        parts, others = host
        wanted = tuple(
            need(pages, node)
            for node in NODES
            for pages in [data.draw(st.integers(0, 26))]
            if pages
        )
        each = all(
            one.pages <= parts[one.node]['left'] + parts[one.node]['own']
            for one in wanted
        )
        room = sum(part['left'] + part['own'] for part in parts.values())
        together = sum(one.pages for one in wanted) <= room - others
        outcome = self.judged(wanted, parts, others)
        if each and (together or not wanted):
            self.assertEqual(FITS, outcome.verdict)
        elif not each:
            self.assertIn(outcome.verdict, (SHORT, UNCERTAIN))
        elif outcome.verdict is FITS:
            # What the outsider mapped is taken for that of a guest which
            # starts in a pool that is not asked for.
            asked = {one.node for one in wanted}
            self.assertFalse(
                any(
                    parts[node][name]
                    for node in asked
                    for name in ('touched', 'mapped', 'unmapped')
                )
            )
