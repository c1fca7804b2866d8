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

"""Floating and affined guests on hosts that hold one kind each."""

from tests.functional import base


class HostIsolationTest(base.GuardTestCase):
    """The filter alone: Nova's weighers send every guest to host1."""

    GUARD = {'isolation': 'host', 'weight_multiplier': 0.0}

    def setUp(self):
        super().setUp()
        self.flags(ram_weight_multiplier=1000.0, group='filter_scheduler')
        self.start_host('host1', base.pages(65536, huge=1024))
        self.start_host('host2', base.pages(8192, huge=512))
        self.floating = self.flavor()
        self.affined = self.flavor(memory_mb=512, **base.PINNED, **base.HUGE)

    def test_floating_then_affined(self):
        self.assertEqual('host1', self.host_of(self.boot(self.floating)))
        self.assertEqual('host2', self.host_of(self.boot(self.affined)))

    def test_affined_then_floating(self):
        self.assertEqual('host1', self.host_of(self.boot(self.affined)))
        self.assertEqual('host2', self.host_of(self.boot(self.floating)))

    def test_without_isolation_they_would_share_a_host(self):
        self.flags(isolation='none', group='numa_guard')
        self.look()
        self.assertEqual('host1', self.host_of(self.boot(self.floating)))
        self.assertEqual('host1', self.host_of(self.boot(self.affined)))

    def test_no_host_is_left(self):
        self.boot(self.floating, host='host1')
        self.boot(self.floating, host='host2')
        refused = self.boot(self.affined, expected_state='ERROR')
        self.assertIn('No valid host', refused['fault']['message'])
        self.assertIn(
            f'NUMA guard removed 2 of 2 hosts for affined guest '
            f'{refused["id"]}: floating-present: 2',
            self.stdlog.logger.output,
        )

    def test_a_host_is_free_again_when_its_guests_are_gone(self):
        self.boot(self.affined)
        last = self.boot(self.floating)
        self._delete_server(last)
        self.boot(self.affined, host='host1')
        self.boot(self.affined, host='host2')

    def test_servers_of_one_request_keep_apart(self):
        """The first of a multi-create decides for the rest of it."""
        body = self._build_server(flavor_id=self.floating, networks='none')
        body.update(min_count=4, max_count=4)
        self.api.post_server({'server': body})
        for server in self.api.get_servers():
            self._wait_for_server_parameter(
                server, {'status': 'ACTIVE'}, max_retries=60
            )
        hosts = {self.host_of(server) for server in self.api.get_servers()}
        self.assertEqual(1, len(hosts))
        self.assertNotIn(self.host_of(self.boot(self.affined)), hosts)

    def test_rebuild_stays_on_a_host_that_became_mixed(self):
        server = self.boot(self.floating)
        self.flags(isolation='none', group='numa_guard')
        self.look()
        self.boot(self.affined, host=self.host_of(server))
        self.flags(isolation='host', group='numa_guard')
        self.look()
        self._rebuild_server(
            server, self.glance.auto_disk_config_enabled_image['id']
        )


class WarnModeTest(base.GuardTestCase):
    GUARD = {'isolation': 'host', 'isolation_mode': 'warn'}

    def test_nothing_is_refused_and_all_is_counted(self):
        self.start_host('host1', base.pages(8192, huge=512))
        self.boot(self.flavor())
        server = self.boot(
            self.flavor(memory_mb=512, **base.PINNED, **base.HUGE)
        )
        self.assertEqual('host1', self.host_of(server))
        self.assertIn(
            f'NUMA guard would have removed 1 of 1 hosts for affined guest '
            f'{server["id"]}: floating-present: 1',
            self.stdlog.logger.output,
        )


class NoIsolationTest(base.GuardTestCase):
    GUARD = {'isolation': 'none'}

    def test_mixing_is_allowed_but_like_is_preferred(self):
        for name in ('host1', 'host2'):
            self.start_host(name, base.pages(8192, huge=512))
        floating = self.flavor()
        affined = self.flavor(memory_mb=512, **base.PINNED, **base.HUGE)
        first = self.boot(floating)
        other = ({'host1', 'host2'} - {self.host_of(first)}).pop()
        self.assertEqual(other, self.host_of(self.boot(affined)))
        self.assertEqual(
            self.host_of(first), self.host_of(self.boot(floating))
        )
        mixed = self.boot(affined, host=self.host_of(first))
        self.assertEqual(self.host_of(first), self.host_of(mixed))

    def test_a_filter_that_has_nothing_to_do_says_so_at_start(self):
        self.assertIn(
            'NUMAGuardFilter is enabled, but [numa_guard] isolation is "none"',
            self.stdlog.logger.output,
        )
