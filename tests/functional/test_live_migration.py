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

"""Live migration between hosts with the guard, without it, and leaving it."""

import pathlib
import time

from lxml import etree
from nova import objects
import nova.conf

from nova_numa_guard import sets
from tests.functional import base, qemu

CONF = nova.conf.CONF
STOCK = 'libvirt.LibvirtDriver'
REALTIME = {
    **base.PINNED,
    'hw:cpu_realtime': 'yes',
    'hw:cpu_realtime_mask': '^0',
}
# The extra specs, and the mode of the guard's <memnode>.
KINDS = {
    'huge pages, two cells': ({**base.HUGE, 'hw:numa_nodes': '2'}, 'strict'),
    'small pages': (base.SMALL, 'preferred'),
    'small pages, pinned': (base.PINNED, 'preferred'),
    'realtime': (REALTIME, 'strict'),
}


class LiveMigrationCase(base.GuardTestCase):
    GUARD = {'isolation': 'none'}

    def setUp(self):
        super().setUp()
        self.migrations = self.useFixture(qemu.Migrations(self.computes))

    def start(self, name, driver=base.DRIVER, numatune='guard', **values):
        """Start a host of two cells with huge pages."""
        self.flags(numatune=numatune, group='numa_guard')
        self.start_host(
            name,
            base.pages(4096, huge=1024),
            base.pages(4096, huge=1024),
            cpus=12,
            driver=driver,
            **values,
        )
        # From now on it is as it has reported itself.
        self.flags(numatune='guard', group='numa_guard')

    def live_migrate(self, server, host, status='completed'):
        """Migrate it, and tell the XML that libvirt was handed."""
        self.migrations.sent.clear()
        self.api.post_server_action(
            server['id'],
            {'os-migrateLive': {'host': host, 'block_migration': 'auto'}},
        )
        self.settled(server, 'ACTIVE')
        deadline = time.monotonic() + 60
        while status != self.last_status(server):
            self.assertLess(time.monotonic(), deadline, status)
            time.sleep(0.05)
        return [etree.fromstring(xml) for xml in self.migrations.sent]

    def last_status(self, server):
        """That of its last migration."""
        found = self.api.api_get(
            f'/os-migrations?instance_uuid={server["id"]}'
        ).body['migrations']
        return max(found, key=lambda migration: migration['id'])['status']

    def numatune(self, root):
        """(tag, mode, nodeset) of each part of a domain's <numatune>."""
        return [
            (
                part.tag,
                part.get('mode'),
                sets.text(sets.parse(part.get('nodeset'))),
            )
            for part in root.iterfind('numatune/*')
        ]

    def cells(self, server):
        """The host cells that Nova has claimed for it."""
        instance = objects.Instance.get_by_uuid(
            self.admin_context, server['id'], expected_attrs=['numa_topology']
        )
        return [cell.id for cell in instance.numa_topology.cells]

    def expected(self, server, mode):
        """A guest's <numatune> by Nova's claim: the guard's, or Nova's."""
        nodes = self.cells(server)
        memory = [] if mode else [('memory', 'strict', sets.text(set(nodes)))]
        return memory + [
            ('memnode', mode or 'strict', str(node)) for node in nodes
        ]


class MatrixTest(LiveMigrationCase):
    """From and to every kind of host, and guests from before the guard."""

    def start_guest(self, kind):
        specs, mode = KINDS[kind]
        server = self.boot(self.flavor(vcpu=2, **specs), host='host1')
        return server, kind, mode

    def migrate_all(self, source, destination):
        servers = [self.start_guest(kind) for kind in KINDS]
        if source == base.DRIVER:
            # From before the host had the guard.
            self.flags(numatune='stock', group='numa_guard')
            servers += [self.start_guest(kind) for kind in list(KINDS)[:2]]
            self.flags(numatune='guard', group='numa_guard')
        for server, kind, mode in servers:
            [sent] = self.live_migrate(server, 'host2')
            self.assertLessEqual(set(self.cells(server)), {4, 16})
            self.assertEqual(
                self.expected(server, mode if destination else ''),
                self.numatune(sent),
                kind,
            )
            sched = sent.find('cputune/vcpusched')
            self.assertEqual(kind == 'realtime', sched is not None, kind)

    def test_guard_to_guard(self):
        self.start('host1')
        self.start('host2', ids=(4, 16))
        self.migrate_all(base.DRIVER, 'guard')

    def test_guard_to_stock(self):
        self.start('host1')
        self.start('host2', driver=STOCK, ids=(4, 16))
        self.migrate_all(base.DRIVER, '')

    def test_guard_to_a_host_that_leaves_it(self):
        self.start('host1')
        self.start('host2', numatune='stock', ids=(4, 16))
        self.migrate_all(base.DRIVER, '')

    def test_stock_to_guard(self):
        """The source is Nova's, and so is the XML, until a hard reboot."""
        self.start('host1', driver=STOCK)
        self.start('host2', ids=(4, 16))
        self.migrate_all(STOCK, '')


