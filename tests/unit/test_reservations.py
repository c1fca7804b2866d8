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

"""Pages promised to guests that are starting."""

import dataclasses
import threading
import time

from nova_numa_guard import availability, facts, reservations, standing
from tests.unit import base, known, waiting

# What a test waits for something that does happen.
LONG = 30


class KilledError(BaseException):
    """What a thread is killed by."""


class ReservationsTestCase(base.TestCase):
    """A host of two nodes with a hundred pages each."""

    def setUp(self):
        super().setUp()
        self.desk = reservations.Reservations()
        self.looks = []
        self.reads = True
        self.free = {0: 100, 1: 100}
        self.bound = availability.Bound()
        self.held = {}
        self.then = None
        self.set(LOOK_AGAIN=LONG, CONFIRM=0.05, RECOVER=0.01)

    def set(self, **seconds):
        for name, value in seconds.items():
            self.addCleanup(
                setattr, reservations, name, getattr(reservations, name)
            )
            setattr(reservations, name, value)

    def look(self, promises):
        self.looks.append(promises)
        if self.then:
            self.then()
        if not self.reads:
            return None
        return facts.Figures(
            tuple(
                availability.Pool(node, 2048, 200, free)
                for node, free in self.free.items()
            ),
            {2048: self.bound},
            held=self.held,
        )

    def ask(self, uuid='a', pages=60, node=0, patience=LONG, **values):
        return self.desk.promise(
            uuid, [known.need(pages, node)], self.look, patience, **values
        )

    def uuids(self):
        return [promise.uuid for promise in self.desk.promises]

    def later(self, function, *args, **values):
        waiting.later(self, self.desk, function, *args, **values)

    def change(self, **values):
        for name, value in values.items():
            setattr(self, name, value)

    def launch(self, uuid='b', pages=60, node=0, free=40):
        """A guest is starting; it has touched all but outsiders' pages."""
        reservation = self.ask(uuid, pages, node)
        self.desk.launch(uuid)
        self.free[node] = free
        self.looks.clear()
        return reservation

    def timed(self, function, *args, **values):
        begun = time.monotonic()
        found = function(*args, **values)
        return found, time.monotonic() - begun

    def assert_short(self, reservation):
        self.assertFalse(reservation.granted)
        self.assertEqual(standing.Verdict.SHORT, reservation.outcome.verdict)


class GrantTest(ReservationsTestCase):
    def test_enough(self):
        found = self.ask(pages=100, domain_id=7)
        self.assertTrue(found.granted)
        self.assertEqual(
            standing.Outcome(standing.Verdict.FITS), found.outcome
        )
        self.assertEqual(
            (facts.Promise('a', (known.need(100),), domain_id=7),),
            self.desk.promises,
        )

    def test_not_enough(self):
        self.assert_short(self.ask(pages=101))
        self.assertEqual((), self.desk.promises)

    def test_of_two_that_want_the_same_pages_one_gets_them(self):
        self.assertTrue(self.ask('a').granted)
        self.assert_short(self.ask('b'))
        self.assertEqual(['a'], self.uuids())
        self.assertEqual(['a'], [p.uuid for p in self.looks[-1]])

    def test_when_it_is_released_the_other_does(self):
        first = self.ask('a')
        self.desk.release(first)
        self.assertTrue(self.ask('b').granted)

    def test_the_kernel_may_add_pages(self):
        self.bound = availability.Bound(overcommit=1)
        found = self.ask(pages=101)
        self.assertTrue(found.granted)
        self.assertEqual(standing.Verdict.OVERCOMMITS, found.outcome.verdict)
        self.assertEqual(['a'], self.uuids())

    def test_there_are_no_figures(self):
        self.reads = False
        found = self.ask(pages=101)
        self.assertEqual((True, None), (found.granted, found.outcome))
        self.assertEqual(['a'], self.uuids())

    def test_always(self):
        found = self.ask(pages=101, always=True)
        self.assertTrue(found.granted)
        self.assertEqual(standing.Verdict.SHORT, found.outcome.verdict)
        self.assertEqual(['a'], self.uuids())

    def test_a_look_that_fails_promises_nothing(self):
        def fail():
            raise KilledError

        self.then = fail
        self.assertRaises(KilledError, self.ask)
        self.then = None
        # And nobody is locked out.
        thread = threading.Thread(
            target=self.ask, args=('b', 100), daemon=True
        )
        thread.start()
        thread.join(LONG)
        self.assertEqual(['b'], self.uuids())

    def test_generators_will_do(self):
        found = self.desk.promise(
            'a', iter([known.need(60)]), self.look, patience=0
        )
        self.assertTrue(found.granted)
        self.assertEqual((known.need(60),), self.desk.promises[0].needs)


