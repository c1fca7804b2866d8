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

"""Reports from the field that need a scheduler and a claim to show.

Each is named after its symptom; the number is that of the bug report, where
there is a public one.
"""

import json
import logging

import fixtures
from lxml import etree
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base as libvirt_base

from tests.functional import base, qemu


class FieldCasesTest(base.GuardTestCase):
    def test_1811886_giant_page_is_not_counted_for_small_page_guests(self):
        """Case 1: 1 GiB of small pages, one 1 GiB page, two pinned guests."""
        self.flags(reserved_host_memory_mb=0)
        self.start_host('host1', base.pages(1024, giant=1), cpus=4)
        flavor = self.flavor(memory_mb=1024, **base.PINNED)
        self.boot(flavor)
        self.boot(flavor, expected_state='ERROR')

    def test_1734204_each_request_sees_the_pages_of_its_size_only(self):
        """Case 2: 256 MiB in small pages, 64 huge ones of which 32 used."""
        self.flags(reserved_host_memory_mb=0)
        self.start_host('host1', base.pages(128, huge=64))
        huge = self.flavor(memory_mb=64, **base.HUGE)
        self.boot(huge)
        self.boot(
            self.flavor(memory_mb=66, **base.HUGE), expected_state='ERROR'
        )
        self.boot(self.flavor(memory_mb=128, **base.SMALL))
        self.boot(huge)

    def test_1810977_small_pages_overcommit_and_huge_pages_do_not(self):
        """Case 3: ram_allocation_ratio 2 on a cell of 1 GiB small pages."""
        self.flags(initial_ram_allocation_ratio=2.0, reserved_host_memory_mb=0)
        self.start_host('host1', base.pages(1024, huge=512))
        small = self.flavor(memory_mb=1024, **base.SMALL)
        self.boot(small)
        self.boot(small)
        huge = self.flavor(memory_mb=1024, **base.HUGE)
        self.boot(huge)
        self.boot(huge, expected_state='ERROR')

    def test_one_host_of_six_lacks_the_page_size(self):
        """Case 19: that host is passed over, the other five are judged."""
        self.flags(reserved_host_memory_mb=0)
        for i in range(6):
            cell = base.pages(4096, huge=16, giant=1)
            if i == 0:
                del cell[1048576]
            self.start_host(f'host{i}', cell)
        flavor = self.flavor(memory_mb=1024, **{'hw:mem_page_size': '1048576'})
        hosts = set()
        for _ in range(5):
            server = self.boot(flavor)
            host = self.host_of(server)
            hosts.add(host)
        self.assertEqual({f'host{i}' for i in range(1, 6)}, hosts)
        reasons = self.useFixture(
            fixtures.FakeLogger('nova.virt.hardware', level=logging.DEBUG)
        )
        self.boot(flavor, expected_state='ERROR')
        self.assertIn(
            'Host does not support requested memory pagesize', reasons.output
        )

    def test_1940668_spreading_leaves_room_for_a_guest_of_two_cells(self):
        """Case 13: guests of one cell arrive on two nodes, then one of two."""
        self.flags(reserved_host_memory_mb=0)
        self.start_host('host1', base.pages(4096), base.pages(4096))
        small = self.flavor(memory_mb=1536, **base.SMALL)
        nodes = set()
        for _ in range(2):
            domain = etree.fromstring(self.xml[self.boot(small)['id']])
            [memnode] = domain.iterfind('numatune/memnode')
            nodes.add(memnode.get('nodeset'))
        self.assertEqual({'0', '1'}, nodes)
        self.boot(
            self.flavor(memory_mb=4096, vcpu=2, **{'hw:numa_nodes': '2'})
        )


