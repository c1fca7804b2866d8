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

"""The figures of the page check, while pages change hands."""

from nova_numa_guard import (
    availability,
    facts,
    fixture,
    look,
    pools,
    standing,
)
from tests.unit import base, known, samples

HUGE, GIANT, SMALL = samples.HUGE, samples.GIANT, pools.SMALL_PAGE
need = known.need
claim = known.claim


class Watched:
    """A kernel, and libvirt's listing, that say what they are asked.

    :param before: is called before each answer, with how many were given
    """

    def __init__(self, kernel):
        self.kernel = kernel
        self.claims = ()
        self.asked = []
        self.before = lambda count: None

    def _answer(self, name, ask, *args):
        self.before(len(self.asked))
        self.asked.append(name)
        return ask(*args)

    def pools(self, page_size):
        return self._answer('pools', self.kernel.pools, page_size)

    def bound(self, page_size):
        return self._answer('bound', self.kernel.bound, page_size)

    def small_pool(self, node):
        return self._answer('small', self.kernel.small_pool, node)

    def held(self, name):
        return self._answer(f'held {name}', self.kernel.held, name)

    def running(self):
        return self._answer('running', lambda: self.claims)


class LookTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(fixture.KernelFixture())
        self.machine.set_pool(0, HUGE, total=100, free=100)
        self.machine.set_bound(HUGE)
        self.watched = Watched(self.machine.kernel)
        self.lookout = look.Lookout(self.watched, self.watched.running, {})

    def figures(self, *promises, needs=None):
        return self.lookout.figures(needs or [need(1)], promises)


class FiguresTest(LookTestCase):
    def test_of_the_pools_that_are_needed(self):
        self.machine.set_pool(1, HUGE, total=50, free=40, surplus=3)
        self.machine.set_pool(0, GIANT, total=5, free=4)
        self.machine.set_bound(HUGE, reserved=7)
        self.machine.set_bound(GIANT, overcommit=2)
        self.machine.set_memory(0, total=8 * SMALL, free=6 * SMALL)
        self.lookout.configured = {(0, HUGE): 9}
        self.watched.claims = (claim('a', need(3)),)
        huge = (
            availability.Pool(0, HUGE, 100, 100),
            availability.Pool(1, HUGE, 50, 40, 3),
        )
        giant = (availability.Pool(0, GIANT, 5, 4),)
        small = (availability.Pool(0, SMALL, 8, 6, small=True),)
        bounds = {
            HUGE: availability.Bound(reserved=7),
            GIANT: availability.Bound(overcommit=2),
        }
        for needs, expected, sizes in (
            ([need(1)], huge, [HUGE]),
            (
                [need(1, size=GIANT), need(1, 1)],
                huge + giant,
                [HUGE, GIANT],
            ),
            ([need(1, size=SMALL)], small, []),
            ([need(1, size=SMALL), need(2)], small + huge, [HUGE]),
        ):
            found = self.figures(needs=iter(needs))
            self.assertEqual(expected, found.pools)
            self.assertEqual(
                {size: bounds[size] for size in sizes}, found.bounds
            )
            self.assertEqual({(0, HUGE): 9}, found.configured)
            self.assertEqual(self.watched.claims, found.claims)
            self.assertTrue(found.complete)

    def test_a_page_size_that_the_host_lacks(self):
        """It has no files of it."""
        found = self.figures(needs=[need(1, size=GIANT), need(1)])
        self.assertEqual({HUGE}, {pool.page_size for pool in found.pools})
        self.assertEqual({HUGE}, set(found.bounds))

    def test_a_page_size_that_no_node_has(self):
        self.machine.set_bound(GIANT, overcommit=5)
        found = self.figures(needs=[need(1, size=GIANT)])
        self.assertEqual(((), {}), (found.pools, found.bounds))

    def test_a_guest_that_is_bound_to_the_small_pages_of_a_node(self):
        self.machine.set_memory(0, total=8 * SMALL, free=6 * SMALL)
        for pages, expected in (
            (6, standing.Verdict.FITS),
            (7, standing.Verdict.SHORT),
        ):
            needs = [need(pages, size=SMALL)]
            outcome = standing.judge(
                'me', needs, (), self.figures(needs=needs)
            )
            self.assertEqual(expected, outcome.verdict)

    def test_what_cannot_be_read(self):
        path = 'sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages'
        (self.machine.root / path).unlink()
        self.assertRaises(pools.UnreadableError, self.figures)

    def test_what_guests_claim_is_summed_anew_when_they_change(self):
        for claims, sums in (
            ((claim('a', need(10)), claim('b', need(5))), {(0, HUGE): 15}),
            ((claim('a', need(10)),), {(0, HUGE): 10}),
            (None, {}),
            ((claim('a', need(10, 1)),), {(1, HUGE): 10}),
            ((), {}),
        ):
            self.watched.claims = claims
            for _ in range(2):
                self.assertEqual(sums, self.figures().sums())

    def test_libvirt_does_not_say_who_runs(self):
        self.watched.claims = None
        found = self.figures(facts.Promise('a', (need(1),), True))
        self.assertEqual(((), False), (found.claims, found.complete))


