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

"""Whoever is admitted first stays, in whatever order things happen."""

import itertools
import os
import sys
import threading

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import admission, census, isolation
from tests.unit import base

# What becomes of a guest, as one spawn() and Nova's records have it. A guest
# that is refused is gone from the records at its next step, and has no other.
STAYS = ('claim', 'admit', 'land', 'settle')
LIVES = (
    STAYS,
    (*STAYS, 'vanish'),
    ('claim', 'admit', 'land', 'vanish'),  # before Nova could record it
    ('claim', 'admit', 'withdraw', 'vanish'),
    ('claim', 'admit', 'vanish', 'withdraw'),  # deleted while it started
)


def guest(uuid, tied=False, memory=1024, arriving=True, **more):
    return census.HostGuest(
        uuid, tied, more.pop('exempt', False), memory, 2, arriving=arriving
    )


class Host:
    """A compute host, and Nova's records of it."""

    def __init__(self, enforce=True, mixed=isolation.MixedHosts.DOMINANT):
        self.admissions = admission.Admissions()
        self.records = {}
        self.starting = set()
        self.counting = {}  # whether who keeps others out is tied, by uuid
        self.enforce = enforce
        self.policy = isolation.Policy(isolation.Isolation.HOST, mixed)

    def look(self):
        return list(self.records.values())

    def claim(self, uuid, tied, **more):
        self.records[uuid] = guest(uuid, tied, **more)

    def admit(self, uuid, tied, **more):
        verdict = self.admissions.admit(
            guest(uuid, tied, arriving=False, **more),
            self.look,
            self.policy,
            self.enforce,
        )
        if verdict.passes or not self.enforce:
            self.starting.add(uuid)
            self.counting[uuid] = tied
        return verdict

    def land(self, uuid, tied):
        self.admissions.land(uuid)
        self.starting.discard(uuid)

    def settle(self, uuid, tied, **more):
        self.records[uuid] = guest(uuid, tied, arriving=False, **more)
        self.counting[uuid] = tied

    def vanish(self, uuid, tied):
        """From the records; one that still starts counts until it ends."""
        self.records.pop(uuid, None)
        if uuid not in self.starting:
            self.counting.pop(uuid, None)

    def withdraw(self, uuid, tied):
        self.admissions.withdraw(uuid)
        self.starting.discard(uuid)
        self.counting.pop(uuid, None)


def interleavings(first, second):
    """Every order of the steps of two guests, as (guest, step)."""
    total = len(first) + len(second)
    for places in itertools.combinations(range(total), len(first)):
        steps = iter(first), iter(second)
        yield [
            (who, next(steps[who]))
            for who in (0 if n in places else 1 for n in range(total))
        ]


class InterleavingTest(base.TestCase):
    """Two guests of opposite kinds, in every order of all that happens."""

    def play(self, order):
        """Returns who was admitted, in order; fails if both ever stay."""
        host = Host()
        admitted, refused = [], []
        for who, step in order:
            uuid, tied = f'guest{who}', bool(who)
            if who in refused:
                host.vanish(uuid, tied)
            elif step == 'admit':
                alone = not host.counting
                verdict = host.admit(uuid, tied)
                self.assertIs(alone, verdict.passes, order)
                (admitted if alone else refused).append(who)
            else:
                getattr(host, step)(uuid, tied)
            self.assertLessEqual(len(host.counting), 1, order)
        return admitted

    def test_every_order_of_every_life(self):
        orders = 0
        for first, second in itertools.product(LIVES, repeat=2):
            for order in interleavings(first, second):
                self.assertTrue(self.play(order), order)
                orders += 1
        self.assertGreater(orders, 2000)

    def test_of_two_that_would_stay_the_first_admitted_does(self):
        for order in interleavings(STAYS, STAYS):
            first = next(who for who, step in order if step == 'admit')
            self.assertEqual([first], self.play(order), order)

    def test_one_that_fails_makes_room_for_the_other(self):
        """If that comes later."""
        for failing in (LIVES[3], LIVES[4]):
            for order in interleavings(failing, STAYS):
                asked = order.index((1, 'admit'))
                before = order.index((0, 'admit')) < asked
                gone = order.index((0, 'withdraw')) < asked
                self.assertEqual(before <= gone, 1 in self.play(order), order)


class AdmissionsTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.host = Host()

    def assert_admits(self, uuid, tied, **more):
        self.assertTrue(self.host.admit(uuid, tied, **more).passes)

    def assert_refuses(self, uuid, tied, **more):
        self.assertFalse(self.host.admit(uuid, tied, **more).passes)

    def test_guests_of_one_kind_are_all_admitted(self):
        for tied in (False, True):
            self.host = Host()
            for n in range(5):
                self.assert_admits(str(n), tied)

    def test_a_claim_is_nobody(self):
        """Or two guests would keep each other out."""
        self.host.claim('a', False)
        self.host.claim('b', True)
        self.assert_admits('b', True)
        self.assert_refuses('a', False)

    def test_those_that_have_settled_count(self):
        self.host.settle('a', False)
        self.assert_refuses('b', True)
        self.assert_admits('c', False)

    def test_a_guest_does_not_stand_in_its_own_way(self):
        """Whatever it was: an evacuation back, or a rebuild."""
        self.host.settle('a', False)
        self.assert_admits('a', True)

    def test_asking_twice(self):
        self.assert_admits('a', False)
        self.assert_admits('a', False)
        self.host.withdraw('a', False)
        self.assert_admits('b', True)

    def test_an_admitted_guest_counts_once(self):
        """Twice the memory would make it dominant."""
        self.host.enforce = False
        self.host.settle('a', True, memory=1500)
        self.host.admit('b', False)
        self.host.settle('b', False)
        self.host.enforce = True
        self.assert_admits('c', True)
        self.assert_refuses('d', False)

    def test_a_refused_guest_does_not_count(self):
        self.host.settle('a', False)
        self.assert_refuses('b', True)
        self.host.vanish('a', False)
        self.assert_admits('c', False)

    def test_a_guest_that_returns_and_is_refused_does_not_count(self):
        """Its first stay here is over, though nobody had looked since."""
        self.assert_admits('a', False)
        self.host.land('a', False)
        self.host.settle('b', True)  # by a migration, which nobody judges
        self.host.claim('a', False)
        self.assert_refuses('a', False)
        self.host.policy = isolation.Policy(
            isolation.Isolation.HOST, isolation.MixedHosts.CLOSED
        )
        self.assert_admits('c', True)

    def test_a_guest_that_returns_has_not_landed_yet(self):
        self.assert_admits('a', False)
        self.host.land('a', False)
        self.host.claim('a', False)
        self.assert_admits('a', False)
        self.host.vanish('a', False)
        self.assert_refuses('b', True)

    def test_withdrawing_a_stranger(self):
        self.host.admissions.withdraw('stranger')
        self.assert_admits('a', False)
        self.assert_refuses('b', True)

    def test_one_that_landed_without_admission_is_not_remembered(self):
        """When it is admitted later, it has not landed."""
        self.host.land('a', False)
        self.assert_admits('a', False)
        self.assert_refuses('b', True)

    def test_one_that_landed_and_is_still_recorded_as_arriving(self):
        self.host.claim('a', False)
        self.assert_admits('a', False)
        self.host.land('a', False)
        self.assert_refuses('b', True)

    def test_one_that_landed_and_vanished(self):
        self.host.claim('a', False)
        self.assert_admits('a', False)
        self.host.land('a', False)
        self.host.vanish('a', False)
        self.assert_admits('b', True)

    def test_one_that_vanished_before_it_landed_still_starts(self):
        self.host.claim('a', False)
        self.assert_admits('a', False)
        self.host.vanish('a', False)
        self.assert_refuses('b', True)

    def test_one_that_settled_and_left(self):
        self.assert_admits('a', False)
        self.host.land('a', False)
        self.host.settle('a', False)
        self.assert_refuses('b', True)
        self.host.vanish('a', False)
        self.assert_admits('b', True)

    def test_the_record_is_believed_when_a_guest_has_settled(self):
        """It may be of the other kind by now, by a resize."""
        self.assert_admits('a', False)
        self.host.settle('a', True)
        self.assert_admits('b', True)
        self.assert_refuses('c', False)

    def test_an_exempt_guest_is_admitted_and_keeps_nobody_out(self):
        self.host.settle('a', False)
        self.assert_admits('b', True, exempt=True)
        self.assert_admits('c', False)
        self.host = Host()
        self.assert_admits('b', True, exempt=True)
        self.assert_admits('c', False)
        self.assert_refuses('d', True)

    def test_a_mixed_host(self):
        for mixed, passes in (
            ('dominant', [False, True]),
            ('closed', [False, False]),
            ('open', [True, True]),
        ):
            self.host = Host(mixed=isolation.MixedHosts(mixed))
            self.host.settle('a', False)
            self.host.settle('b', True, memory=4096)
            for tied in (False, True):
                verdict = self.host.admit(f'c{tied}', tied)
                self.assertIs(passes[tied], verdict.passes)

    def test_without_enforce_all_are_admitted_and_count(self):
        self.host.enforce = False
        self.assert_admits('a', False, memory=1)
        self.assert_refuses('b', True, memory=100)
        self.host.enforce = True
        self.assert_refuses('c', False)
        self.host.withdraw('b', True)
        self.assert_admits('c', False)

    def test_records_that_cannot_be_read_leave_all_as_it_was(self):
        def fail():
            raise ConnectionError

        self.assert_admits('a', False)
        self.assertRaises(
            ConnectionError,
            self.host.admissions.admit,
            guest('b', True),
            fail,
            self.host.policy,
            True,
        )
        self.assert_refuses('b', True)
        self.assert_admits('c', False)

    @hypothesis.given(
        st.lists(
            st.tuples(
                st.sampled_from(
                    ['claim', 'admit', 'land', 'settle', 'vanish', 'withdraw']
                ),
                st.integers(0, 5),
            ),
            max_size=60,
        )
    )
    def test_many_guests_never_mix_a_host(self, events):
        """As long as none comes another way; even steps are floating ones."""
        host = Host()
        steps = dict.fromkeys(range(6), '')
        follow = {
            '': ('claim',),
            'claim': ('admit', 'vanish'),
            'admit': ('land', 'withdraw'),
            'land': ('settle', 'vanish'),
            'settle': ('vanish',),
            'withdraw': ('vanish',),
        }
        for step, who in events:
            if step not in follow[steps[who]]:
                continue
            uuid, tied = str(who), bool(who % 2)
            steps[who] = '' if step == 'vanish' else step
            if step == 'admit':
                expected = (not tied) not in host.counting.values()
                passes = host.admit(uuid, tied).passes
                self.assertIs(expected, passes)
                if not passes:
                    steps[who] = 'withdraw'
                continue
            getattr(host, step)(uuid, tied)
            self.assertLessEqual(len(set(host.counting.values())), 1)