class JourneyTest(LiveMigrationCase):
    """One guest, from host to host."""

    def test_on_from_a_host_without_the_guard_and_back(self):
        self.start('host1')
        self.start('host2', driver=STOCK, ids=(4, 16))
        self.start('host3', driver=STOCK)
        specs, mode = KINDS['huge pages, two cells']
        server = self.boot(self.flavor(vcpu=2, **specs), host='host1')
        for host in ('host2', 'host3', 'host1'):
            [sent] = self.live_migrate(server, host)
            self.assertEqual(self.expected(server, ''), self.numatune(sent))
        self.api.post_server_action(server['id'], {'reboot': {'type': 'HARD'}})
        self.settled(server, 'ACTIVE')
        written = etree.fromstring(self.xml[server['id']])
        self.assertEqual(self.expected(server, mode), self.numatune(written))

    def test_from_a_host_that_leaves_the_guard(self):
        """What it started before still has the guard's <numatune>."""
        self.start('host1')
        self.start('host2', driver=STOCK, ids=(4, 16))
        self.start('host3', ids=(4, 16))
        specs, mode = KINDS['small pages']
        servers = [
            self.boot(self.flavor(**specs), host='host1') for _ in range(2)
        ]
        self.flags(numatune='stock', group='numa_guard')
        after = self.boot(self.flavor(**specs), host='host1')
        self.assertEqual(self.stock_xml[after['id']], self.xml[after['id']])
        [sent] = self.live_migrate(servers[0], 'host2')
        self.assertEqual(self.expected(servers[0], ''), self.numatune(sent))
        [sent] = self.live_migrate(servers[1], 'host3')
        self.assertEqual(self.expected(servers[1], mode), self.numatune(sent))

    def test_the_destinations_policy_and_the_flavors(self):
        self.start('host1')
        self.flags(small_page_policy='local', group='numa_guard')
        self.start('host2')
        self.flags(small_page_policy='auto', group='numa_guard')
        server = self.boot(self.flavor(**base.SMALL), host='host1')
        [sent] = self.live_migrate(server, 'host2')
        self.assertEqual([], self.numatune(sent))
        server = self.boot(
            self.flavor(**base.SMALL, **{'numa_guard:mem_policy': 'strict'}),
            host='host1',
        )
        [sent] = self.live_migrate(server, 'host2')
        self.assertEqual(self.expected(server, 'strict'), self.numatune(sent))

    def test_one_that_fails_leaves_the_source_as_it_was(self):
        self.start('host1')
        self.start('host2')
        specs, _ = KINDS['huge pages, two cells']
        server = self.boot(self.flavor(vcpu=2, **specs), host='host1')
        before = self.domain(server, 'host1').XMLDesc(0)
        self.migrations.fails = True
        self.live_migrate(server, 'host2', status='failed')
        self.assertEqual('host1', self.host_of(server))
        self.assertEqual(before, self.domain(server, 'host1').XMLDesc(0))
        # The other host has nothing of it, and expects nothing.
        self.look()
        full = {**base.HUGE, 'hw:numa_nodes': '2'}
        self.boot(self.flavor(memory_mb=4096, vcpu=2, **full), host='host2')
        check = self.computes['host2'].driver.page_check
        self.assertEqual((), check.arrivals.expected)

    def domain(self, server, host):
        connection = self.computes[host].driver._host.get_connection()
        return connection.lookupByUUIDString(server['id'])