class HeldTest(LookTestCase):
    def setUp(self):
        super().setUp()
        self.machine.set_pool(0, HUGE, total=100, free=90)
        self.watched.claims = (
            claim('a', need(10)),
            claim('b', need(10)),
        )
        self.machine.set_process('a', 71, {(0, HUGE): 7})
        self.machine.set_process('b', 72, {(0, HUGE): 3})

    def test_nobody_has_to_be_looked_at(self):
        self.watched.claims = self.watched.claims[:1]
        self.assertEqual({}, self.figures().held)
        self.assertEqual(['bound', 'pools', 'running'], self.watched.asked)

    def test_the_order_makes_it_exact(self):
        self.assertEqual(
            {'a': {(0, HUGE): 7}, 'b': {(0, HUGE): 3}}, self.figures().held
        )
        self.assertEqual(
            [
                *('bound', 'pools', 'running'),
                *('held a', 'held b'),
                *('bound', 'pools', 'running'),
            ],
            self.watched.asked,
        )

    def test_small_pages_come_before_who_runs(self):
        self.machine.set_memory(0, total=8 * SMALL, free=6 * SMALL)
        self.figures(needs=[need(1, size=SMALL)])
        self.assertEqual(['small', 'running'], self.watched.asked)

    def test_one_that_may_not_be_looked_at(self):
        (self.machine.root / 'proc/71/numa_maps').unlink()
        self.assertEqual({'b': {(0, HUGE): 3}}, self.figures().held)

    def test_nor_is_it_tried_again(self):
        (self.machine.root / 'proc/71/numa_maps').unlink()
        self.figures(
            *(
                facts.Promise(uuid, (need(10),), launching=True)
                for uuid in 'ab'
            )
        )
        self.assertEqual(1, self.watched.asked.count('held a'))
        self.assertEqual(2, self.watched.asked.count('held b'))

    def test_none_of_them_may(self):
        """Nothing is read anew for nothing."""
        for pid in (71, 72):
            (self.machine.root / f'proc/{pid}/numa_maps').unlink()
        self.assertEqual({}, self.figures().held)
        self.assertEqual(5, len(self.watched.asked))

    def test_what_is_read_at_last_counts(self):
        def change(count):
            if count == 5:
                self.machine.set_pool(0, HUGE, total=99, free=80)
                self.machine.set_bound(HUGE, reserved=5)
                self.watched.claims += (claim('c', need(1)),)

        self.watched.before = change
        found = self.figures()
        self.assertEqual((availability.Pool(0, HUGE, 99, 80),), found.pools)
        self.assertEqual(5, found.bounds[HUGE].reserved)
        self.assertEqual(3, len(found.claims))


class ReservedBeforeTest(LookTestCase):
    launching = facts.Promise('a', (need(1),), launching=True)

    def before(self, reserved, *promises):
        self.machine.set_bound(HUGE, reserved=reserved)
        return self.figures(*promises).reserved_before

    def test_it_is_what_was_reserved_when_nobody_was_starting(self):
        self.assertEqual({}, self.before(3, self.launching))
        self.assertEqual({HUGE: 4}, self.before(4))
        self.assertEqual({HUGE: 4}, self.before(5, self.launching))
        self.assertEqual(
            {HUGE: 6}, self.before(6, facts.Promise('a', (need(1),)))
        )

    def test_a_soft_reboot_starts_a_guest_unannounced(self):
        self.watched.claims = (claim('a', need(1), number=7),)
        promise = facts.Promise('a', (need(1),), domain_id=7)
        self.assertEqual({HUGE: 3}, self.before(3, promise))
        self.watched.claims = (claim('a', need(1), number=8),)
        self.assertEqual({HUGE: 3}, self.before(4, promise))

    def test_each_size_has_its_own(self):
        self.machine.set_pool(0, GIANT, total=1, free=1)
        self.machine.set_bound(GIANT, reserved=1)
        self.before(4)
        found = self.figures(needs=[need(1, size=GIANT)])
        self.assertEqual({HUGE: 4, GIANT: 1}, found.reserved_before)


