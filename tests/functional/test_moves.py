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

"""What Nova, the kernel and the scheduler have of a server after each move."""

import pathlib

from lxml import etree
from nova import objects
import nova.conf
from nova.tests import fixtures as nova_fixtures

from nova_numa_guard import occupancy, report
from tests.functional import base, qemu

CONF = nova.conf.CONF
IMAGE = nova_fixtures.GlanceFixture.auto_disk_config_disabled_image
GUARDS = [('memnode', 'strict', '0')]


class AfterEachMoveTest(base.GuardTestCase):
    """A server of 256 huge pages, and then of 384, on two hosts."""

    GUARD = {'isolation': 'host'}
    HOSTS = ('host1', 'host2')

    def setUp(self):
        super().setUp()
        self.useFixture(qemu.NoDisks())
        self.migrations = self.useFixture(qemu.Migrations(self.computes))
        for host in self.HOSTS:
            self.start_host(host, base.pages(8192, huge=1024))
        self.small = self.flavor(memory_mb=512, **base.HUGE)
        self.large = self.flavor(memory_mb=768, **base.HUGE)
        self.server = self.boot(self.small, host='host1')
        # The fake makes none, and a rescue keeps the XML there.
        pathlib.Path(CONF.instances_path, self.server['id']).mkdir()
        self.assert_is_on(host1=[256])

    def act(self, *statuses, **action):
        self.api.post_server_action(self.server['id'], action)
        return self.settled(self.server, *statuses)

    def assert_is_on(self, **sizes):
        """What the hosts have of it: pages of each that Nova counts.

        Its domain runs on the last of the hosts, with the last of the sizes.
        """
        self.assertEqual([], self.events(self.server))
        # At once: nothing waits for the next audit.
        self.assert_nova_counts(sizes)
        self.look()
        self.assert_nova_counts(sizes)
        for host in self.HOSTS:
            driver = self.computes[host].driver
            self.assertEqual((), driver.page_check.reservations.promises)
            driver.page_check.arrivals.review(host)
            self.assertEqual((), driver.page_check.arrivals.expected)
            mine = sizes.get(host, [])
            running = [
                domain
                for domain in driver._host.get_connection()._vms.values()
                if domain.runs
            ]
            here = mine and host == list(sizes)[-1]
            self.assertEqual(1 if here else 0, len(running), host)
            pages = mine[-1] if here else 0
            for domain in running:
                self.assertEqual({(0, 2048): pages}, domain.pages)
                self.assert_guards(domain.XMLDesc(0))
            [figure] = [
                each
                for each in driver.reporter.truth.figures
                if each.page_size == 2048
            ]
            self.assertEqual((pages, 0), (figure.claimed, figure.unaccounted))
            self.assert_reported(host, mine)

    def assert_nova_counts(self, sizes):
        for host in self.HOSTS:
            node = self.node(host)
            [cell] = objects.NUMATopology.obj_from_db_obj(
                node.numa_topology
            ).cells
            used = {page.size_kb: page.used for page in cell.mempages}
            pages = sum(sizes.get(host, []))
            self.assertEqual(pages, used[2048], host)
            self.assertEqual(2 * pages, cell.memory_usage, host)
            reserved = {
                page.size_kb: page.reserved
                for page in cell.mempages
                if 'reserved' in page
            }
            self.assertEqual(0, reserved.get(2048, 0), host)

    def assert_reported(self, host, sizes):
        record = report.decode(self.node(host).stats['numa_guard'])
        self.assertEqual(
            occupancy.Share(len(sizes), 2 * sum(sizes), len(sizes)),
            record.affined,
            host,
        )
        self.assertEqual(occupancy.NOBODY, record.floating)

    def assert_guards(self, xml):
        self.assertEqual(
            GUARDS,
            [
                (part.tag, part.get('mode'), part.get('nodeset'))
                for part in etree.fromstring(xml).iterfind('numatune/*')
            ],
        )

    def node(self, host):
        return objects.ComputeNode.get_by_host_and_nodename(
            self.admin_context, host, host
        )

    def test_migrations_and_resizes(self):
        self._migrate_server(self.server)
        self.assert_is_on(host1=[256], host2=[256])
        self._revert_resize(self.server)
        self.assert_is_on(host1=[256])
        self._migrate_server(self.server)
        self._confirm_resize(self.server)
        self.assert_is_on(host2=[256])
        self._resize_server(self.server, self.large)
        self.assert_is_on(host2=[256], host1=[384])
        self._confirm_resize(self.server)
        self.assert_is_on(host1=[384])

    def test_resizes_on_one_host(self):
        self.flags(allow_resize_to_same_host=True)
        self.api.put_service(
            self.computes['host2'].service_ref.uuid, {'status': 'disabled'}
        )
        self._resize_server(self.server, self.large)
        self.assert_is_on(host1=[256, 384])
        self._revert_resize(self.server)
        self.assert_is_on(host1=[256])
        self._resize_server(self.server, self.large)
        # Of two hosts in one process it is the one that confirms.
        self.flags(host='host1')
        self._confirm_resize(self.server)
        self.assert_is_on(host1=[384])

    def test_live_migration(self):
        self.act(
            'ACTIVE',
            **{'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
        )
        self._wait_for_migration_status(self.server, ['completed'])
        self.assert_is_on(host2=[256])

    def test_rescue_rebuild_and_shelve(self):
        self.api.post_server_action(self.server['id'], {'rescue': {}})
        self._wait_for_state_change(self.server, 'RESCUE')
        self.assert_is_on(host1=[256])
        self.act('ACTIVE', unrescue=None)
        self.assert_is_on(host1=[256])
        self.act(
            'ACTIVE',
            rebuild={'imageRef': IMAGE['id']},
        )
        self.assert_is_on(host1=[256])
        self.act('SHELVED_OFFLOADED', shelve=None)
        self.assert_is_on()
        self.act('ACTIVE', unshelve=None)
        self.assert_is_on(**{self.host_of(self.server): [256]})

    def test_evacuation(self):
        self.take_down('host1')
        self._evacuate_server(self.server, expected_host='host2')
        self.act('ACTIVE', **{'os-start': None})
        self.bring_up('host1')
        self.assert_is_on(host2=[256])
