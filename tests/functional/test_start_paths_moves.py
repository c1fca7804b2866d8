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

"""Every way in which a server starts on another host, or with its host."""

import threading
import time

from nova import objects
from nova.tests.functional.libvirt import base as libvirt_base

from tests.functional import pages, qemu


class HostBootTest(pages.PagesTestCase):
    """The pools may be made, or filled, after nova-compute is started."""

    WHY = 'it ran when this host went down'

    def setUp(self):
        super().setUp()
        self.flags(resume_guests_state_on_host_boot=True)

    def crash(self, *servers):
        self.take_down('host1')
        for server in servers:
            self.domain(server).destroy()
        self.leave(0)

    def test_pools_appear_while_it_waits(self):
        self.flags(host_boot_wait=60, group='numa_guard')
        server = self.own()
        self.crash(server)
        timer = threading.Timer(2, self.leave, (512,))
        timer.start()
        self.addCleanup(timer.join)
        begun = time.monotonic()
        self.bring_up('host1')
        self.assertLess(time.monotonic() - begun, 30)
        self.settled(server, 'ACTIVE')
        self.assertTrue(self.domain(server).runs)
        self.assertNotIn('Starting although', self.log())

    def test_pools_do_not_appear(self):
        """One wait for all guests, and QEMU tries."""
        self.flags(host_boot_wait=2, page_wait=60, group='numa_guard')
        servers = [self.boot(self.huge) for _ in range(2)]
        self.crash(*servers)
        begun = time.monotonic()
        self.bring_up('host1')
        self.assertLess(time.monotonic() - begun, 30)
        log = self.log()
        for server in servers:
            self.settled(server, 'ERROR')
            self.assert_tried(server, self.WHY, log)
        self.assertEqual(2, log.count(self.WHY))
        self.leave(512)
        for server in servers:
            self.act(server, 'ACTIVE', reboot={'type': 'HARD'})


class MoveTest(pages.PagesTestCase):
    HOSTS = ('host1', 'host2')
    WHY = 'it has been moved already'

    def setUp(self):
        super().setUp()
        self.useFixture(qemu.NoDisks())

    def test_migration_and_its_revert(self):
        server = self.own()
        for host in self.HOSTS:
            self.leave(256, host)
        self._migrate_server(server)
        self.assertTrue(self.domain(server, 'host2').runs)
        self._revert_resize(server)
        self.assertTrue(self.domain(server).runs)
        self.assertEqual(set(), self.domains('host2'))
        self.assertEqual([], self.events(server))
        self.assertNotIn('Starting although', self.log())

    def test_arrival_is_not_refused(self):
        """Its guest is off already, and its disk is here."""
        server = self.own()
        self.leave(100, 'host2')
        self.act(server, 'ERROR', migrate=None)
        self.assert_tried(server, self.WHY)

    def test_revert_is_not_refused(self):
        server = self.own()
        self._migrate_server(server)
        self.leave(100)
        self.act(server, 'ERROR', revertResize=None)
        self.assert_tried(server, self.WHY)
        self.leave(256)
        self.act(server, 'ACTIVE', reboot={'type': 'HARD'})
        self.assertTrue(self.domain(server).runs)

    def test_a_refused_evacuation_takes_nothing_from_the_other_host(self):
        """The other host may be cut off only, and its guests run."""
        server = self.own()
        self.take_down('host1')
        own = self.possessions(server)
        self.leave(100, 'host2')
        self.act(server, 'ACTIVE', evacuate={})
        self.assertEqual('host1', self.host_of(server))
        self.assertEqual(set(), self.domains('host2'))
        had = self.possessions(server)
        for name in ('port', 'volumes'):
            self.assertEqual(own[name], had[name], name)
        self.assertEqual('host1', own['port'][0])
        self.assertEqual(
            {self.compute_rp_uuids['host1']}, set(had['allocations'])
        )
        self.assertIn(self.NEEDED, self.events(server)[-1][1])
        self.leave(256, 'host2')
        # Else Nova goes by what it was told at the refusal.
        self.look()
        self.act(server, 'SHUTOFF', evacuate={})
        self.assertEqual('host2', self.host_of(server))
        self.act(server, 'ACTIVE', **{'os-start': None})
        self.assertTrue(self.domain(server, 'host2').runs)


class LiveMigrationTest(
    libvirt_base.LibvirtMigrationMixin, pages.PagesTestCase
):
    HOSTS = ('host1', 'host2', 'host3')

    def _migrate_stub(self, domain, destination, params, flags):
        self.server, self.src = self.migrated, self.computes['host1']
        [name] = (host for host in self.HOSTS if host in destination)
        self.dest = self.computes[name]
        super()._migrate_stub(domain, destination, params, flags)

    def setUp(self):
        super().setUp()
        self.migrated = self.own()
        self.leave(100, 'host2')

    def migrate(self):
        return self.act(
            self.migrated,
            'ACTIVE',
            **{'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
        )

    def claimed(self, host):
        """Huge pages that Nova's tracker counts as used."""
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            self.admin_context, host
        )
        [cell] = objects.NUMATopology.obj_from_db_obj(node.numa_topology).cells
        return {page.size_kb: page.used for page in cell.mempages}[2048]

    def test_the_next_host_is_tried(self):
        self.migrate()
        self.assertEqual('host3', self.host_of(self.migrated))
        self.assertTrue(self.domain(self.migrated, 'host3').runs)
        self.assertEqual(['host2'], [h for h, _ in self.events(self.migrated)])
        self.assertIn(self.NEEDED, self.events(self.migrated)[0][1])
        self.assertEqual(0, self.claimed('host2'))
        self.assertEqual(set(), self.domains('host2'))

    def test_no_host_has_the_pages(self):
        self.leave(100, 'host3')
        had = self.possessions(self.migrated)
        server = self.migrate()
        self.assertEqual('host1', self.host_of(server))
        self.assertEqual(had, self.possessions(server))
        self.assertTrue(self.domain(server).runs)
        for host in ('host2', 'host3'):
            self.assertEqual(0, self.claimed(host))
            self.assertEqual(set(), self.domains(host))
        self.assertEqual(
            {'host2', 'host3'}, {host for host, _ in self.events(server)}
        )