class ComingTest(LiveMigrationCase):
    """A guest is on its way, and others start on its destination."""

    SHORT = 'huge pages of 2048 KiB on host NUMA node 0: needed 600, '

    def test_its_pages_are_not_for_others(self):
        # Nova lets both in: it does not know of the outsider.
        self.flags(accounting=False, group='numa_guard')
        for host in ('host1', 'host2'):
            self.start_host(host, base.pages(4096, huge=2048))
        server = self.boot(
            self.flavor(memory_mb=1400, **base.HUGE), host='host1'
        )
        self.kernels['host2'].set_pool(0, 2048, total=2048, free=1000)
        later = []

        def start_another():
            later.append(
                self.force(
                    self.flavor(memory_mb=1200, **base.HUGE),
                    'host2',
                    expected_state='ERROR',
                )
            )

        self.migrations.meanwhile = start_another
        self.live_migrate(server, 'host2')
        self.assertEqual('host2', self.host_of(server))
        [(host, details)] = self.events(later[0])
        self.assertEqual('host2', host)
        self.assertIn(f'{self.SHORT}available 300', details)
        # It has come, and is one of those that run.
        self.boot(self.flavor(memory_mb=600, **base.HUGE), host='host2')


class RefusedTest(LiveMigrationCase):
    def test_the_cell_that_nova_has_claimed_has_no_pages(self):
        """The other has. Nothing is left of it on the destination."""
        self.flags(accounting=False, group='numa_guard')
        self.start('host1')
        self.start('host2')
        server = self.boot(self.flavor(**base.HUGE), host='host1')
        self.kernels['host2'].set_pool(0, 2048, total=1024, free=100)
        [] = self.live_migrate(server, 'host2', status='error')
        self.assertEqual('host1', self.host_of(server))
        [(host, details)] = self.events(server)
        self.assertEqual('host2', host)
        self.assertIn('node 0: needed 512, available 100', details)
        node = objects.ComputeNode.get_by_host_and_nodename(
            self.admin_context, 'host2', 'host2'
        )
        for cell in objects.NUMATopology.obj_from_db_obj(
            node.numa_topology
        ).cells:
            self.assertEqual(0, cell.memory_usage)
        check = self.computes['host2'].driver.page_check
        self.assertEqual((), check.arrivals.expected)
        self.assertEqual(
            [], list(pathlib.Path(CONF.instances_path).glob('tmp*'))
        )


class CellsTest(LiveMigrationCase):
    """Floating guests are confined where they arrive, as it is done there."""

    GUARD = {'isolation': 'cell'}

    def start(self, name, floating, driver=base.DRIVER):
        self.flags(
            isolation='cell' if floating else 'none', group='numa_guard'
        )
        self.start_host(
            name,
            base.pages(4096, huge=64),
            base.pages(4096, huge=64),
            cpus=12,
            driver=driver,
            floating=floating,
        )
        self.flags(isolation='cell', group='numa_guard')

    def confinement(self, root):
        return root.find('vcpu').get('cpuset'), self.numatune(root)

    def test_from_cells_to_other_cells_to_none_and_to_stock(self):
        self.start('host1', '0')
        self.start('host2', '1')
        self.start('host3', '')
        self.start('host4', '', driver=STOCK)
        server = self.boot(self.flavor(), host='host1')
        self.assertEqual(
            ('0-5', [('memory', 'restrictive', '0')]),
            self.confinement(etree.fromstring(self.xml[server['id']])),
        )
        for host, expected in (
            ('host2', ('6-11', [('memory', 'restrictive', '1')])),
            ('host3', ('0-2,6-8', [])),
            ('host1', ('0-5', [('memory', 'restrictive', '0')])),
            ('host4', ('0-2,6-8', [])),
            # From here on it is Nova's: it knows of CPUs only.
            ('host2', ('6-11', [])),
        ):
            [sent] = self.live_migrate(server, host)
            self.assertEqual(expected, self.confinement(sent), host)