class ShareTest(ReservationsTestCase):
    """A start that is part of another."""

    def test_it_is_not_judged_anew(self):
        self.ask('a', 100)
        inner = self.ask('a', 999)
        self.assertEqual((True, None), (inner.granted, inner.outcome))
        self.assertEqual(1, len(self.looks))
        self.assertEqual((known.need(100),), self.desk.promises[0].needs)

    def test_the_promise_ends_with_the_last(self):
        for order in (1, -1):
            both = [self.ask('a'), self.ask('a')][::order]
            self.desk.release(both[0])
            self.assertEqual(['a'], self.uuids())
            self.desk.release(both[1])
            self.assertEqual([], self.uuids())

    def test_to_release_twice_does_no_harm(self):
        outer, inner = self.ask('a'), self.ask('a')
        self.desk.release(inner)
        self.desk.release(inner)
        self.assertEqual(['a'], self.uuids())
        self.desk.release(outer)
        self.ask('a')
        self.desk.release(outer)
        self.assertEqual(['a'], self.uuids())

    def test_to_release_what_was_refused_does_no_harm(self):
        refused = self.ask('a', 999)
        self.ask('a')
        self.desk.release(refused)
        self.assertEqual(['a'], self.uuids())

    def test_what_has_landed_is_judged_anew(self):
        first = self.ask('a')
        self.desk.land('a')
        self.assert_short(self.ask('a', 999))
        second = self.ask('a')
        self.desk.release(second)
        self.desk.release(first)
        self.assertEqual([], self.uuids())

    def test_two_threads_start_one_guest(self):
        """While one waits, the other is promised its pages and launches."""
        self.launch(free=60)

        def overtake():
            self.desk.promise('a', [known.need(60)], self.look, 0, always=True)
            self.desk.launch('a')
            self.free[0] = 0
            self.desk.land('b')

        self.later(overtake)
        found = self.ask('a', patience=LONG)
        self.assertTrue(found.granted)
        [promise] = self.desk.promises
        self.assertTrue(promise.launching)


class LaunchTest(ReservationsTestCase):
    def test_what_becomes_of_a_promise(self):
        self.ask('a', domain_id=7)
        promised = facts.Promise('a', (known.need(60),))
        self.assertEqual(frozenset(), self.desk.launching())
        self.desk.launch('a')
        self.assertEqual(
            (dataclasses.replace(promised, launching=True),),
            self.desk.promises,
        )
        self.assertEqual({'a'}, self.desk.launching())
        self.desk.fail('a')
        self.assertEqual((promised,), self.desk.promises)
        self.desk.launch('a')
        self.desk.land('a')
        self.assertEqual((), self.desk.promises)

    def test_a_guest_that_nobody_knows(self):
        for step in (self.desk.launch, self.desk.fail, self.desk.land):
            step('a')
            self.assertEqual((), self.desk.promises)


