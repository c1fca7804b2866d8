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

"""Nova is told of the pages that a host has, whoever took them."""

from nova import objects
from nova.tests.functional.libvirt import base as libvirt_base

from nova_numa_guard import report
from tests.functional import base, qemu

POOL = (0, 2048)


class AccountingCase(base.GuardTestCase):
    """Two hosts of 512 huge pages; host1 has more memory, and comes first."""

    GUARD = {'isolation': 'none'}

    def setUp(self):
        super().setUp()
        self.useFixture(qemu.NoDisks())
        self.start_host('host1', base.pages(16384, huge=512))
        self.start_host('host2', base.pages(8192, huge=512))
        self.huge = self.flavor(memory_mb=512, **base.HUGE)  # 256 pages

    def pool(self, host, free, total=512):
        """Set what the kernel of a host has, and would have free of guests."""
        self.kernels[host].set_pool(0, 2048, total=total, free=free)

    def assert_arrives(self, host, flavor=None):
        """Boot a server, which no host refuses, and the scheduler sends."""
        server = self.boot(flavor or self.huge)
        self.assertEqual(host, self.host_of(server))
        self.assert_never_refused(server)
        return server

    def assert_never_refused(self, *servers):
        for server in servers:
            self.assertEqual([], self.events(server))
        for words in ('Refused to start', 'rescheduled', 'Re-scheduled'):
            self.assertNotIn(words, self.stdlog.logger.output)

    def assert_untouched(self, server, host='host1'):
        """It is where it was, and the guard has had no say in that."""
        self.assert_stays(server, host)
        self.assert_never_refused(server)

    def assert_stays(self, server, host='host1'):
        """It is where it was, and runs as the same domain."""
        found = self.settled(server, 'ACTIVE')
        self.assertEqual(host, found['OS-EXT-SRV-ATTR:host'])
        self.assertEqual([server['id']], self.domains(host))
        self.assertEqual([], self.domains('host2'))

    def domains(self, host):
        connection = self.computes[host].driver._host.get_connection()
        return [each.UUIDString() for each in connection.listAllDomains(1)]

    def mempages(self, host):
        """(total, reserved) of the huge pages, as the scheduler reads it."""
        node = objects.ComputeNode.get_by_host_and_nodename(
            self.admin_context, host, host
        )
        topology = objects.NUMATopology.obj_from_db_obj(node.numa_topology)
        [page] = [
            page for page in topology.cells[0].mempages if page.size_kb == 2048
        ]
        return page.total, page.reserved

    def figure(self, host):
        [found] = [
            each
            for each in self.computes[host].driver.reporter.truth.figures
            if (each.node, each.page_size) == POOL
        ]
        return found

    def failed(self, server, name):
        """Wait until an action of a server has failed."""
        self._wait_for_assert(
            lambda: self.assertEqual(
                'Error',
                {
                    action['action']: action['message']
                    for action in self.api.get_instance_actions(server['id'])
                }.get(name),
            ),
            max_retries=60,
        )


class OutsidersTest(AccountingCase):
    def test_1543149_pages_that_nova_was_not_told_of(self):
        """Case 6: OVS-DPDK takes them, and gives them back."""
        self.pool('host1', 100)
        self.look()
        self.assert_arrives('host2')
        self.assertEqual((512, 412), self.mempages('host1'))
        self.pool('host1', 512)
        self.look()
        self.assertEqual((512, 0), self.mempages('host1'))
        # More than host2 has left.
        self.assert_arrives('host1', self.flavor(memory_mb=514, **base.HUGE))

    def test_another_process_is_named_as_unaccounted(self):
        """Case 28: CNF testbed 172."""
        server = self.assert_arrives('host1')
        self.pool('host1', 256)
        self.look()
        figure = self.figure('host1')
        self.assertEqual((256, 256), (figure.claimed, figure.unaccounted))
        self.assertEqual((512, 256), self.mempages('host1'))
        self.assert_arrives('host2')
        self.assert_never_refused(server)

    def test_pages_that_the_kernel_leaked(self):
        """Case 38: the guest has gone, and they do not come back."""
        server = self.assert_arrives('host1')
        self.followed['host1'].keep(server)
        self.look()
        self.assertEqual((512, 0), self.mempages('host1'))
        self.gone(server)
        self.look()
        figure = self.figure('host1')
        self.assertEqual((0, 256), (figure.claimed, figure.unaccounted))
        self.assertEqual((512, 256), self.mempages('host1'))
        self.assert_arrives('host2', self.flavor(memory_mb=514, **base.HUGE))
        self.assert_arrives('host1')

    def test_a_servers_own_pages_are_not_counted_twice(self):
        first = self.assert_arrives('host1')
        self.look()
        # The other one fits exactly.
        second = self.assert_arrives('host1')
        self.look()
        self.assertEqual((512, 0), self.mempages('host1'))
        self.assert_arrives('host2')
        self._stop_server(first)
        self.look()
        # It may be started again, so that its place is not given away.
        self.assertEqual((512, 0), self.mempages('host1'))
        self.assert_arrives('host2')
        self._start_server(first)
        self.assert_never_refused(first, second)

    def test_what_is_configured_counts_where_others_hold_less(self):
        self.flags(reserved_huge_pages=['node:0,size:2048,count:300'])
        self.start_host('host3', base.pages(65536, huge=512))
        self.assertEqual((512, 300), self.mempages('host3'))
        self.pool('host3', 412)
        self.look()
        self.assertEqual((512, 300), self.mempages('host3'))
        self.pool('host3', 112)
        self.look()
        self.assertEqual((512, 400), self.mempages('host3'))

    def test_it_is_switched_off(self):
        self.flags(accounting=False, group='numa_guard')
        self.pool('host1', 100)
        self.look()
        self.assertEqual((512, 0), self.mempages('host1'))


