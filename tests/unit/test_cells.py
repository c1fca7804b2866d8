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

"""The host's cells for floating guests."""

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import cells
from tests.unit import base


def host_cell(node, shared=(0, 1), dedicated=(), memory=1024):
    return cells.HostCell(
        node, frozenset(shared), frozenset(dedicated), memory
    )


HOST = [host_cell(node, {node * 8, node * 8 + 1}) for node in (0, 1, 4)]


class ContradictionsTest(base.TestCase):
    def assert_contradictions(self, floating, host, *expected):
        self.assertEqual(expected, cells.contradictions(floating, host))

    def test_none(self):
        for floating in ({0}, {1, 4}, {4}, [0, 0]):
            self.assert_contradictions(floating, HOST)

    def test_dedicated_cpus_elsewhere(self):
        self.assert_contradictions(
            {0}, [host_cell(0), host_cell(1, (), dedicated={8, 9})]
        )

    def test_no_floating_cells(self):
        for floating in (set(), ()):
            for host in (HOST, ()):
                self.assert_contradictions(
                    floating,
                    host,
                    'isolation is "cell", but floating_cells names none',
                )

    def test_a_host_without_numa(self):
        self.assert_contradictions(
            {0}, (), 'the host has no NUMA topology that Nova knows'
        )

    def test_cells_that_the_host_does_not_have(self):
        self.assert_contradictions(
            {0, 2, 3, 7},
            HOST,
            'floating_cells has 2-3,7, but the host has 0-1,4',
        )

    def test_no_cell_for_affined_guests(self):
        for host, text in ((HOST, '0-1,4'), (HOST[:1], '0')):
            self.assert_contradictions(
                [cell.id for cell in host],
                host,
                f'floating_cells has {text}, and the host has {text} only, '
                f'so that no cell is left for affined guests',
            )

    def test_a_cell_without_shared_cpus(self):
        self.assert_contradictions(
            {1},
            [host_cell(0), host_cell(1, shared=())],
            'floating cell 1 has no CPU that guests share ([compute] '
            'cpu_shared_set)',
        )

    def test_dedicated_cpus_in_a_floating_cell(self):
        self.assert_contradictions(
            {1},
            [host_cell(0), host_cell(1, dedicated={8, 9, 10, 12})],
            '[compute] cpu_dedicated_set reaches into floating cell 1 with '
            'CPUs 8-10,12',
        )

    def test_every_cell_is_complained_of_in_order(self):
        found = cells.contradictions(
            {4, 0},
            [
                host_cell(4, shared=(), dedicated={40}),
                host_cell(1),
                host_cell(0, dedicated={2}),
            ],
        )
        expected = (
            'cpu_dedicated_set reaches into floating cell 0',
            'floating cell 4 has no CPU',
            'cpu_dedicated_set reaches into floating cell 4',
        )
        for part, text in zip(expected, found, strict=True):
            self.assertIn(part, text)

    def test_a_generator_will_do(self):
        self.assert_contradictions({0}, (cell for cell in HOST))


class CpusTest(base.TestCase):
    def test_the_shared_ones_of_the_cells(self):
        self.assertEqual({0, 1, 32, 33}, cells.cpus({0, 4}, HOST))

    def test_dedicated_ones_are_not_theirs(self):
        self.assertEqual(
            {0}, cells.cpus({0}, [host_cell(0, shared={0}, dedicated={1})])
        )

    def test_no_cells(self):
        self.assertEqual(frozenset(), cells.cpus((), HOST))


class PartOfReserveTest(base.TestCase):
    def test_in_proportion(self):
        self.assertEqual(256, cells.part_of_reserve(512, 1000, 2000))
        self.assertEqual(512, cells.part_of_reserve(512, 2000, 2000))

    def test_rounded_up(self):
        self.assertEqual(1, cells.part_of_reserve(1, 1, 1000))
        self.assertEqual(171, cells.part_of_reserve(512, 1, 3))

    def test_nothing(self):
        self.assertEqual(0, cells.part_of_reserve(0, 1, 2))
        self.assertEqual(0, cells.part_of_reserve(512, 0, 2))

    def test_a_host_of_no_size(self):
        self.assertEqual(0, cells.part_of_reserve(512, 0, 0))

    @hypothesis.given(
        st.integers(0, 1 << 50),
        st.lists(st.integers(1, 1 << 50), min_size=1, max_size=16),
    )
    def test_the_parts_cover_the_reserve_and_hardly_more(self, reserve, sizes):
        parts = [
            cells.part_of_reserve(reserve, size, sum(sizes)) for size in sizes
        ]
        self.assertGreaterEqual(sum(parts), reserve)
        self.assertLess(sum(parts), reserve + len(sizes))