class WaitTest(ReservationsTestCase):
    def test_until_the_launch_has_returned(self):
        """And not until its patience has ended."""
        self.launch()
        self.later(self.desk.land, 'b')
        found, seconds = self.timed(self.ask, 'a', 40)
        self.assertTrue(found.granted)
        self.assertGreater(found.waited, 0)
        self.assertLess(seconds, LONG / 2)

    def test_until_the_launch_has_failed(self):
        """It will try again, and is promised its pages until then."""
        self.launch()
        self.later(self.desk.fail, 'b')
        found, seconds = self.timed(self.ask, 'a', 40)
        self.assert_short(found)
        self.assertLess(seconds, LONG / 2)

    def test_until_it_is_released(self):
        starts = self.launch()
        self.later(self.desk.release, starts)
        found, seconds = self.timed(self.ask, 'a', 40)
        self.assertTrue(found.granted)
        self.assertLess(seconds, LONG / 2)

    def test_until_enough_is_touched(self):
        """Nobody says when: it looks again."""
        self.set(LOOK_AGAIN=0.01)
        self.launch()
        self.later(self.change, held={'b': {(0, 2048): 60}})
        found, seconds = self.timed(self.ask, 'a', 40)
        self.assertTrue(found.granted)
        self.assertGreater(len(self.looks), 1)
        self.assertLess(seconds, LONG / 2)

    def test_no_longer_than_its_patience(self):
        self.launch()
        found, seconds = self.timed(self.ask, 'a', 40, patience=0.1)
        self.assertFalse(found.granted)
        self.assertEqual(standing.Verdict.UNCERTAIN, found.outcome.verdict)
        self.assertGreaterEqual(seconds, 0.1)
        self.assertLess(seconds, LONG / 2)
        self.assertEqual(['b'], self.uuids())

    def test_without_patience_it_looks_once(self):
        self.launch()
        self.bound = availability.Bound(reserved=1)
        for pages in (40, 100):
            self.looks.clear()
            self.assertFalse(self.ask('a', pages, patience=0).granted)
            self.assertEqual(1, len(self.looks))

    def test_in_doubt_always_is_not_at_once(self):
        self.launch()
        self.later(self.desk.land, 'b')
        found = self.ask('a', 40, always=True)
        self.assertEqual(standing.Verdict.FITS, found.outcome.verdict)
        self.assertGreater(found.waited, 0)

    def test_nobody_waits_for_launches_in_other_pools(self):
        self.launch(node=1)
        found = self.ask('a', 100)
        self.assertTrue(found.granted)
        self.assertEqual(1, len(self.looks))
        self.desk.release(found)
        self.assert_short(self.ask('a', 101))
        self.assertEqual(2, len(self.looks))

    def test_what_does_not_fit_in_any_case_does_not_wait_for_the_end(self):
        self.launch()
        found, seconds = self.timed(self.ask, 'a', 41)
        self.assert_short(found)
        self.assertLess(seconds, LONG / 2)

    def test_who_waits_has_no_promise(self):
        self.launch()
        seen = []
        self.later(lambda: seen.extend(self.uuids()))
        self.ask('a', 40, patience=0.2)
        self.assertEqual(['b'], seen)


class DoubtTest(ReservationsTestCase):
    """A shortage that may last but a moment."""

    def setUp(self):
        super().setUp()
        self.bound = availability.Bound(reserved=1)
        self.free[1] = 0

    def test_it_is_confirmed_by_a_second_look(self):
        found = self.ask(pages=100)
        self.assert_short(found)
        self.assertGreaterEqual(found.waited, 0.05)
        self.assertEqual(2, len(self.looks))

    def test_a_doomed_start_gives_back_what_it_took(self):
        self.free[0] = 0
        self.set(CONFIRM=0.1)
        self.later(self.change, free={0: 100, 1: 100})
        self.assertTrue(self.ask().granted)

    def test_without_doubt_it_is_not(self):
        self.bound = availability.Bound()
        found = self.ask(pages=101)
        self.assert_short(found)
        self.assertEqual(1, len(self.looks))

    def test_its_patience_is_shorter(self):
        self.set(CONFIRM=LONG)
        found = self.ask(pages=100, patience=0.05)
        self.assertLess(found.waited, LONG / 2)
        self.assertEqual(2, len(self.looks))

    def test_the_time_begins_anew_when_it_was_uncertain_between(self):
        """Short, then uncertain, then short: for how long, it is not said."""
        self.set(CONFIRM=0.3, LOOK_AGAIN=0.3)
        self.launch(free=100)
        self.free = {0: 30, 1: 0}
        states = iter([30, 50, 30, 30, 30, 30])

        def next_state():
            self.free[0] = next(states)

        self.then = next_state
        self.bound = availability.Bound()
        found = self.ask('a', 40)
        self.assert_short(found)
        # 0.3 s short, 0.3 s uncertain, 0.3 s short.
        self.assertEqual(4, len(self.looks))
        self.assertGreaterEqual(found.waited, 0.9)

    def test_a_clock_that_begins_at_nought(self):
        now = [0.0]
        self.desk = reservations.Reservations(clock=lambda: now[0])

        def tick():
            now[0] += 0.03

        self.then = tick
        now[0] = -0.03
        self.assert_short(self.ask(pages=100))
        self.assertEqual(3, len(self.looks))


class InsistTest(ReservationsTestCase):
    """The pools of a host that has booted may come later."""

    def test_it_waits_for_pages_that_are_not_there(self):
        self.set(LOOK_AGAIN=0.01)
        self.free[0] = 0
        self.later(self.change, free={0: 100})
        found, seconds = self.timed(self.ask, insist=True)
        self.assertTrue(found.granted)
        self.assertLess(seconds, LONG / 2)

    def test_no_longer_than_its_patience(self):
        found = self.ask(pages=101, insist=True, patience=0.1)
        self.assert_short(found)
        self.assertGreaterEqual(found.waited, 0.1)

    def test_others_do_not(self):
        found = self.ask(pages=101)
        self.assertLess(found.waited, 0.1)