class LivePoolsTest(AccountingCase):
    """nr_hugepages is changed while nova-compute runs."""

    def test_a_pool_shrinks_and_grows_without_a_restart(self):
        self.pool('host1', 64, total=64)
        self.look()
        self.assertEqual((64, 0), self.mempages('host1'))
        self.assert_arrives('host2')
        # More than either host had when it was started.
        self.pool('host1', 1024, total=1024)
        self.look()
        self.assert_arrives('host1', self.flavor(memory_mb=1536, **base.HUGE))

    def test_a_pool_that_is_given_up_is_no_error(self):
        self.pool('host1', 0, total=0)
        self.pool('host2', 0, total=0)
        self.look()
        server = self.boot(self.huge, expected_state='ERROR')
        self.assertIn('No valid host', server['fault']['message'])
        self.pool('host1', 256, total=256)
        self.look()
        self.assert_arrives('host1')

    def test_the_report_has_the_small_pages_of_now(self):
        def small_memory():
            node = objects.ComputeNode.get_by_host_and_nodename(
                self.admin_context, 'host1', 'host1'
            )
            return report.decode(node.stats['numa_guard']).small_memory

        self.assertEqual(16384, small_memory())
        self.pool('host1', 1024, total=1024)
        self.look()
        self.assertEqual(16384 - 1024, small_memory())


class MovesTest(libvirt_base.LibvirtMigrationMixin, AccountingCase):
    """Refused by Nova's own filter or claim, before anything has moved."""

    def setUp(self):
        super().setUp()
        self.server = self.assert_arrives('host1')
        self.pool('host2', 100)
        self.look()

    def test_cold_migration(self):
        self.api.post_server_action(self.server['id'], {'migrate': None})
        self.failed(self.server, 'migrate')
        self.assert_untouched(self.server)

    def test_resize(self):
        self.api.post_server_action(
            self.server['id'],
            {'resize': {'flavorRef': self.flavor(memory_mb=768, **base.HUGE)}},
        )
        self.failed(self.server, 'resize')
        self.assert_untouched(self.server)

    def test_live_migration(self):
        self.api.post_server_action(
            self.server['id'],
            {'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
        )
        self._wait_for_migration_status(self.server, ['error'])
        self.assert_untouched(self.server)

    def test_evacuation(self):
        self.take_down('host1')
        self.api.post_server_action(self.server['id'], {'evacuate': {}})
        self.failed(self.server, 'evacuate')
        self.assertEqual([], self.domains('host2'))
        self.assert_never_refused(self.server)

    def test_moves_go_to_a_host_that_has_the_pages(self):
        # By its memory it comes last.
        self.flags(weight_multiplier=0, group='numa_guard')
        self.start_host('host3', base.pages(4096, huge=512))
        moved = self._migrate_server(self.server)
        self.assertEqual('host3', moved['OS-EXT-SRV-ATTR:host'])
        self.assert_never_refused(self.server)

    def test_a_move_that_no_filter_judges_is_refused(self):
        """An administrator forces it, which older API versions allow.

        It is the page check that refuses this one: it is asked before the
        claim is made, whose turn it would be.
        """
        self.api.microversion = '2.67'
        self.api.post_server_action(
            self.server['id'],
            {
                'os-migrateLive': {
                    'host': 'host2',
                    'block_migration': 'auto',
                    'force': True,
                }
            },
        )
        self._wait_for_migration_status(self.server, ['error', 'failed'])
        self.api.microversion = 'latest'
        self.assert_stays(self.server)
        [(host, details)] = self.events(self.server)
        self.assertEqual('host2', host)
        self.assertIn('needed 256, available 100', details)

    def test_a_build_that_no_filter_judges_is_refused_by_the_claim(self):
        server = self.force(self.huge, 'host2', expected_state='ERROR')
        self.assertEqual([], self.domains('host2'))
        self.assertIn('NUMA topology', server['fault']['message'])
        self.assert_never_refused(server)


class DeliveryTest(AccountingCase):
    """A refusal is in the scheduler's hands before the next audit."""

    def refused(self, host):
        """The pools that the scheduler reads of."""
        node = objects.ComputeNode.get_by_host_and_nodename(
            self.admin_context, host, host
        )
        record = report.decode(node.stats['numa_guard'])
        return [(each.node, each.page_size) for each in record.refused]

    def test_a_build_takes_it_along(self):
        """With the claim that Nova gives up, and without an audit."""
        self.pool('host1', 100)
        server = self.boot(self.huge)
        self.assertEqual('host2', self.host_of(server))
        self.assertEqual([POOL], self.refused('host1'))
        self.assertEqual((512, 0), self.mempages('host1'))

    def test_a_start_has_the_host_audited(self):
        """It has no claim to give up."""
        server = self.assert_arrives('host1')
        self._stop_server(server)
        self.pool('host1', 100)
        self.api.post_server_action(server['id'], {'os-start': None})
        self._wait_for_assert(
            lambda: self.assertEqual([POOL], self.refused('host1')),
            max_retries=60,
        )
        # And by the audit Nova knows of the pages.
        self.assertEqual((512, 412), self.mempages('host1'))