class RaceTest(LookTestCase):
    """Something happens between any two answers.

    Whenever that is, no more is found to be there than there is.
    """

    def set(self, free, reserved=0, **held):
        self.machine.set_pool(0, HUGE, total=100, free=free)
        self.machine.set_bound(HUGE, reserved=reserved)
        for name, pages in held.items():
            self.machine.set_process(
                name, 70 + ord(name), {(0, HUGE): pages} if pages else {}
            )

    def kill(self, name):
        (self.machine.root / f'proc/{70 + ord(name)}/numa_maps').write_text('')

    def room(self, promises):
        found = self.figures(*promises)
        least, most = 0, 100
        while least < most:
            pages = (least + most + 1) // 2
            outcome = standing.judge('me', [need(pages)], promises, found)
            if outcome.verdict is standing.Verdict.FITS:
                least = pages
            else:
                most = pages - 1
        return least

    def assert_room(self, room, *promises, steps):
        """However the steps fall, it is never more, and at rest as much.

        :param steps: functions; the first is the state at the beginning
        """
        counts = set()
        for at in range(14):
            for further in (0, 1, 2, 4, 7):
                for step in steps[:1]:
                    step()
                self.lookout._reserved_before.clear()
                self.watched.asked.clear()
                todo = list(steps[1:])

                def before(count, todo=todo, at=at, further=further):
                    while todo and count >= at + further * (
                        len(steps) - 1 - len(todo)
                    ):
                        todo.pop(0)()

                self.watched.before = before
                found = self.room(promises)
                counts.add(len(self.watched.asked))
                self.assertLessEqual(
                    found, room, (at, further, self.watched.asked)
                )
                if at > len(self.watched.asked):
                    self.assertEqual(room, found)
        self.assertLess(max(counts), 14)

    def test_an_outsider_touches_what_it_has_reserved(self):
        self.assert_room(
            60,
            steps=[
                lambda: self.set(free=100, reserved=40),
                lambda: self.set(free=80, reserved=20),
                lambda: self.set(free=60, reserved=0),
            ],
        )

    def test_a_guest_that_runs_touches_its_pages(self):
        self.watched.claims = (claim('a', need(40)),)
        self.assert_room(
            40,
            steps=[
                lambda: self.set(80, 40, a=0),
                lambda: self.set(60, 20, a=20),
                lambda: self.set(40, a=40),
            ],
        )

    def test_and_takes_back_what_it_discarded(self):
        """The kernel keeps none for it."""
        self.watched.claims = (claim('a', need(40)),)
        self.assert_room(
            60,
            steps=[
                lambda: self.set(100, a=0),
                lambda: self.set(80, a=20),
                lambda: self.set(60, a=40),
            ],
        )

    def test_a_guest_that_starts_touches_its_pages(self):
        self.watched.claims = (claim('a', need(40)),)
        self.assert_room(
            40,
            facts.Promise('a', (need(40),), launching=True),
            steps=[
                lambda: self.set(80, 40, a=0),
                lambda: self.set(60, 20, a=20),
                lambda: self.set(40, 0, a=40),
            ],
        )

    def list(self, *claims):
        self.watched.claims = claims

    def test_a_guest_that_starts_fails(self):
        """And will be started once more."""
        runs = claim('a', need(40))

        def begin():
            self.list(runs)
            self.set(60, 20, a=20)

        def end():
            self.kill('a')
            self.set(80)

        self.assert_room(
            40,
            facts.Promise('a', (need(40),), launching=True),
            steps=[begin, end, self.list],
        )

    def test_a_guest_ends_and_is_started_anew(self):
        """Libvirt lists it a little longer than it runs."""
        runs = claim('a', need(40), number=7)
        again = claim('a', need(40), number=8)

        def begin():
            self.list(runs)
            self.set(40, a=40)

        def end():
            self.kill('a')
            self.set(80)

        def launch():
            self.list(again)
            self.set(80, 40, a=0)

        def touch():
            self.set(60, 20, a=20)

        self.assert_room(
            40,
            facts.Promise('a', (need(40),), launching=True),
            steps=[begin, end, self.list, launch, touch],
        )
