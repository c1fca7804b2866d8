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

"""The guests on a host, told apart by what Nova counts of them."""

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import census, guests, occupancy
from tests.unit import base

FLOATING, AFFINED = guests.Kind.FLOATING, guests.Kind.AFFINED
MIB = st.integers(0, 1 << 20)
VCPUS = st.integers(0, 128)
SHARE = st.builds(occupancy.Share, st.integers(0, 99), MIB, VCPUS)
CELLS = st.lists(st.tuples(MIB, VCPUS), max_size=4)


def usage(
    *cells, memory=512, vcpus=0, count=0, reported=True, reserved=512, **fix
):
    """A host's usage; *fix* is what else its correction says."""
    return {
        'memory': memory,
        'vcpus': vcpus,
        'guests': count,
        'cell_memory': sum(memory for memory, _ in cells),
        'cell_cpus': sum(cpus for _, cpus in cells),
        'correction': occupancy.Correction(reserved, **fix),
        'reported': reported,
    }


class ShareTest(base.TestCase):
    def test_a_sum(self):
        self.assertEqual(
            occupancy.Share(11, 220, 3300),
            occupancy.Share(1, 20, 300) + occupancy.Share(10, 200, 3000),
        )

    @hypothesis.given(SHARE)
    def test_nobody_adds_nothing(self, share):
        self.assertEqual(share, share + occupancy.NOBODY)
        self.assertEqual(share, occupancy.NOBODY + share)


class HostContentTest(base.TestCase):
    def test_memory_of_a_kind(self):
        present = occupancy.HostContent(floating=3, affined=5)
        self.assertEqual(3, present.of(FLOATING))
        self.assertEqual(5, present.of(AFFINED))

    def test_mixed_is_both(self):
        for floating, affined, mixed in (
            (0, 0, False),
            (1, 0, False),
            (0, 1, False),
            (1, 1, True),
        ):
            present = occupancy.HostContent(floating, affined)
            self.assertIs(mixed, present.mixed)


