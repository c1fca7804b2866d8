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

"""The fixture that shows another machine's kernel files."""

import os

from nova_numa_guard import availability, fixture
from tests.unit import base


class KernelFixtureTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(fixture.KernelFixture())

    def test_what_is_set_is_what_is_read(self):
        self.machine.set_pool(16, 2048, total=64, free=32, surplus=4)
        self.machine.set_bound(2048, reserved=3, overcommit=9)
        self.assertEqual(
            [availability.Pool(16, 2048, total=64, free=32, surplus=4)],
            self.machine.kernel.pools(),
        )
        self.assertEqual(
            availability.Bound(reserved=3, overcommit=9),
            self.machine.kernel.bound(2048),
        )

    def test_stolen_pages_are_not_free(self):
        self.machine.set_pool(0, 2048, total=64, free=32)
        self.machine.steal(0, 2048, 30)
        [pool] = self.machine.kernel.pools()
        self.assertEqual((64, 2), (pool.total, pool.free))

    def test_memory(self):
        self.machine.set_memory(
            16,
            total=8192,
            free=1024,
            file_cache=640,
            shared=320,
            reclaimable=64,
        )
        pool = self.machine.kernel.small_pool(16)
        self.assertEqual(
            (8192, 1024 + 640 + 64),
            (pool.total * pool.page_size, pool.free * pool.page_size),
        )

    def test_memory_in_the_kernels_own_format(self):
        """Line by line as node_read_meminfo() in drivers/base/node.c."""
        self.machine.set_memory(0, total=18573516, free=17200140, shared=8)
        path = self.machine.root / 'sys/devices/system/node/node0/meminfo'
        lines = path.read_text().split('\n')
        for line in (
            'Node 0 MemTotal:       18573516 kB',
            'Node 0 MemUsed:         1373376 kB',
            'Node 0 FilePages:             8 kB',
            'Node 0 Shmem:                 8 kB',
            'Node 0 SReclaimable:          0 kB',
            'Node 0 HugePages_Total:     0',
        ):
            self.assertIn(line, lines)

    def test_a_process(self):
        held = {(0, 2048): 36, (1, 1048576): 2}
        self.machine.set_process('instance-00000001', 4711, held)
        self.assertEqual(held, self.machine.kernel.held('instance-00000001'))
        self.machine.set_process('instance-00000001', 4711)
        self.assertEqual({}, self.machine.kernel.held('instance-00000001'))

    def test_processes_are_apart(self):
        self.machine.set_process('one', 1, {(0, 2048): 1})
        self.machine.set_process('two', 2, {(0, 2048): 2})
        self.assertEqual({(0, 2048): 1}, self.machine.kernel.held('one'))
        self.assertEqual({(0, 2048): 2}, self.machine.kernel.held('two'))

    def test_its_files_are_closed_with_it(self):
        other = fixture.KernelFixture()
        with other:
            other.set_pool(0, 2048, 1, 1)
            other.kernel.pools()
            root = os.path.realpath(other.root)
            self.assertTrue(self.open_below(root))
        self.assertFalse(self.open_below(root))

    def open_below(self, root):
        return [
            number
            for number in os.listdir('/proc/self/fd')
            if os.path.realpath(f'/proc/self/fd/{number}').startswith(root)
        ]

    def test_machines_are_apart(self):
        other = self.useFixture(fixture.KernelFixture())
        self.assertNotEqual(other.root, self.machine.root)
