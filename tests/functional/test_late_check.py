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

"""Two schedulers choose the same empty host for opposite kinds at once."""

import collections
import itertools
import threading

import fixtures

from tests.functional import base

EVENT = 'compute_numa_guard_isolation_check'
SPAWN = {
    'check': 'nova_numa_guard.virt.driver.NUMAGuardDriver.spawn',
    'land': 'nova.virt.libvirt.driver.LibvirtDriver.spawn',
}
ROUNDS = 50


def interleavings():
    """The orders in which two guests can be claimed, checked, and land.

    Upper case is the older one: C its claim, K its check, L its landing.
    """
    for places in itertools.combinations(range(6), 3):
        older, younger = iter('CKL'), iter('ckl')
        yield ''.join(
            next(older) if place in places else next(younger)
            for place in range(6)
        )


class Gates(fixtures.Fixture):
    """Hold each guest's first start before its check, and after it."""

    def _setUp(self):
        self.came = collections.defaultdict(threading.Event)
        self.open = collections.defaultdict(threading.Event)
        for gate, name in SPAWN.items():
            module, _, attribute = name.rpartition('.')
            self.useFixture(
                fixtures.MonkeyPatch(
                    name, self._gated(gate, self._get(module, attribute))
                )
            )

    @staticmethod
    def _get(path, attribute):
        module, _, name = path.rpartition('.')
        holder = getattr(__import__(module, fromlist=[name]), name)
        return getattr(holder, attribute)

    def _gated(self, gate, spawn):
        def gated(driver, context, instance, *args, **kwargs):
            key = gate, instance.uuid
            if not self.came[key].is_set():
                self.came[key].set()
                self.open[key].wait(60)
            return spawn(driver, context, instance, *args, **kwargs)

        return gated


class RaceTest(base.GuardTestCase):
    """The filter is not asked: it saw the host empty, twice."""

    GUARD = {'isolation': 'host', 'weight_multiplier': 0.0}
    FILTER = False

    def setUp(self):
        super().setUp()
        self.flags(
            group='filter_scheduler',
            ram_weight_multiplier=1000.0,
            build_failure_weight_multiplier=0.0,
        )
        self.gates = self.useFixture(Gates())
        self.start_host('host1', base.pages(65536, huge=1024))
        self.start_host('host2', base.pages(8192, huge=512))
        self.kinds = {
            'floating': self.flavor(),
            'affined': self.flavor(memory_mb=512, **base.HUGE),
        }

    def race(self, steps, older, younger):
        """Start two guests in a given order of steps.

        :returns: the servers, and the kind of the one that was checked first
        """
        kinds = {'C': older, 'c': younger}
        servers, first = {}, None
        for step in steps:
            who = 'C' if step.isupper() else 'c'
            if step in 'Cc':
                servers[who] = self.api.post_server(
                    {
                        'server': self._build_server(
                            flavor_id=self.kinds[kinds[who]], networks='none'
                        )
                    }
                )
                self.wait('check', servers[who])
            elif step in 'Kk':
                self.gates.open['check', servers[who]['id']].set()
                first = first or kinds[who]
                # Admitted it waits for its landing, here or on another host.
                self.wait('land', servers[who])
            else:
                self.gates.open['land', servers[who]['id']].set()
                servers[who] = self.settled(servers[who], 'ACTIVE')
        return servers['C'], servers['c'], first

    def wait(self, gate, server):
        self.assertTrue(
            self.gates.came[gate, server['id']].wait(60), (gate, server)
        )

    def check(self, rounds):
        orders = itertools.cycle(
            itertools.product(
                interleavings(),
                (('floating', 'affined'), ('affined', 'floating')),
            )
        )
        for steps, kinds in itertools.islice(orders, *rounds):
            older, younger, first = self.race(steps, *kinds)
            self.assertEqual({first}, self.guests_on('host1'), steps)
            self.assertEqual(
                set(kinds) - {first}, self.guests_on('host2'), steps
            )
            refused = [s for s in (older, younger) if self.events(s, EVENT)]
            self.assertEqual(1, len(refused), steps)
            [(host, why)] = self.events(refused[0], EVENT)
            self.assertEqual('host1', host)
            self.assertIn(f'{first} guests present: 1, ', why)
            self.gone(older, younger)
        self.assertEqual('0', self.failed_builds('host1'))

    def failed_builds(self, host):
        stats = self.computes[host].manager.rt.stats
        return str(stats[host].get('failed_builds', 0))

    def test_exactly_one_stays_1(self):
        self.check((0, 10))

    def test_exactly_one_stays_2(self):
        self.check((10, 20))

    def test_exactly_one_stays_3(self):
        self.check((20, 30))

    def test_exactly_one_stays_4(self):
        self.check((30, 40))

    def test_exactly_one_stays_5(self):
        self.check((40, ROUNDS))


