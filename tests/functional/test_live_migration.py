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

from lxml import etree
from nova import objects

from tests.functional import base, qemu

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
        self._wait_for_migration_status(server, [status])
        self.settled(server, 'ACTIVE')
        return [etree.fromstring(xml) for xml in self.migrations.sent]

    def numatune(self, root):
        """(tag, mode, nodeset) of each part of a domain's <numatune>."""
        return [
            (part.tag, part.get('mode'), part.get('nodeset'))
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
        memory = [] if mode else [('memory', 'strict', _spec(nodes))]
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


def _spec(nodes):
    return ','.join(map(str, nodes))
