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

"""Whose word counts."""

import itertools

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import guests, isolation, policies
from tests.unit import base

Isolation = isolation.Isolation
FLOATING, AFFINED = guests.Kind.FLOATING, guests.Kind.AFFINED

NO_CELL = (
    'aggregates ask for isolation by host, but the compute isolates by cell, '
    'and that holds'
)
NO_NONE = (
    'aggregates ask for no isolation, but [numa_guard] isolation does, and '
    'that holds'
)
WORD = st.none() | st.sampled_from(
    ['', 'none', 'host', 'cell', 'warn', 'enforce', 'any', 'floating', 'x']
)
WISHES = st.lists(
    st.builds(policies.Wish, st.sampled_from('abc'), WORD, WORD, WORD),
    max_size=3,
    unique_by=lambda wish: wish.name,
).map(tuple)


def decide(*wishes, configured='none', enforce=True, compute=None):
    """A decision; each wish is (name, isolation, mode, accepts)."""
    return policies.decide(
        Isolation(configured),
        enforce,
        tuple(policies.Wish(*wish) for wish in wishes),
        compute and Isolation(compute),
    )


class WishTest(base.TestCase):
    def test_keys(self):
        self.assertEqual(
            {
                'numa_guard:isolation',
                'numa_guard:isolation_mode',
                'numa_guard:accepts',
            },
            policies.KEYS,
        )

    def test_each_key_is_read(self):
        self.assertEqual(
            policies.Wish('a', 'host', 'warn', 'floating'),
            policies.wish_of(
                'a',
                {
                    'numa_guard:isolation': 'host',
                    'numa_guard:isolation_mode': 'warn',
                    'numa_guard:accepts': 'floating',
                    'availability_zone': 'az1',
                },
            ),
        )

    def test_no_wish(self):
        self.assertEqual(
            policies.Wish('a'), policies.wish_of('a', {'isolation': 'host'})
        )


class IsolationTest(base.TestCase):
    def test_the_configured_holds_where_nobody_else_speaks(self):
        for configured, holds in (
            ('none', Isolation.NONE),
            ('host', Isolation.HOST),
            ('cell', Isolation.HOST),
        ):
            self.assertEqual(
                policies.Decision(holds, True, isolation.BOTH),
                decide(configured=configured),
            )

    def test_every_case(self):
        """Cell if the compute says so; else the strictest of all."""
        for configured, compute, wish in itertools.product(
            ('none', 'host', 'cell'),
            (None, 'none', 'host', 'cell'),
            (None, 'none', 'host'),
        ):
            strict = configured != 'none' or compute == 'host'
            if compute == 'cell':
                holds = Isolation.CELL
                conflicts = (NO_CELL,) if wish == 'host' else ()
            else:
                holds = (
                    Isolation.HOST
                    if strict or wish == 'host'
                    else Isolation.NONE
                )
                conflicts = (NO_NONE,) if strict and wish == 'none' else ()
            found = decide(('a', wish), configured=configured, compute=compute)
            case = (configured, compute, wish)
            self.assertIs(holds, found.isolation, case)
            self.assertEqual(conflicts, found.conflicts, case)

    def test_of_several_aggregates_the_strictest_holds(self):
        for names in ('ab', 'ba'):
            found = decide((names[0], 'none'), (names[1], 'host'))
            self.assertIs(Isolation.HOST, found.isolation)

    def test_aggregates_that_disagree(self):
        found = decide(('b', 'none'), ('a', 'host'), ('c', 'none'))
        self.assertEqual(
            (
                'aggregates disagree on numa_guard:isolation: '
                'a says host, b says none, c says none',
            ),
            found.conflicts,
        )

    def test_aggregates_that_agree(self):
        found = decide(('a', 'host'), ('b', 'host'), ('c',))
        self.assertEqual((), found.conflicts)
        self.assertIs(Isolation.HOST, found.isolation)

    def test_an_aggregate_cannot_ask_for_cells(self):
        """The compute alone can confine guests to them."""
        for configured, holds in (
            ('none', Isolation.NONE),
            ('host', Isolation.HOST),
        ):
            found = decide(('a', 'cell'), configured=configured)
            self.assertIs(holds, found.isolation)
            self.assertEqual(
                (
                    'aggregate a has numa_guard:isolation=cell, which is none '
                    'of none, host and is ignored',
                ),
                found.conflicts,
            )


class ModeTest(base.TestCase):
    def test_the_configured_mode_holds_where_nobody_else_speaks(self):
        for enforce in (True, False):
            self.assertIs(enforce, decide(enforce=enforce).enforce)
            self.assertIs(enforce, decide(('a',), enforce=enforce).enforce)

    def test_an_aggregate_replaces_it_both_ways(self):
        for enforce in (True, False):
            found = decide(('a', None, 'warn'), enforce=enforce)
            self.assertIs(False, found.enforce)
            found = decide(('a', None, 'enforce'), enforce=enforce)
            self.assertIs(True, found.enforce)
            self.assertEqual((), found.conflicts)

    def test_of_several_aggregates_enforce_holds(self):
        found = decide(
            ('b', None, 'warn'), ('a', None, 'enforce'), enforce=False
        )
        self.assertIs(True, found.enforce)
        self.assertEqual(
            (
                'aggregates disagree on numa_guard:isolation_mode: '
                'a says enforce, b says warn',
            ),
            found.conflicts,
        )

    def test_junk_does_not_replace_it(self):
        for enforce in (True, False):
            found = decide(('a', None, 'Warn'), enforce=enforce)
            self.assertIs(enforce, found.enforce)
            self.assertEqual(
                (
                    'aggregate a has numa_guard:isolation_mode=Warn, which is '
                    'none of warn, enforce and is ignored',
                ),
                found.conflicts,
            )


