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

"""Whether the kernel has what a guest needs."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import availability, guests
from tests.unit import base

NODES = (0, 1, 16)
SIZES = (2048, 1048576)
PAGES = st.integers(0, 40)

POOLS = st.lists(
    st.builds(
        lambda pool, free, used: availability.Pool(
            *pool, total=free + used, free=free
        ),
        st.tuples(st.sampled_from(NODES), st.sampled_from(SIZES)),
        PAGES,
        PAGES,
    ),
    unique_by=lambda pool: (pool.node, pool.page_size),
)
NEEDS = st.lists(
    st.builds(
        guests.PageNeed,
        node=st.sampled_from(NODES),
        page_size=st.sampled_from(SIZES),
        pages=st.integers(1, 40),
    ),
    unique_by=lambda need: (need.node, need.page_size),
).map(sorted)
BOUNDS = st.dictionaries(
    st.sampled_from(SIZES),
    st.builds(
        availability.Bound,
        reserved=PAGES,
        overcommit=PAGES,
        mount_free=st.none() | PAGES,
    ),
)


def pool(node=0, page_size=2048, total=100, free=100):
    return availability.Pool(node, page_size, total, free)


class HostWideTest(base.TestCase):
    def test_free_pages_of_all_nodes(self):
        pools = [pool(0, free=3), pool(1, free=4), pool(0, 1048576, free=50)]
        self.assertEqual(
            7, availability.host_wide(pools, 2048, availability.Bound())
        )

    def test_reserved_pages_are_not_free(self):
        """A process mapped them, and will touch them on some node."""
        bound = availability.Bound(reserved=30)
        self.assertEqual(70, availability.host_wide([pool()], 2048, bound))

    def test_the_mount_bounds_too(self):
        for limit, expected in ((10, 10), (200, 70), (None, 70), (0, 0)):
            bound = availability.Bound(reserved=30, mount_free=limit)
            self.assertEqual(
                expected, availability.host_wide([pool()], 2048, bound)
            )

    def test_never_below_zero(self):
        """The counts are read one after the other, while they change."""
        bound = availability.Bound(reserved=101)
        self.assertEqual(0, availability.host_wide([pool()], 2048, bound))


class ShortagesTest(base.TestCase):
    def shortages(self, needs, pools, **bounds):
        return availability.shortages(
            [guests.PageNeed(*need) for need in needs],
            pools,
            {2048: availability.Bound(**bounds)} if bounds else {},
        )

    def test_exact_fit_and_one_page_more(self):
        pools = [pool(free=16)]
        self.assertEqual((), self.shortages([(0, 2048, 16)], pools))
        self.assertEqual(
            (availability.Shortage(0, 2048, 17, 16),),
            self.shortages([(0, 2048, 17)], pools),
        )

    def test_exact_fit_of_the_host_wide_bound(self):
        pools = [pool(0, free=8), pool(1, free=8)]
        needs = [(0, 2048, 6), (1, 2048, 6)]
        self.assertEqual((), self.shortages(needs, pools, reserved=4))
        self.assertEqual(
            (availability.Shortage(1, 2048, 6, 5),),
            self.shortages(needs, pools, reserved=5),
        )

    def test_total_is_not_free(self):
        self.assertEqual(
            (availability.Shortage(0, 2048, 1, 0),),
            self.shortages([(0, 2048, 1)], [pool(total=100, free=0)]),
        )

    def test_pages_of_another_node_do_not_help(self):
        self.assertEqual(
            (availability.Shortage(1, 2048, 1, 0),),
            self.shortages([(1, 2048, 1)], [pool(0), pool(1, free=0)]),
        )

    def test_pages_of_another_size_do_not_help(self):
        self.assertEqual(
            (availability.Shortage(0, 1048576, 1, 0),),
            self.shortages([(0, 1048576, 1)], [pool()]),
        )

    def test_a_pool_that_does_not_exist_is_empty(self):
        self.assertEqual(
            (availability.Shortage(7, 2048, 1, 0),),
            self.shortages([(7, 2048, 1)], [pool()]),
        )

    def test_sizes_do_not_share_the_bound(self):
        found = availability.shortages(
            [guests.PageNeed(0, 2048, 10), guests.PageNeed(0, 1048576, 10)],
            [pool(free=10), pool(page_size=1048576, free=10)],
            {2048: availability.Bound(mount_free=10)},
        )
        self.assertEqual((), found)

    def test_every_shortage_is_named(self):
        found = self.shortages(
            [(0, 2048, 5), (1, 2048, 5)], [pool(0, free=1), pool(1, free=2)]
        )
        self.assertEqual(
            [
                'huge pages of 2048 KiB on host NUMA node 0: '
                'needed 5, available 1',
                'huge pages of 2048 KiB on host NUMA node 1: '
                'needed 5, available 2',
            ],
            [str(shortage) for shortage in found],
        )

    @hypothesis.given(NEEDS, POOLS, BOUNDS)
    def test_it_fits_if_and_only_if_all_bounds_hold(
        self, needs, pools, bounds
    ):
        free = {(p.node, p.page_size): p.free for p in pools}
        each = all(
            need.pages <= free.get((need.node, need.page_size), 0)
            for need in needs
        )
        together = True
        for size in SIZES:
            bound = bounds.get(size, availability.Bound())
            limit = sum(p.free for p in pools if p.page_size == size)
            limit -= bound.reserved
            if bound.mount_free is not None:
                limit = min(limit, bound.mount_free)
            wanted = sum(n.pages for n in needs if n.page_size == size)
            if wanted:
                together = together and wanted <= limit
        found = availability.shortages(needs, pools, bounds)
        self.assertEqual(each and together, not found)

    @hypothesis.given(NEEDS, POOLS, BOUNDS, st.data())
    def test_more_free_pages_never_make_a_guest_fit_less(
        self, needs, pools, bounds, data
    ):
        more = [
            dataclasses.replace(pool, free=pool.free + data.draw(PAGES))
            for pool in pools
        ]
        if not availability.shortages(needs, pools, bounds):
            self.assertEqual((), availability.shortages(needs, more, bounds))

    @hypothesis.given(NEEDS, POOLS, BOUNDS)
    def test_a_shortage_names_a_need_and_less_than_it(
        self, needs, pools, bounds
    ):
        wanted = {(n.node, n.page_size): n.pages for n in needs}
        for short in availability.shortages(needs, pools, bounds):
            self.assertEqual(wanted[short.node, short.page_size], short.needed)
            self.assertLess(short.available, short.needed)
            self.assertGreaterEqual(short.available, 0)

    @hypothesis.given(NEEDS, POOLS, BOUNDS)
    def test_generators_will_do(self, needs, pools, bounds):
        self.assertEqual(
            availability.shortages(needs, pools, bounds),
            availability.shortages(iter(needs), iter(pools), bounds),
        )


class OvercommitTest(base.TestCase):
    def test_only_where_the_kernel_may_add_pages(self):
        self.assertTrue(
            availability.may_overcommit(availability.Bound(overcommit=1))
        )
        self.assertFalse(
            availability.may_overcommit(availability.Bound(reserved=9))
        )
        self.assertFalse(availability.may_overcommit(None))