class ContentTest(base.TestCase):
    def assert_content(self, floating, affined, present):
        found = occupancy.content(**present)
        self.assertEqual((floating, affined), (found.floating, found.affined))
        return found

    def test_empty(self):
        for reported in (True, False):
            found = self.assert_content(0, 0, usage((0, 0), reported=reported))
            self.assertEqual(0, found.count)

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

    def test_affined_guests_on_hidden_cells_are_not_floating(self):
        found = self.assert_content(
            0,
            3072,
            usage(
                (1024, 2),
                memory=512 + 3072,
                vcpus=6,
                count=2,
                unseen_memory=2048,
                unseen_vcpus=4,
            ),
        )
        self.assertEqual(occupancy.NOBODY, found.untied)

    def test_untied_is_what_no_affined_guest_has(self):
        found = self.assert_content(
            1024,
            2048,
            usage(
                (2048, 2),
                memory=512 + 3072,
                vcpus=1 + 2 + 3,
                count=2,
                reserved_cpus=1,
            ),
        )
        self.assertEqual(occupancy.Share(0, 1024, 3), found.untied)

    def test_a_guest_that_pins_more_cpus_than_it_has(self):
        """Its vCPUs are two, and its cell shows four CPUs."""
        found = occupancy.content(
            **usage(
                (1024, 4),
                memory=512 + 2048,
                vcpus=2 + 3,
                count=2,
                unseen_vcpus=-2,
            )
        )
        self.assertEqual(3, found.untied.vcpus)

    def test_untied_vcpus_are_not_below_zero(self):
        found = occupancy.content(**usage((1024, 64), memory=1536, vcpus=2))
        self.assertEqual(0, found.untied.vcpus)

    def test_an_exempt_guest_is_of_no_kind(self):
        for name, cells in (
            ('exempt_floating', ()),
            ('exempt_affined', ((1024, 2),)),
        ):
            found = self.assert_content(
                0,
                0,
                usage(
                    *cells,
                    memory=1536,
                    vcpus=2,
                    count=1,
                    **{name: occupancy.Share(1, 1024, 2)},
                ),
            )
            self.assertEqual(0, found.count)
            self.assertFalse(found.mixed)

    def test_an_exempt_guest_takes_room(self):
        found = occupancy.content(
            **usage(
                memory=512 + 3072,
                vcpus=6,
                count=2,
                exempt_floating=occupancy.Share(1, 1024, 2),
            )
        )
        self.assertEqual(2048, found.floating)
        self.assertEqual(occupancy.Share(0, 3072, 6), found.untied)
        self.assertEqual(1, found.count)

    def test_exempt_guests_that_have_left_since_the_report(self):
        """Their figures are as old as the report, the others are not."""
        gone = occupancy.Share(2, 4096, 4)
        found = self.assert_content(
            0,
            0,
            usage(
                (1024, 1),
                memory=2560,
                vcpus=2,
                count=1,
                exempt_floating=gone,
                exempt_affined=gone,
            ),
        )
        self.assertEqual(0, found.count)

    def test_guests_are_counted_where_they_are_of_one_kind(self):
        for cells, memory, count in (
            ((), 512 + 1024, 2),
            (((1024, 2),), 512 + 1024, 2),
            (((1024, 2),), 512 + 2048, None),
        ):
            found = occupancy.content(**usage(*cells, memory=memory, count=2))
            self.assertEqual(count, found.count)

    def test_only_an_unreported_host_is_estimated(self):
        for reported in (True, False):
            found = occupancy.content(**usage(reported=reported))
            self.assertIs(not reported, found.estimated)

    def test_unreported_memory_needs_vcpus_beside_affined_guests(self):
        """The host may reserve more than the scheduler believes."""
        more = {'memory': 512 + 1024 + 3000, 'count': 1, 'reported': False}
        found = self.assert_content(0, 1024, usage((1024, 4), vcpus=4, **more))
        self.assertEqual(0, found.untied.memory)
        found = self.assert_content(
            3000, 1024, usage((1024, 4), vcpus=5, **more)
        )
        self.assertEqual(3000, found.untied.memory)

    def test_unreported_guests_without_affined_ones_are_floating(self):
        """Even if the host reserves less than the scheduler believes."""
        self.assert_content(
            1,
            0,
            usage(
                memory=1024, reserved=4096, vcpus=2, count=1, reported=False
            ),
        )
        self.assert_content(
            3000, 0, usage(memory=3512, vcpus=2, count=1, reported=False)
        )

    def test_unreported_reserve_alone_is_no_guest(self):
        self.assert_content(0, 0, usage(memory=4096, reported=False))
        self.assert_content(0, 0, usage(memory=4096, vcpus=2, reported=False))

    @hypothesis.given(
        CELLS,
        st.builds(
            occupancy.Correction,
            MIB,
            VCPUS,
            MIB,
            st.integers(-128, 128),
            SHARE,
            SHARE,
        ),
        MIB,
        VCPUS,
        st.integers(0, 9),
        st.booleans(),
    )
    def test_never_negative(self, cells, fix, memory, vcpus, count, reported):
        found = occupancy.content(
            memory,
            vcpus,
            count,
            sum(memory for memory, _ in cells),
            sum(cpus for _, cpus in cells),
            fix,
            reported,
        )
        for figure in (
            found.floating,
            found.affined,
            found.untied.memory,
            found.untied.vcpus,
            found.count or 0,
        ):
            self.assertGreaterEqual(figure, 0)
        self.assertGreaterEqual(found.untied.memory, found.floating)
        self.assertEqual(found.count is None, found.mixed)


class ReportedTest(base.TestCase):
    """A scheduler finds out what the host knows of its guests one by one."""

    GUEST = st.builds(
        census.HostGuest,
        uuid=st.uuids().map(str),
        tied=st.booleans(),
        exempt=st.booleans(),
        memory=st.integers(1, 1 << 16),
        vcpus=st.integers(1, 16),
    )

    @hypothesis.given(
        st.lists(st.tuples(GUEST, st.booleans(), st.integers(0, 32))),
        MIB,
        VCPUS,
    )
    def test_what_is_there_is_what_is_found(self, here, memory, vcpus):
        """Guests on hidden cells, or with more CPUs than vCPUs, included."""
        found = [guest for guest, _, _ in here]
        cells = [
            (guest.memory, cpus)
            for guest, visible, cpus in here
            if guest.tied and visible
        ]
        cell_memory = sum(memory for memory, _ in cells)
        cell_cpus = sum(cpus for _, cpus in cells)
        sums = census.tally(found)
        told = occupancy.content(
            memory=memory + sum(guest.memory for guest in found),
            vcpus=vcpus + sum(guest.vcpus for guest in found),
            guests=len(found),
            cell_memory=cell_memory,
            cell_cpus=cell_cpus,
            correction=occupancy.Correction(
                memory,
                vcpus,
                sums.tied.memory - cell_memory,
                sums.tied.vcpus - cell_cpus,
                sums.exempt_floating,
                sums.exempt_affined,
            ),
            reported=True,
        )
        known = census.content(found)
        self.assertEqual(known, told)
        self.assertEqual(known.count, told.count)
        self.assertEqual(known.untied.memory, told.untied.memory)
        self.assertEqual(known.untied.vcpus, told.untied.vcpus)