class ThreadsTest(base.TestCase):
    """Guests that arrive at the same moment."""

    ROUNDS = 300

    def setUp(self):
        super().setUp()
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)

    def rush(self, count):
        """Admit guests of both kinds by turns, all at once."""
        admissions = admission.Admissions()
        everyone = [guest(str(n), bool(n % 2)) for n in range(count)]
        start = threading.Barrier(count)
        admitted, looking = [], []

        def look():
            looking.append(None)
            os.stat(os.curdir)  # where others get their turn, as in a query
            self.assertEqual(1, len(looking))
            looking.pop()
            return everyone

        def arrive(one):
            start.wait()
            verdict = admissions.admit(
                one, look, isolation.Policy(isolation.Isolation.HOST), True
            )
            if verdict.passes:
                admitted.append(one)

        threads = [
            threading.Thread(target=arrive, args=(one,)) for one in everyone
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return admitted

    def test_of_two_exactly_one_stays(self):
        for _ in range(self.ROUNDS):
            self.assertEqual(1, len(self.rush(2)))

    def test_of_many_those_of_one_kind_stay(self):
        for _ in range(self.ROUNDS // 10):
            admitted = self.rush(8)
            self.assertEqual(4, len(admitted))
            self.assertEqual(1, len({one.tied for one in admitted}))