class RecoverTest(ReservationsTestCase):
    def setUp(self):
        super().setUp()
        self.reservation = self.ask()
        self.looks.clear()

    def recover(self, patience=LONG):
        return self.desk.recover(self.reservation, self.look, patience)

    def test_they_are_there(self):
        found = self.recover()
        self.assertEqual((True, None), (found.granted, found.outcome))
        self.assertEqual(1, len(self.looks))

    def test_they_come_back(self):
        """The old process ends a little after its domain."""
        self.free[0] = 0
        self.later(self.change, free={0: 60})
        found, seconds = self.timed(self.recover)
        self.assertTrue(found.granted)
        self.assertLess(seconds, LONG / 2)
        self.assertGreater(len(self.looks), 1)

    def test_they_do_not(self):
        self.free[0] = 59
        found = self.recover(0.1)
        self.assert_short(found)
        self.assertGreaterEqual(found.waited, 0.1)
        self.assertEqual(['a'], self.uuids())

    def test_what_others_do_not_need_any_more(self):
        self.free[0] = 100
        other = self.ask('b', 40)
        self.free[0] = 60
        self.set(RECOVER=LONG)
        self.later(self.desk.release, other)
        found, seconds = self.timed(self.recover)
        self.assertTrue(found.granted)
        self.assertLess(seconds, LONG / 2)

    def test_in_doubt_it_waits_a_little_and_takes_them_for_there(self):
        """Others that may not be looked at were promised other pages."""
        self.launch('b', 40, free=60)
        found = self.recover(0.1)
        self.assertEqual((True, None), (found.granted, found.outcome))
        self.assertGreaterEqual(found.waited, 0.1)

    def test_nobody_waits_for_those_that_come_back_as_well(self):
        """What they had is not back yet, and they will not take these."""
        self.free[0] = 100
        self.ask('b', 40, domain_id=7)
        self.free[0] = 60
        found = self.recover()
        self.assertEqual((True, 0), (found.granted, found.waited))

    def test_the_kernel_may_add_pages(self):
        self.free[0] = 0
        self.bound = availability.Bound(overcommit=1)
        self.assertTrue(self.recover().granted)

    def test_there_are_no_figures(self):
        self.free[0], self.reads = 0, False
        self.assertTrue(self.recover().granted)

    def test_it_has_started(self):
        self.desk.land('a')
        self.free[0] = 0
        self.assertTrue(self.recover().granted)


class AbandonTest(ReservationsTestCase):
    """A finalizer may run anywhere, also where the lock is held."""

    def test_the_promise_ends(self):
        reservation = self.ask('a', 100)
        self.desk.abandon(reservation)
        self.assertTrue(self.ask('b', 100).granted)
        self.assertEqual(['b'], self.uuids())

    def test_while_another_thread_has_the_lock(self):
        reservation = self.ask('a')
        inside, outside = threading.Event(), threading.Event()

        def hang():
            inside.set()
            outside.wait(LONG)

        self.then = hang
        thread = threading.Thread(target=self.ask, args=('b',), daemon=True)
        thread.start()
        self.assertTrue(inside.wait(LONG))
        _, seconds = self.timed(self.desk.abandon, reservation)
        outside.set()
        thread.join(LONG)
        self.assertLess(seconds, LONG / 2)
        self.assertNotIn('a', self.uuids())

    def test_while_the_same_thread_has_it(self):
        reservation = self.ask('a', 100)
        self.then = lambda: self.desk.abandon(reservation)
        self.assert_short(self.ask('b'))
        self.then = None
        self.assertTrue(self.ask('b').granted)

    def test_who_waits_for_it_is_told(self):
        self.set(LOOK_AGAIN=0.01)
        starts = self.launch()
        self.later(self.desk.abandon, starts)
        found, seconds = self.timed(self.ask, 'a', 40)
        self.assertTrue(found.granted)
        self.assertLess(seconds, LONG / 2)

    def test_a_thread_that_is_killed_while_it_waits_for_the_lock(self):
        reservation = self.ask('a')
        lock = self.desk._changed

        class Lock:
            def __enter__(self):
                raise KilledError

            def __exit__(self, *args):
                pass

        self.desk._changed = Lock()
        self.assertRaises(KilledError, self.desk.release, reservation)
        self.desk._changed = lock
        self.assertEqual([], self.uuids())
