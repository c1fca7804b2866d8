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

"""The guests of one compute host, summed."""

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import census, guests, occupancy
from tests.unit import base

GUEST = st.builds(
    census.HostGuest,
    uuid=st.uuids().map(str),
    tied=st.booleans(),
    exempt=st.booleans(),
    memory=st.integers(1, 1 << 20),
    vcpus=st.integers(1, 64),
    small_memory=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 1 << 20)), max_size=3
    ).map(tuple),
    arriving=st.booleans(),
)


def guest(tied=False, exempt=False, memory=1024, vcpus=2, **more):
    return census.HostGuest('uuid', tied, exempt, memory, vcpus, **more)


class KindTest(base.TestCase):
    def test_by_topology(self):
        self.assertIs(guests.Kind.FLOATING, guest(tied=False).kind)
        self.assertIs(guests.Kind.AFFINED, guest(tied=True).kind)

    def test_an_exempt_guest_has_none(self):
        for tied in (False, True):
            self.assertIsNone(guest(tied, exempt=True).kind)


class TallyTest(base.TestCase):
    def test_nobody(self):
        nobody = occupancy.NOBODY
        self.assertEqual(
            census.Tally(nobody, nobody, nobody, nobody), census.tally([])
        )

    def test_each_to_its_own(self):
        found = census.tally(
            [
                guest(False, False, 1, 10),
                guest(False, False, 2, 20),
                guest(True, False, 4, 40),
                guest(False, True, 8, 80),
                guest(True, True, 16, 160),
            ]
        )
        self.assertEqual(
            census.Tally(
                floating=occupancy.Share(2, 3, 30),
                affined=occupancy.Share(1, 4, 40),
                exempt_floating=occupancy.Share(1, 8, 80),
                exempt_affined=occupancy.Share(1, 16, 160),
            ),
            found,
        )
        self.assertEqual(occupancy.Share(3, 11, 110), found.untied)
        self.assertEqual(occupancy.Share(2, 20, 200), found.tied)

    @hypothesis.given(st.lists(GUEST))
    def test_nobody_is_lost_or_counted_twice(self, found):
        sums = census.tally(iter(found))
        everyone = sums.tied + sums.untied
        self.assertEqual(
            occupancy.Share(
                len(found),
                sum(each.memory for each in found),
                sum(each.vcpus for each in found),
            ),
            everyone,
        )


class ContentTest(base.TestCase):
    def test_an_empty_host(self):
        found = census.content([])
        self.assertEqual(occupancy.HostContent(0, 0), found)
        self.assertEqual(occupancy.NOBODY, found.untied)
        self.assertEqual(0, found.count)

    def test_by_kind(self):
        found = census.content(
            [guest(memory=1), guest(memory=2), guest(tied=True, memory=4)]
        )
        self.assertEqual((3, 4), (found.floating, found.affined))
        self.assertTrue(found.mixed)

    def test_they_are_counted_if_of_one_kind(self):
        for tied in (False, True):
            found = census.content([guest(tied), guest(tied)])
            self.assertEqual(2, found.count)
        self.assertIsNone(census.content([guest(False), guest(True)]).count)

    def test_the_exempt_are_of_no_kind(self):
        found = census.content(
            [guest(tied, exempt=True) for tied in (False, True)]
        )
        self.assertEqual(
            (0, 0, 0), (found.floating, found.affined, found.count)
        )

    def test_those_without_a_topology_take_room_exempt_or_not(self):
        found = census.content(
            [
                guest(False, False, 1, 10),
                guest(False, True, 2, 20),
                guest(True, False, 4, 40),
                guest(True, True, 8, 80),
            ]
        )
        self.assertEqual(occupancy.Share(2, 3, 30), found.untied)

    def test_it_is_not_an_estimate(self):
        self.assertFalse(census.content([guest()]).estimated)


class SmallMemoryTest(base.TestCase):
    FOUND = [
        guest(True, small_memory=((0, 1), (1, 2))),
        guest(True, small_memory=((1, 4), (1, 8))),
        guest(False),
    ]

    def test_on_some_nodes(self):
        for nodes, expected in (
            ((), 0),
            ((0,), 1),
            ((1,), 14),
            ((0, 1), 15),
            ((0, 0), 1),
            ((7,), 0),
        ):
            self.assertEqual(expected, census.small_memory(self.FOUND, nodes))

    def test_generators_will_do(self):
        self.assertEqual(
            15, census.small_memory(iter(self.FOUND), iter((0, 1)))
        )
