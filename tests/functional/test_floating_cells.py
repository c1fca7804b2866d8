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

"""Isolation by cell: floating guests share some of a host's cells."""

import json

from lxml import etree
from nova import exception, objects

from tests.functional import base


class CellsCase(base.GuardTestCase):
    GUARD = {'isolation': 'cell'}

    def start_with(self, floating='0', name='host1', cells=None):
        self.start_host(
            name,
            *(cells or (base.pages(4096), base.pages(4096, huge=1024))),
            cpus=12,
            floating=floating,
        )

    def cells_of(self, host):
        """The ids of the cells that Nova knows of, and the memory used."""
        node = objects.ComputeNode.get_by_host_and_nodename(
            self.admin_context, host, host
        )
        topology = objects.NUMATopology.obj_from_db_obj(node.numa_topology)
        return {cell.id: cell.memory_usage for cell in topology.cells}

    def confinement(self, server):
        """The CPUs and the memory that a guest was confined to."""
        domain = etree.fromstring(self.xml[server['id']])
        return (
            domain.find('vcpu').get('cpuset'),
            [dict(m.attrib) for m in domain.iterfind('numatune/memory')],
            [dict(m.attrib) for m in domain.iterfind('numatune/memnode')],
        )


class FloatingCellsTest(CellsCase):
    def setUp(self):
        super().setUp()
        self.floating = self.flavor(memory_mb=512)
        self.affined = self.flavor(memory_mb=512, **base.HUGE)

    def test_each_kind_has_its_cells(self):
        self.start_with('0')
        self.assertEqual({1: 0}, self.cells_of('host1'))
        floating, affined = self.boot(self.floating), self.boot(self.affined)
        self.assertEqual(
            ('0-5', [{'mode': 'restrictive', 'nodeset': '0'}], []),
            self.confinement(floating),
        )
        self.assertEqual(
            (None, [], [{'cellid': '0', 'mode': 'strict', 'nodeset': '1'}]),
            self.confinement(affined),
        )
        self.assertEqual({1: 512}, self.cells_of('host1'))

    def test_1590607_a_floating_guest_changes_no_cells_usage(self):
        """Case 4: several affined guests, then a floating one."""
        for isolation, floating in (('cell', '0'), ('none', '')):
            self.flags(isolation=isolation, group='numa_guard')
            name = f'host-{isolation}'
            self.start_with(floating, name)
            servers = [self.boot(self.affined, host=name) for _ in range(3)]
            before = self.cells_of(name)
            self.assertEqual(3 * 512, sum(before.values()))
            servers.append(self.boot(self.floating, host=name))
            self.look()
            self.assertEqual(before, self.cells_of(name))
            self.gone(*servers)

    def test_strict(self):
        self.flags(floating_memory_mode='strict', group='numa_guard')
        self.start_with(
            '1', cells=[base.pages(4096, huge=64), base.pages(4096)]
        )
        self.assertEqual(
            ('6-11', [{'mode': 'strict', 'nodeset': '1'}], []),
            self.confinement(self.boot(self.floating)),
        )

    def test_an_affined_guest_of_two_cells_finds_one_only(self):
        self.start_with()
        self.boot(
            self.flavor(vcpu=2, **{'hw:numa_nodes': '2'}),
            expected_state='ERROR',
        )

    def test_floating_guests_need_room_in_their_cells(self):
        """The host has 8 GiB more, in which they may not be."""
        self.start_with()
        # 4096 MiB less its half of reserved_host_memory_mb
        flavor = self.flavor(memory_mb=1300)
        body = self._build_server(flavor_id=flavor, networks='none')
        body.update(min_count=3, max_count=3)
        self.api.post_server({'server': body})
        for server in self.api.get_servers():
            self.settled(server, 'ERROR')
        self.gone(*self.api.get_servers())
        body.update(min_count=2, max_count=2)
        self.api.post_server({'server': body})
        for server in self.api.get_servers():
            self.settled(server, 'ACTIVE')
        refused = self.boot(flavor, expected_state='ERROR')
        self.assertIn('No valid host', refused['fault']['message'])
        self.assertIn(
            f'floating guest {refused["id"]}: floating-cells-memory-short: 1',
            self.stdlog.logger.output,
        )
        self.boot(self.affined)

    def test_floating_guests_need_cpus_in_their_cells(self):
        self.flags(initial_cpu_allocation_ratio=1.0)
        self.start_with()
        self.boot(self.flavor(memory_mb=256, vcpu=4))
        refused = self.boot(
            self.flavor(memory_mb=256, vcpu=3), expected_state='ERROR'
        )
        self.assertIn(
            f'floating guest {refused["id"]}: floating-cells-cpus-short: 1',
            self.stdlog.logger.output,
        )
        self.boot(self.flavor(memory_mb=256, vcpu=2))

    def test_contradictions_stop_the_compute(self):
        for floating, words in (
            ('7', 'floating_cells has 7, but the host has 0-1'),
            ('0-1', 'no cell is left for affined guests'),
        ):
            exc = self.assertRaises(
                exception.InvalidConfiguration, self.start_with, floating
            )
            self.assertIn(words, str(exc))

    def test_a_guest_on_a_cell_that_becomes_a_floating_one(self):
        """It keeps its XML through a hard reboot, and is still counted."""
        self.flags(isolation='none', group='numa_guard')
        # Both cells have huge pages; Nova takes the first.
        self.start_with('', cells=[base.pages(4096, huge=1024)] * 2)
        server = self.boot(self.affined)
        before = self.xml[server['id']]
        self.assertIn('nodeset="0"', before)

        self.flags(isolation='cell', floating_cells='0', group='numa_guard')
        self.flags(cpu_shared_set='0-2,6-8', group='compute')
        self.flags(cpu_dedicated_set='9-11', group='compute')
        self.restart_compute_service('host1')
        self.look()
        self.assertIn(
            f'NUMA guard: 1 affined guests are still on floating cells 0, '
            f'where floating guests may take memory that they need: '
            f'{server["id"]}',
            self.stdlog.logger.output,
        )
        self.assertEqual({1: 0}, self.cells_of('host1'))
        self._reboot_server(server, hard=True)
        self.assertEqual(
            self.bound(before), self.bound(self.xml[server['id']])
        )
        # None of it is taken for memory of floating guests.
        record = self.record('host1')
        self.assertEqual([0, 0, 0], record['floating'])
        self.assertEqual([1, 512, 1], record['affined'])
        self.assertEqual([512, 1], record['unseen'])

    def bound(self, xml):
        """Where a guest's CPUs and memory are."""
        domain = etree.fromstring(xml)
        return [
            etree.tostring(domain.find(part))
            for part in ('numatune', 'cputune')
        ]

    def record(self, host):
        """What a compute has reported."""
        node = objects.ComputeNode.get_by_host_and_nodename(
            self.admin_context, host, host
        )
        return json.loads(node.stats['numa_guard'])


class SmallPagesTest(base.GuardTestCase):
    """In every mode a floating guest needs room in small pages."""

    GUARD = {'isolation': 'none'}

    def test_a_host_with_most_of_its_memory_in_huge_pages(self):
        # 19 of 20 GiB; Nova's MEMORY_MB has them too.
        self.start_host('host1', base.pages(1024, huge=9728))
        flavor = self.flavor(memory_mb=512)
        server = self.boot(flavor)
        refused = self.boot(flavor, expected_state='ERROR')
        self.assertIn('No valid host', refused['fault']['message'])
        self.assertIn(
            f'floating guest {refused["id"]}: small-pages-short: 1',
            self.stdlog.logger.output,
        )
        self.boot(self.flavor(memory_mb=512, **base.HUGE))
        self.flags(isolation_mode='warn', group='numa_guard')
        self.boot(flavor)
        self.assertEqual('host1', self.host_of(server))