class FloatingMigrationTest(
    libvirt_base.LibvirtMigrationMixin, base.GuardTestCase
):
    def _migrate_stub(self, domain, destination, params, flags):
        self.arrived = params['destination_xml']
        self.left = domain.XMLDesc(0)
        super()._migrate_stub(domain, destination, params, flags)

    def test_1869804_only_the_cpus_of_a_floating_guest_follow(self):
        """Case 17: it migrates between hosts that share different CPUs."""
        for name in ('host1', 'host2'):
            self.start_host(name, base.pages(8192), cpus=8)
        self.server = self.boot(self.flavor(), host='host1')
        self.src, self.dest = self.computes['host1'], self.computes['host2']
        self.flags(cpu_shared_set='1-2', group='compute')
        self._live_migrate(self.server)

        left, arrived = map(etree.fromstring, (self.left, self.arrived))
        self.assertEqual('0-3', left.find('vcpu').get('cpuset'))
        self.assertEqual('1-2', arrived.find('vcpu').get('cpuset'))
        arrived.find('vcpu').set('cpuset', '0-3')
        self.assertEqual(
            *(
                ''.join(etree.tostring(xml, method='c14n').decode().split())
                for xml in (left, arrived)
            )
        )


class AffinedMigrationTest(base.GuardTestCase):
    def setUp(self):
        super().setUp()
        self.migrations = self.useFixture(qemu.Migrations(self.computes))
        self.giant = self.flavor(
            memory_mb=8192, **{'hw:mem_page_size': '1048576'}
        )

    def live_migrate(self, server, host, status):
        self.api.post_server_action(
            server['id'],
            {'os-migrateLive': {'host': host, 'block_migration': 'auto'}},
        )
        self.settled(server, 'ACTIVE')
        self._wait_for_migration_status(server, [status])
        return [etree.fromstring(xml) for xml in self.migrations.sent]

    def test_1289064_it_is_refitted_to_the_other_node(self):
        """Case 9: node 0 of the target is taken by another like it."""
        for host in ('host1', 'host2'):
            self.start_host(
                host, base.pages(4096, giant=8), base.pages(4096, giant=8)
            )
        server = self.boot(self.giant, host='host1')
        self.boot(self.giant, host='host2')
        [sent] = self.live_migrate(server, 'host2', 'completed')
        self.assertEqual(
            [('memnode', {'cellid': '0', 'mode': 'strict', 'nodeset': '1'})],
            [(each.tag, dict(each.attrib)) for each in sent.find('numatune')],
        )

    def test_1289064_the_target_has_no_such_node(self):
        """Case 10: from node 2 to a host of two nodes, and if these are full.

        It is refused before libvirt is asked.
        """
        cell = base.pages(4096, giant=8)
        self.start_host('host1', base.pages(4096), base.pages(4096), cell)
        self.start_host('host2', cell, base.pages(4096))
        servers = [self.boot(self.giant, host='host1')]
        self.boot(self.giant, host='host2')
        self.live_migrate(servers[0], 'host2', 'error')
        self.assertEqual([], self.migrations.sent)
        self.assertEqual('host1', self.host_of(servers[0]))
        self.start_host('host3', base.pages(4096), cell)
        [sent] = self.live_migrate(servers[0], 'host3', 'completed')
        self.assertEqual('1', sent.find('numatune/memnode').get('nodeset'))


class PackingTest(base.GuardTestCase):
    def test_2144660_filter_and_claim_choose_the_same_node(self):
        """Case 12: a PCI device on node 0, and pinned guests without one."""
        self.flags(
            device_spec=[
                json.dumps(
                    {
                        'vendor_id': fakelibvirt.PCI_VEND_ID,
                        'product_id': fakelibvirt.PCI_PROD_ID,
                    }
                )
            ],
            group='pci',
        )
        self.flags(
            packing_host_numa_cells_allocation_strategy=True, group='compute'
        )
        self.start_host(
            'host1',
            *[base.pages(4096)] * 4,
            cpus=12,
            pci_info=fakelibvirt.HostPCIDevicesInfo(num_pci=1, numa_node=0),
        )
        flavor = self.flavor(vcpu=2, **base.PINNED)
        nodes = []
        for _ in range(4):
            server = self.boot(flavor)
            domain = etree.fromstring(self.xml[server['id']])
            nodes.append(domain.find('numatune/memnode').get('nodeset'))
            # A claim that chose otherwise would have sent it on.
            self.assertNotIn('rescheduled', self.stdlog.logger.output)
        self.assertEqual({'0', '1', '2', '3'}, set(nodes))
        self.assertEqual('0', nodes[-1])
