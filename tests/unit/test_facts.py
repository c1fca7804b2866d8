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

"""What is known of a host's pages."""

from nova_numa_guard import availability, facts, pools
from tests.unit import base, known, samples

HUGE, GIANT, SMALL = samples.HUGE, samples.GIANT, pools.SMALL_PAGE
need = known.need
pool = known.pool
claim = known.claim
promise = known.promise
figures = known.figures


class LookAtTest(base.TestCase):
    """Reading what a guest has touched takes time."""

    def look_at(self, *claims, promises=(), found=(), **values):
        return [
            each.uuid
            for each in facts.to_look_at(
                promises, figures(*found, claims=claims, **values)
            )
        ]

    def test_at_rest_nobody(self):
        self.assertEqual(
            [],
            self.look_at(claim('a', need(40)), found=[pool(60)]),
        )

    def test_more_is_claimed_than_is_in_use(self):
        """In that pool, and by all that are in it."""
        found = [pool(61), pool(60, node=1)]
        self.assertEqual(
            ['a', 'b'],
            self.look_at(
                claim('a', need(15)),
                claim('b', need(25), need(1, node=1)),
                claim('c', need(39, node=1)),
                claim('d', need(40, size=GIANT)),
                claim('e'),
                found=found,
            ),
        )

    def test_pages_are_reserved(self):
        """Of that size, on whichever node."""
        self.assertEqual(
            ['a', 'b'],
            self.look_at(
                claim('a', need(10)),
                claim('b', need(10, node=1)),
                claim('c', need(1, size=GIANT)),
                found=[
                    pool(0),
                    pool(0, node=1),
                    pool(0, size=GIANT),
                ],
                bound=availability.Bound(reserved=1),
            ),
        )

    def test_those_that_start(self):
        """But not for pools that nobody asks for, nor for small pages."""
        claims = [
            claim('a', need(10)),
            claim('b', need(10), number=2),
            claim('c', need(10), number=3),
            claim('d', need(10, size=GIANT)),
            claim('e'),
        ]
        promises = [
            promise('a', need(10), launching=True),
            promise('b', need(10), domain_id=1),
            promise('c', need(10), domain_id=3),
            promise('d', need(10, size=GIANT), launching=True),
            promise('e', need(10, size=SMALL), launching=True),
        ]
        self.assertEqual(
            ['a', 'b'],
            self.look_at(*claims, promises=promises, found=[pool(0)]),
        )

    def test_those_without_a_node(self):
        """With them, what a pool lacks may be in use by them."""
        claims = [
            claim('a', anywhere=((HUGE, 40),)),
            claim('b', need(40)),
            claim('c', anywhere=((GIANT, 1),)),
        ]
        two = [pool(60), pool(60, node=1)]
        self.assertEqual([], self.look_at(*claims, found=two))
        two = [pool(60), pool(61, node=1)]
        self.assertEqual(['a', 'b'], self.look_at(*claims, found=two))

    def test_where_a_pool_is_suspect_they_are_as_well(self):
        claims = [
            claim('a', anywhere=((HUGE, 1),)),
            claim('b', need(40)),
            claim('c', need(1, node=1)),
        ]
        self.assertEqual(
            ['a', 'b'],
            self.look_at(*claims, found=[pool(61), pool(0, node=1)]),
        )


class OthersTest(base.TestCase):
    """What of a host's pages is spoken for by others."""

    def others(self, promises=(), expected=(), claims=()):
        found = facts.others(
            'a', promises, figures(expected=tuple(expected), claims=claims)
        )
        return [(each.uuid, each.needs) for each in found]

    def test_promised_and_expected(self):
        few, many = need(1), need(9)
        self.assertEqual(
            [('b', (few,)), ('c', (many,))],
            self.others([promise('b', few)], [promise('c', many)]),
        )

    def test_its_own_is_not(self):
        own = promise('a', need(9))
        self.assertEqual([], self.others([own], [own]))

    def test_who_is_promised_is_not_expected_as_well(self):
        """Between the check of a migration and its end."""
        both = promise('b', need(9))
        self.assertEqual([('b', both.needs)], self.others([both], [both]))

    def test_who_runs_is_not_expected(self):
        arrived = promise('b', need(9))
        self.assertEqual([], self.others([], [arrived], [claim('b', need(9))]))
