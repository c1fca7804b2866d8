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

"""Isolation by cell, on a host that pretends to have two.

The kernel has one NUMA node, so that only guests on cell 0 can run.
"""

from tests.lab import base, memory, shared
from tests.lab.stack import hugepages, plan


def floating_cells(cells: str, **compute: object) -> plan.Options:
    return {'numa_guard': {'floating_cells': cells}, 'compute': compute}


class FloatingCellsTest(base.LabTestCase):
    """[numa_guard] isolation = cell, in the nova.conf of the third host."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.addClassCleanup(shared.stop_host, base.THIRD)
        shared.start_host(base.THIRD)

    def test_floating_server_is_confined_to_cell_0(self) -> None:
        first, _ = hugepages.cpus()

        server = self.boot(self.lab.floating, host=base.THIRD)

        self.assertEqual(
            [('memory', 'restrictive', '0')], self.numatune(server)
        )
        (vcpu,) = self.domain(server).iterfind('./vcpu')
        self.assertEqual(str(first), vcpu.get('cpuset'))
        pid = self.host(base.THIRD).qemu_pid(server.domain)
        self.assertEqual({frozenset({0})}, memory.allowed_nodes(pid))
        self.assertEqual([], self.warnings(base.THIRD))
        self.assertEqual([], self.logged(base.THIRD, ' ERROR nova'))

    def test_nova_places_no_affined_server_on_cell_0(self) -> None:
        server = self.boot(self.lab.two_cells, host=base.THIRD, status='ERROR')

        self.assertEqual('', server.host)
        self.assertIn('No valid host was found.', server.fault)
        self.assertEqual([], self.logged(base.THIRD, server.uuid))
        self.assertEqual((1,), self.node(base.THIRD).cells)

    @base.run_with(base.THIRD, floating_cells('1'))
    def test_affined_server_runs_on_cell_0(self) -> None:
        """If it is the other cell that is for floating servers."""
        server = self.boot(self.lab.small_page, host=base.THIRD)

        self.assertEqual(
            [('memnode', 'preferred', '0')], self.numatune(server)
        )
        self.assertEqual((0,), self.node(base.THIRD).cells)

    def test_what_contradicts_the_host_stops_the_compute(self) -> None:
        first, second = hugepages.cpus()
        for options, text in (
            (
                floating_cells('0-1'),
                'floating_cells has 0-1, and the host has 0-1 only, so that '
                'no cell is left for affined guests',
            ),
            (
                floating_cells('7'),
                'floating_cells has 7, but the host has 0-1',
            ),
            (
                floating_cells(
                    '1', cpu_shared_set=first, cpu_dedicated_set=second
                ),
                'floating cell 1 has no CPU that guests share ([compute] '
                'cpu_shared_set); [compute] cpu_dedicated_set reaches into '
                f'floating cell 1 with CPUs {second}',
            ),
        ):
            line = self.lab.stack.run_to_error(base.THIRD, options)
            self.assertTrue(
                line.endswith(
                    'InvalidConfiguration: [numa_guard] isolation by cell is '
                    f'not possible: {text}'
                ),
                line,
            )
