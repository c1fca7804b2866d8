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

"""Whether one more guest without a topology has room."""

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import isolation, occupancy, room
from tests.unit import base

MIB = st.integers(0, 1 << 20)
CPUS = st.integers(0, 256)
RATIO = st.floats(0.1, 16)
UNTIED = st.builds(occupancy.Share, st.just(0), MIB, CPUS)
CAPACITY = st.builds(
    room.Capacity, MIB, CPUS, RATIO, RATIO, st.just((0,))
) | st.builds(room.Capacity, MIB, ram_allocation_ratio=RATIO)


def untied(memory=0, vcpus=0):
    return occupancy.Share(memory=memory, vcpus=vcpus)


class CapacityTest(base.TestCase):
    def test_what_is_left(self):
        capacity = room.Capacity(1000, 10)
        self.assertEqual(700, capacity.memory_left(untied(300, 4)))
        self.assertEqual(6, capacity.cpus_left(untied(300, 4)))

    def test_ratios(self):
        capacity = room.Capacity(1000, 10, 1.5, 4.0)
        self.assertEqual(1200, capacity.memory_left(untied(300, 4)))
        self.assertEqual(36, capacity.cpus_left(untied(300, 4)))

    def test_part_of_a_unit_is_nothing(self):
        capacity = room.Capacity(3, 3, 1.5, 1.5)
        self.assertEqual(4, capacity.memory_left(untied()))
        self.assertEqual(4, capacity.cpus_left(untied()))

    def test_more_in_use_than_there_is(self):
        capacity = room.Capacity(1000, 10)
        self.assertEqual(0, capacity.memory_left(untied(2000, 40)))
        self.assertEqual(0, capacity.cpus_left(untied(2000, 40)))

    def test_cpus_that_nothing_but_nova_limits(self):
        self.assertIsNone(room.Capacity(1000).cpus_left(untied(300, 4)))
        self.assertEqual(0, room.Capacity(1000, 0).cpus_left(untied()))


class JudgeTest(base.TestCase):
    CELLS = room.Capacity(1000, 10, cells=(0, 2))

    def judge(self, memory, vcpus, capacity, *used):
        return room.judge(room.Need(memory, vcpus), untied(*used), capacity)

    def assert_short(self, reason, detail, verdict):
        self.assertEqual(isolation.Verdict(False, reason, detail), verdict)
        self.assertFalse(verdict.of_kind)

    def test_it_fits_exactly(self):
        self.assertIsNone(self.judge(700, 6, self.CELLS, 300, 4))
        self.assertIsNone(self.judge(1000, 999, room.Capacity(1000)))

    def test_small_pages_are_short(self):
        self.assert_short(
            isolation.Reason.SMALL_PAGES_SHORT,
            'small-page memory: needed 701 MiB, available 700',
            self.judge(701, 2, room.Capacity(1000), 300),
        )

    def test_the_cells_memory_is_short(self):
        self.assert_short(
            isolation.Reason.CELL_MEMORY_SHORT,
            'small-page memory of the floating cells 0,2: needed 701 MiB, '
            'available 700',
            self.judge(701, 1, self.CELLS, 300),
        )

    def test_the_cells_cpus_are_short(self):
        self.assert_short(
            isolation.Reason.CELL_CPUS_SHORT,
            'CPUs of the floating cells 0,2: needed 7 vCPUs, available 6',
            self.judge(700, 7, self.CELLS, 300, 4),
        )

    def test_cells_without_a_cpu(self):
        """None is no limit; no CPU at all is one."""
        verdict = self.judge(1, 1, room.Capacity(1000, 0, cells=(0,)))
        self.assertIs(isolation.Reason.CELL_CPUS_SHORT, verdict.reason)

    def test_memory_comes_first(self):
        verdict = self.judge(5000, 500, self.CELLS)
        self.assertIs(isolation.Reason.CELL_MEMORY_SHORT, verdict.reason)

    def test_cell_0_is_a_cell(self):
        verdict = self.judge(5, 1, room.Capacity(1, 9, cells=(0,)))
        self.assertIs(isolation.Reason.CELL_MEMORY_SHORT, verdict.reason)

    @hypothesis.given(MIB, CPUS, UNTIED, CAPACITY)
    def test_a_guest_that_fits_leaves_what_it_does_not_need(
        self, memory, vcpus, used, capacity
    ):
        verdict = room.judge(room.Need(memory, vcpus), used, capacity)
        memory_left = capacity.memory_left(used)
        cpus_left = capacity.cpus_left(used)
        if verdict is not None:
            self.assertFalse(verdict.passes)
            self.assertTrue(
                memory > memory_left
                or (cpus_left is not None and vcpus > cpus_left)
            )
            return
        after = used + occupancy.Share(1, memory, vcpus)
        if memory:
            self.assertEqual(memory_left - memory, capacity.memory_left(after))
        if vcpus and cpus_left is not None:
            self.assertEqual(cpus_left - vcpus, capacity.cpus_left(after))
