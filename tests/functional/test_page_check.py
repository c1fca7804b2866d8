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

"""Huge pages that Nova believes in, and the kernel does not have."""

from nova import context, objects

from nova_numa_guard import domain, pools
from nova_numa_guard.virt import needs
from tests.functional import base, pages


class PageCheckTest(pages.PagesTestCase):
    HOSTS = ('host1', 'host2')

    def refusals(self):
        return self.stdlog.logger.output.count('Refused to start')

    def test_enough_pages(self):
        server = self.boot(self.huge)
        self.assertEqual('host1', self.host_of(server))
        self.assertEqual([], self.events(server))

    def test_the_last_page_may_be_taken(self):
        self.leave(256)
        self.assertEqual('host1', self.host_of(self.boot(self.huge)))

    def test_stolen_pages_send_the_build_to_the_next_host(self):
        self.leave(100)
        server = self.boot(self.huge)
        self.assertEqual('host2', self.host_of(server))
        self.assertEqual(
            [
                (
                    'host1',
                    f'Insufficient compute resources: {self.NEEDED}.',
                )
            ],
            self.events(server),
        )
        self.assertEqual(1, self.refusals())
        self.assertEqual(1, len(self.xml))
        connection = self.computes['host1'].driver._host.get_connection()
        self.assertEqual([], connection.listAllDomains(0))
        self.assertEqual(
            {self.compute_rp_uuids['host2']},
            set(self._get_allocations_by_server_uuid(server['id'])),
        )

    def test_pages_stolen_on_every_host(self):
        for host in ('host1', 'host2'):
            self.leave(100, host)
        server = self.boot(self.huge, expected_state='ERROR')
        self.assertEqual(
            {'host1', 'host2'}, {host for host, _ in self.events(server)}
        )
        for _, details in self.events(server):
            self.assertIn(self.NEEDED, details)
        self.assertNotIn('huge pages', server['fault']['message'])
        self.assertEqual({}, self.xml)
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )

    def test_refused_on_the_node_that_nova_chose(self):
        """Case 18: pages enough on two nodes together, on neither alone."""
        self.start_host(
            'host3',
            base.pages(4096, huge=1024),
            base.pages(4096, huge=1024),
        )
        self.kernels['host3'].set_pool(0, 2048, total=1024, free=973)
        self.kernels['host3'].set_pool(1, 2048, total=1024, free=972)
        flavor = self.flavor(memory_mb=2048, **base.HUGE)
        server = self.boot(flavor, expected_state='ERROR', host='host3')
        [(host, details)] = self.events(server)
        self.assertEqual('host3', host)
        self.assertRegex(
            details,
            'on host NUMA node (0: needed 1024, available 973|'
            '1: needed 1024, available 972)',
        )

    def test_unreadable_files_are_no_shortage(self):
        """Junk where a number should be: stock behaviour and a warning."""
        path = (
            self.kernels['host1'].root
            / 'sys/devices/system/node/node0/hugepages/hugepages-2048kB'
            / 'free_hugepages'
        )
        path.write_text('many\n')
        server = self.boot(self.huge)
        self.assertEqual('host1', self.host_of(server))
        self.assertIn(
            f'Pages are not checked, and guests may fail to start: '
            f"cannot read {path}: 'many' is not a number",
            self.stdlog.logger.output,
        )

    def test_evacuation_is_refused_and_loses_nothing(self):
        server = self.boot(self.huge)
        self.take_down('host1')
        self.leave(100, 'host2')
        self._evacuate_server(
            server,
            expected_state='ACTIVE',
            expected_host='host1',
            expected_migration_status='failed',
        )
        self.assertIn(
            ('host2', f'Insufficient compute resources: {self.NEEDED}.'),
            self.events(server),
        )
        self.assertEqual(
            {self.compute_rp_uuids['host1']},
            set(self._get_allocations_by_server_uuid(server['id'])),
        )

    def test_evacuation_to_a_host_with_pages(self):
        server = self.boot(self.huge)
        self.take_down('host1')
        self._evacuate_server(server, expected_host='host2')
        self.assertEqual([], self.events(server))

    def test_unshelve_is_refused(self):
        self.take_down('host2')
        server = self._shelve_server(self.boot(self.huge))
        self.leave(100)
        self.api.post_server_action(server['id'], {'unshelve': None})
        self._wait_for_assert(
            lambda: self.assertEqual(
                [('host1', f'Insufficient compute resources: {self.NEEDED}.')],
                self.events(server),
            ),
            max_retries=60,
        )
        server = self._wait_for_server_parameter(
            server,
            {
                'status': 'SHELVED_OFFLOADED',
                'OS-EXT-STS:task_state': None,
            },
        )
        self.leave(256)
        self._unshelve_server(server)


class SwitchesTest(pages.PagesTestCase):
    def setUp(self):
        super().setUp()
        self.leave(100)

    def test_warn(self):
        self.flags(page_check='warn', group='numa_guard')
        server = self.boot(self.huge, expected_state='ERROR')
        self.assert_tried(server, '[numa_guard] page_check is "warn"')

    def test_off(self):
        self.flags(page_check='off', group='numa_guard')
        server = self.boot(self.huge, expected_state='ERROR')
        log = self.log()
        self.assertNotIn('huge pages of', log)
        self.assertIn(self.NO_MEMORY, log)
        self.assertEqual([], self.events(server))

    def test_overcommit(self):
        """The kernel may add surplus pages, so this is no shortage."""
        self.kernels['host1'].set_bound(2048, overcommit=512)
        self.boot(self.huge)
        self.assertIn('nr_overcommit_hugepages', self.stdlog.logger.output)


class NeedsTest(base.GuardTestCase):
    """What the check asks for is what the guest's XML asks for."""

    def test_topology_and_xml_agree(self):
        self.start_host(
            'host1',
            base.pages(8192, huge=1024, giant=2),
            base.pages(8192, huge=1024, giant=2),
        )
        for specs in (
            base.SMALL,
            base.HUGE,
            {**base.HUGE, 'hw:numa_nodes': '2'},
            {'hw:mem_page_size': '1048576', 'hw:numa_nodes': '2'},
            {'hw:mem_page_size': 'any'},
            {'hw:mem_page_size': 'small'},
        ):
            flavor = self.flavor(memory_mb=2048, vcpu=2, **specs)
            server = self.boot(flavor)
            instance = objects.Instance.get_by_uuid(
                context.get_admin_context(), server['id']
            )
            self.assertEqual(
                needs.pages(instance, instance.numa_topology),
                domain.claim(
                    domain.read(self.xml[server['id']]), pools.SMALL_PAGE
                )[0],
                specs,
            )
            self._delete_server(server)
