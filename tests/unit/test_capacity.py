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

"""What is left on hosts, and for whom."""

from nova_numa_guard import capacity, fitting, guests, occupancy
from tests.unit import base

FLOATING, AFFINED = guests.Kind.FLOATING, guests.Kind.AFFINED
BOTH = frozenset(guests.Kind)


def free(name='host', accepts=BOTH, floating=1000, has=(0, 0), **values):
    return capacity.Free(
        name=name,
        chosen=values.pop('chosen', True),
        accepts=frozenset(accepts),
        floating=floating,
        vcpus=None,
        memory={0: 600, 1: 400},
        pages={2048: {0: 10, 1: 20}, 1048576: {0: 2, 1: 0}},
        dedicated={0: 4, 1: 2},
        content=occupancy.HostContent(*has),
    )


class FreeTest(base.TestCase):
    def test_a_host_for_both(self):
        host = free()
        self.assertEqual(60 + 2048, host.huge)
        self.assertEqual(1000 + 2108, host.affined)
        self.assertEqual((0, 0), (host.stranded, host.stranded_cpus))
        self.assertEqual({2048: 40, 1048576: 2048}, host.largest_cell)
        self.assertEqual(1000, host.room(FLOATING))

    def test_a_host_for_floating_guests(self):
        host = free(accepts=[FLOATING])
        self.assertEqual((2108, 6), (host.stranded, host.stranded_cpus))
        self.assertEqual({}, host.largest_cell)
        self.assertEqual(0, host.room(AFFINED))

    def test_a_host_for_affined_guests(self):
        host = free(accepts=[AFFINED])
        self.assertEqual((0, 0), (host.stranded, host.stranded_cpus))
        self.assertEqual(0, host.room(FLOATING))

    def test_a_host_for_nobody(self):
        host = free(accepts=[])
        self.assertEqual((3108, 6), (host.stranded, host.stranded_cpus))

    def test_cells(self):
        cells = [
            fitting.HostCell(
                0,
                (
                    fitting.Pages(4, 25600, 12800),
                    fitting.Pages(2048, 10, 3, 2),
                ),
                memory=120,
                dedicated=4,
                pinned=3,
            ),
            fitting.HostCell(1, (), memory=100, memory_claimed=30),
        ]
        self.assertEqual(
            ({0: 50, 1: 70}, {2048: {0: 5}}, {0: 1, 1: 0}),
            capacity.free_in(cells),
        )


class FailoverTest(base.TestCase):
    def test_it(self):
        hosts = [
            free('a', [FLOATING], 500, has=(1500, 0)),
            free('b', [FLOATING], 1500),
            free('c', [AFFINED], has=(0, 100)),
        ]
        # b has room for a; nobody takes c's.
        self.assertEqual({'c': (AFFINED,)}, capacity.unplaceable(hosts))
        hosts[1] = free('b', [FLOATING], 1499)
        self.assertEqual(
            {'a': (FLOATING,), 'c': (AFFINED,)}, capacity.unplaceable(hosts)
        )

    def test_its_own_room_is_lost_with_it(self):
        self.assertEqual(
            {'a': (FLOATING,)},
            capacity.unplaceable([free('a', floating=9000, has=(1, 0))]),
        )

    def test_hosts_that_are_not_chosen(self):
        hosts = [
            free('a', has=(1, 0)),
            free('b', chosen=False, has=(1, 0)),
        ]
        # a takes b's guests, and b none of a's.
        self.assertEqual({'a': (FLOATING,)}, capacity.unplaceable(hosts))