class AcceptsTest(base.TestCase):
    def assert_accepts(self, expected, *words):
        found = decide(
            *((str(n), None, None, word) for n, word in enumerate(words))
        )
        self.assertEqual(set(expected), found.accepts)
        return found.conflicts

    def test_a_host_is_for_both_kinds(self):
        self.assertEqual((), self.assert_accepts(guests.Kind))
        self.assertEqual((), self.assert_accepts(guests.Kind, 'any'))

    def test_a_host_is_for_the_kind_that_its_aggregate_accepts(self):
        for kind in guests.Kind:
            self.assertEqual((), self.assert_accepts({kind}, kind.value))
            self.assertEqual(
                (), self.assert_accepts({kind}, *[kind.value] * 2)
            )

    def test_a_host_is_for_what_all_its_aggregates_accept(self):
        for words in (('any', 'floating'), ('floating', 'any')):
            [conflict] = self.assert_accepts({FLOATING}, *words)
            self.assertIn('disagree on numa_guard:accepts', conflict)

    def test_a_host_that_is_for_nobody(self):
        self.assertEqual(
            (
                'aggregates disagree on numa_guard:accepts: '
                '0 says affined, 1 says floating',
            ),
            self.assert_accepts((), 'affined', 'floating'),
        )

    def test_junk_is_ignored(self):
        self.assertEqual(
            (
                'aggregate 0 has numa_guard:accepts=none, which is none of '
                'any, floating, affined and is ignored',
            ),
            self.assert_accepts({AFFINED}, 'none', 'affined'),
        )

    def test_it_does_not_depend_on_the_isolation(self):
        for compute in (None, 'none', 'host', 'cell'):
            found = decide(('a', None, None, 'floating'), compute=compute)
            self.assertEqual({FLOATING}, found.accepts)


class DecideTest(base.TestCase):
    def test_no_word_is_no_wish(self):
        """Nova lets an operator set metadata to nothing."""
        self.assertEqual(decide(), decide(('a', '', '', '')))

    def test_every_complaint_is_made(self):
        self.assertEqual(
            (
                'aggregate b has numa_guard:isolation=x, which is none of '
                'none, host and is ignored',
                'aggregate c has numa_guard:isolation=y, which is none of '
                'none, host and is ignored',
                NO_CELL,
                'aggregate b has numa_guard:isolation_mode=x, which is none '
                'of warn, enforce and is ignored',
                'aggregate b has numa_guard:accepts=x, which is none of any, '
                'floating, affined and is ignored',
            ),
            decide(
                ('c', 'y'), ('a', 'host'), ('b', 'x', 'x', 'x'), compute='cell'
            ).conflicts,
        )

    @hypothesis.given(
        st.sampled_from(Isolation),
        st.booleans(),
        WISHES,
        st.none() | st.sampled_from(Isolation),
    )
    def test_the_order_of_aggregates_does_not_matter(
        self, configured, enforce, wishes, compute
    ):
        self.assertEqual(
            policies.decide(configured, enforce, wishes, compute),
            policies.decide(configured, enforce, wishes[::-1], compute),
        )

    @hypothesis.given(
        st.sampled_from(Isolation),
        st.booleans(),
        WISHES,
        st.none() | st.sampled_from(Isolation),
    )
    def test_aggregates_never_loosen_the_isolation(
        self, configured, enforce, wishes, compute
    ):
        order = (Isolation.NONE, Isolation.HOST, Isolation.CELL)
        with_them = policies.decide(configured, enforce, wishes, compute)
        without = policies.decide(configured, enforce, (), compute)
        self.assertGreaterEqual(
            order.index(with_them.isolation), order.index(without.isolation)
        )
        self.assertEqual(
            compute is Isolation.CELL, with_them.isolation is Isolation.CELL
        )

    @hypothesis.given(
        st.booleans(),
        st.lists(
            st.text(min_size=1).filter(
                lambda word: word not in ('none', 'host', 'warn', 'enforce')
            ),
            min_size=2,
            max_size=2,
        ),
    )
    def test_whatever_the_metadata_holds(self, enforce, words):
        found = decide(
            ('a', words[0], words[1], 'x' + words[0]), enforce=enforce
        )
        self.assertIs(Isolation.NONE, found.isolation)
        self.assertIs(enforce, found.enforce)
        self.assertEqual(isolation.BOTH, found.accepts)
        self.assertEqual(3, len(found.conflicts))