class LateCheckTest(base.GuardTestCase):
    """What arrives, and what is there already; the filter is not asked."""

    GUARD = {
        'isolation': 'host',
        'isolation_on_moves': 'enforce',
        'weight_multiplier': 0.0,
    }
    FILTER = False

    def setUp(self):
        super().setUp()
        self.start_host('host1', base.pages(8192, huge=512))
        self.floating = self.boot(self.flavor())
        self.affined_flavor = self.flavor(memory_mb=512, **base.HUGE)

    def mix(self, host='host1'):
        """Put a guest of the other kind on a host."""
        self.flags(isolation='none', group='numa_guard')
        server = self.boot(self.affined_flavor, host=host)
        self.flags(isolation='host', group='numa_guard')
        return server

    def allocations(self, server):
        return self._get_allocations_by_server_uuid(server['id'])

    def warnings(self):
        return [
            line.partition('WARNING ')[2]
            for line in self.stdlog.logger.output.splitlines()
            if 'WARNING [nova_numa_guard.virt.late_check]' in line
        ]

    def test_restarts_and_rebuilds_are_never_refused(self):
        affined = self.mix()
        for server in (self.floating, affined):
            self._reboot_server(server, hard=True)
            self._stop_server(server)
            self._start_server(server)
            image = self.glance.auto_disk_config_enabled_image['id']
            self._rebuild_server(server, image)
            self.assertEqual([], self.events(server, EVENT))
        self.assertEqual([], self.warnings())

    def test_a_server_that_is_unshelved_stays_shelved(self):
        self._shelve_server(self.floating)
        affined = self.boot(self.affined_flavor)
        self.api.post_server_action(self.floating['id'], {'unshelve': None})
        self._wait_for_action_fail_completion(
            self.floating, 'unshelve', 'compute_unshelve_instance'
        )
        server = self.settled(self.floating, 'SHELVED_OFFLOADED')
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )
        why = 'isolation: floating guest on host host1: affined guests present'
        [(host, details)] = self.events(server, EVENT)
        self.assertEqual('host1', host)
        self.assertIn(why, details)
        # Once the place is free it comes back.
        self.gone(affined)
        self.api.post_server_action(server['id'], {'unshelve': None})
        self.assertEqual('host1', self.host_of(self.settled(server, 'ACTIVE')))

    def test_a_server_that_is_evacuated_stays_where_it_was(self):
        """The other host may be cut off only, and the guest runs."""
        self.start_host('host2', base.pages(8192, huge=512))
        self.boot(self.affined_flavor, host='host2')
        self.attach(self.floating, self.cinder.IMAGE_BACKED_VOL)
        volumes = self.cinder.attachment_ids_for_instance(self.floating['id'])
        self.take_down('host1')
        self._evacuate_server(
            self.floating,
            expected_state='ACTIVE',
            expected_migration_status='failed',
        )
        self.assertEqual('host1', self.host_of(self.floating))
        self.assertEqual(
            volumes,
            self.cinder.attachment_ids_for_instance(self.floating['id']),
        )
        self.assertEqual(
            [self.compute_rp_uuids['host1']],
            list(self.allocations(self.floating)),
        )
        [(host, _)] = self.events(self.floating, EVENT)
        self.assertEqual('host2', host)
        self.assertEqual({'affined'}, self.guests_on('host2'))

    def test_warn_mode_starts_it_and_says_so(self):
        self.flags(isolation_mode='warn', group='numa_guard')
        server = self.boot(self.affined_flavor)
        self.assertEqual('host1', self.host_of(server))
        [warning] = self.warnings()
        self.assertIn(
            'Starting although it breaks the isolation, because [numa_guard] '
            'isolation_mode is "warn": affined guest on host host1: floating '
            'guests present: 1, 1024 MiB',
            warning,
        )

    def test_no_other_host_is_left(self):
        server = self.boot(self.affined_flavor, expected_state='ERROR')
        self.assertEqual(
            {}, self._get_allocations_by_server_uuid(server['id'])
        )
        self.assertEqual(
            [
                (
                    'host1',
                    'isolation: affined guest on host host1: floating guests '
                    'present: 1, 1024 MiB',
                )
            ],
            self.events(server, EVENT),
        )
        self.assertIn('Exceeded maximum number', server['fault']['message'])

    def test_a_server_that_was_forced_keeps_no_allocation(self):
        """Nova may try no other host for it, and leaves it in ERROR."""
        server = self.force(
            self.affined_flavor, 'host1', expected_state='ERROR'
        )
        self.assertEqual({}, self.allocations(server))
        [(host, _)] = self.events(server, EVENT)
        self.assertEqual('host1', host)
