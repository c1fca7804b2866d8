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

"""What a guest needs from the pools of a host."""

import collections
import random

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import guests
from tests.unit import base

CELLS = st.lists(
    st.builds(
        guests.GuestCell,
        node=st.sampled_from([0, 1, 16, 17]),
        memory=st.integers(0, 8 << 20),
        page_size=st.sampled_from([None, 4, 2048, 1048576]),
    ),
    max_size=8,
)


class KindTest(base.TestCase):
    def test_a_topology_makes_a_guest_affined(self):
        self.assertIs(guests.Kind.AFFINED, guests.kind_of(True))
        self.assertIs(guests.Kind.FLOATING, guests.kind_of(False))

    def test_the_other_kind(self):
        for kind in guests.Kind:
            self.assertIsNot(kind, kind.other)
            self.assertIs(kind, kind.other.other)


class ExemptTest(base.TestCase):
    def test_one_word_makes_a_guest_exempt(self):
        self.assertIs(
            True, guests.is_exempt({'numa_guard:isolation': 'exempt'})
        )

    def test_nothing_else_does(self):
        for specs in (
            {},
            {'numa_guard:isolation': ''},
            {'numa_guard:isolation': 'Exempt'},
            {'numa_guard:isolation': 'none'},
            {'isolation': 'exempt'},
            {'numa_guard:mem_policy': 'exempt'},
            {'hw:mem_page_size': 'large'},
        ):
            self.assertIs(False, guests.is_exempt(specs), specs)


class PageNeedsTest(base.TestCase):
    def needs(self, *cells, small_page=4):
        return guests.page_needs(
            [guests.GuestCell(*cell) for cell in cells], small_page
        )

    def test_no_cells(self):
        self.assertEqual((), self.needs())

    def test_cells_on_one_node_are_summed(self):
        self.assertEqual(
            (guests.PageNeed(0, 2048, 3),),
            self.needs((0, 4096, 2048), (0, 2048, 2048)),
        )

    def test_each_cell_fills_its_own_last_page(self):
        """Half a page and half a page are two, as QEMU allocates them."""
        self.assertEqual(
            (guests.PageNeed(0, 2048, 2),),
            self.needs((0, 1024, 2048), (0, 1, 2048)),
        )

    def test_exact_pages_are_not_rounded_up(self):
        self.assertEqual(
            (guests.PageNeed(0, 1048576, 1),),
            self.needs((0, 1048576, 1048576)),
        )

    def test_pools_are_told_apart_and_sorted(self):
        self.assertEqual(
            (
                guests.PageNeed(0, 2048, 1),
                guests.PageNeed(0, 1048576, 1),
                guests.PageNeed(16, 2048, 2),
            ),
            self.needs(
                (16, 4096, 2048), (0, 1048576, 1048576), (0, 2048, 2048)
            ),
        )

    def test_small_pages_need_no_huge_ones(self):
        self.assertEqual((), self.needs((0, 8192, None), (0, 8192, 4)))

    def test_the_small_page_is_the_hosts(self):
        """64 KiB is small on some machines, and no pool has it there."""
        cell = (0, 64, 64)
        self.assertEqual((), self.needs(cell, small_page=64))
        self.assertEqual(
            (guests.PageNeed(0, 64, 1),), self.needs(cell, small_page=4)
        )

    def test_novas_wishes_are_not_page_sizes(self):
        """small, large and any are -1, -2 and -3 until a host is chosen."""
        self.assertEqual((), self.needs(*((0, 8192, n) for n in (-1, -2, -3))))

    def test_no_memory_needs_no_page(self):
        self.assertEqual((), self.needs((0, 0, 2048)))

    @hypothesis.given(CELLS)
    def test_pages_hold_the_memory_and_no_page_is_idle(self, cells):
        memory = collections.Counter()
        count = collections.Counter()
        for cell in cells:
            memory[cell.node, cell.page_size] += cell.memory
            count[cell.node, cell.page_size] += 1
        needs = guests.page_needs(cells, 4)
        for need in needs:
            pool = need.node, need.page_size
            held = need.pages * need.page_size
            self.assertGreaterEqual(held, memory[pool])
            self.assertLess(held - memory[pool], count[pool] * need.page_size)
        self.assertEqual(
            {
                pool
                for pool, kib in memory.items()
                if kib and (pool[1] or 4) > 4
            },
            {(need.node, need.page_size) for need in needs},
        )

    @hypothesis.given(CELLS, st.randoms())
    def test_the_order_of_cells_does_not_matter(self, cells, rng):
        shuffled = list(cells)
        random.Random(rng.random()).shuffle(shuffled)
        self.assertEqual(
            guests.page_needs(cells, 4), guests.page_needs(shuffled, 4)
        )

    @hypothesis.given(CELLS)
    def test_at_most_one_entry_per_pool(self, cells):
        pools = [(n.node, n.page_size) for n in guests.page_needs(cells, 4)]
        self.assertEqual(sorted(set(pools)), pools)

    @hypothesis.given(CELLS)
    def test_a_generator_will_do(self, cells):
        self.assertEqual(
            guests.page_needs(cells, 4),
            guests.page_needs((cell for cell in cells), 4),
        )
