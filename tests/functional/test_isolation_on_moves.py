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

"""Availability beats purity when guests move, unless it is told not to."""

from tests.functional import base, qemu


class MovesCase(base.GuardTestCase):
    """Two hosts, one of each kind; the floating one has more memory free."""

    def setUp(self):
        super().setUp()
        self.useFixture(qemu.NoDisks())
        self.start_host('host1', base.pages(65536, huge=1024))
        self.start_host('host2', base.pages(32768, huge=1024))
        self.kinds = {
            'floating': self.flavor(),
            'affined': self.flavor(memory_mb=512, **base.HUGE),
        }
        self.floating = [
            self.boot(self.kinds['floating'], host='host1') for _ in range(2)
        ]
        self.affined = self.boot(self.kinds['affined'], host='host2')
        self.assertEqual({'floating'}, self.guests_on('host1'))
        self.assertEqual({'affined'}, self.guests_on('host2'))

    def warnings(self):
        return [
            line
            for line in self.stdlog.logger.output.splitlines()
            if 'WARNING [nova_numa_guard.' in line
        ]


class PreferTest(MovesCase):
    GUARD = {'isolation': 'host'}

    def test_a_host_dies_and_every_guest_comes_back(self):
        self.take_down('host1')
        for server in self.floating:
            self._evacuate_server(server, expected_host='host2')
        self.assertEqual({'floating', 'affined'}, self.guests_on('host2'))
        warnings = '\n'.join(self.warnings())
        # The second finds a host that is of its kind for the most part.
        self.assertIn(f'floating guest {self.floating[0]["id"]}: ', warnings)
        self.assertIn('no host of its kind is left', warnings)
        self.assertIn('it was evacuated and [numa_guard]', warnings)
        self.look()
        self.assertIn(
            'this host holds both kinds of guest, floating ones of 2048 MiB '
            'and affined ones of 512 MiB',
            '\n'.join(self.warnings()),
        )
        # It converges: host2 takes more of its dominant kind only, and
        # the minority goes where its kind is, or nothing.
        refused = self.boot(self.kinds['affined'], expected_state='ERROR')
        self.assertIn('No valid host', refused['fault']['message'])
        self.boot(self.kinds['floating'], host='host2')
        self.bring_up('host1')
        moved = self._migrate_server(self.affined)
        self.assertEqual('host1', moved['OS-EXT-SRV-ATTR:host'])
        self._confirm_resize(moved)
        self.look()
        self.assertEqual({'affined'}, self.guests_on('host1'))
        self.assertEqual({'floating'}, self.guests_on('host2'))

    def test_the_right_kind_of_host_comes_first(self):
        self.start_host('host3', base.pages(4096, huge=1024))
        third = self.boot(self.kinds['floating'], host='host3')
        self.assertEqual('host3', self.host_of(third))
        # host2 has more memory free; likes would be together by their weight
        # if that counted for more.
        self.flags(ram_weight_multiplier=1000.0, group='filter_scheduler')
        self.flags(weight_multiplier=0.01, group='numa_guard')
        self.take_down('host1')
        for server in self.floating:
            self._evacuate_server(server, expected_host='host3')
        self.assertEqual({'affined'}, self.guests_on('host2'))
        self.assertNotIn('no host of its kind', '\n'.join(self.warnings()))

    def test_a_cold_migration_mixes_where_there_is_no_other_host(self):
        moved = self._migrate_server(self.floating[0])
        self.assertEqual('host2', moved['OS-EXT-SRV-ATTR:host'])
        self.assertIn('no host of its kind', '\n'.join(self.warnings()))

    def test_a_later_build_sees_a_guest_that_migrates_in(self):
        self._migrate_server(self.affined)  # to host1, to be confirmed
        self.look()
        refused = self.force(
            self.kinds['affined'], 'host1', expected_state='ERROR'
        )
        self.assertEqual(
            [
                (
                    'host1',
                    'isolation: affined guest on host host1: mixed host, '
                    'mostly floating: floating 2048 MiB, affined 512 MiB',
                )
            ],
            self.events(refused, 'compute_numa_guard_isolation_check'),
        )


class EnforceTest(MovesCase):
    GUARD = {'isolation': 'host', 'isolation_on_moves': 'enforce'}

    def test_evacuation_is_refused_by_the_scheduler(self):
        self.take_down('host1')
        self._evacuate_server(
            self.floating[0],
            expected_state='ERROR',
            expected_migration_status='error',
        )
        self.assertEqual({'affined'}, self.guests_on('host2'))

    def test_cold_migration_is_refused(self):
        self.api.post_server_action(self.floating[0]['id'], {'migrate': None})
        self._wait_for_action_fail_completion(
            self.floating[0], 'migrate', 'conductor_migrate_server'
        )
        self.settled(self.floating[0], 'ACTIVE')
        self.assertEqual('host1', self.host_of(self.floating[0]))
        self.assertEqual([], self.warnings())
