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

"""Random sequences of what operators and tenants do leave no host mixed.

With fixed seeds. ``NUMA_GUARD_SEQUENCES`` says how many; ``tox -e
functional-random`` runs 200.
"""

import os
import random

import ddt

from tests.functional import base, qemu

SEQUENCES = int(os.environ.get('NUMA_GUARD_SEQUENCES', 2))
# In one test: its log has to fit into what stestr keeps of it.
CHUNK = 10
STEPS = 8
HOSTS = tuple(f'host{number}' for number in range(4))


@ddt.ddt
class RandomTest(base.GuardTestCase):
    GUARD = {'isolation': 'host', 'isolation_on_moves': 'enforce'}

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=len(HOSTS), group='scheduler')
        self.flags(instances=-1, cores=-1, ram=-1, group='quota')
        self.useFixture(qemu.NoDisks())
        # A refusal is no reason to wait, and a failed build is none either.
        self.flags(
            consecutive_build_service_disable_threshold=0, group='compute'
        )
        for name in HOSTS:
            self.start_host(name, base.pages(8192, huge=2048))
        self.flavors = [
            self.flavor(memory_mb=512),
            self.flavor(memory_mb=1024),
            self.flavor(memory_mb=512, **base.HUGE),
            self.flavor(memory_mb=1024, **base.PINNED),
        ]
        self.servers = []
        self.down = None

    @ddt.data(*range(0, SEQUENCES, CHUNK))
    def test_sequences(self, first):
        for seed in range(first, min(first + CHUNK, SEQUENCES)):
            self.sequence(seed)

    def test_without_the_weigher(self):
        """Which keeps the kinds apart while there are few guests."""
        self.flags(weight_multiplier=0.0, group='numa_guard')
        for seed in range(3):
            self.sequence(seed)

    def sequence(self, seed):
        chance = random.Random(seed)
        done = []
        for _ in range(STEPS):
            step = chance.choice(
                (
                    self.create,
                    self.create,
                    self.create,
                    self.delete,
                    self.resize,
                    self.migrate,
                    self.shelve,
                    self.unshelve,
                    self.evacuate,
                )
            )
            done.append((step.__name__, step(chance)))
            mixed = [h for h in HOSTS if len(self.guests_on(h)) > 1]
            self.assertEqual([], mixed, (seed, done))
        self.gone(*self.servers)
        self.servers.clear()
        self.look()

    def choose(self, chance, *statuses):
        """A server with one of some statuses, or None."""
        found = [self.settled(server) for server in self.servers]
        self.servers = found
        return chance.choice(
            [s for s in found if s['status'] in statuses] or [None]
        )

    def create(self, chance):
        body = self._build_server(
            flavor_id=chance.choice(self.flavors), networks='none'
        )
        count = chance.randint(1, 3)
        body.update(min_count=count, max_count=count, name=f's{count}')
        known = {server['id'] for server in self.servers}
        self.api.post_server({'server': body})
        made = [s for s in self.api.get_servers() if s['id'] not in known]
        self.servers += [self.settled(s, 'ACTIVE', 'ERROR') for s in made]
        return [server['status'] for server in self.servers[-count:]]

    def delete(self, chance):
        server = self.choose(
            chance, 'ACTIVE', 'ERROR', 'SHELVED_OFFLOADED', 'VERIFY_RESIZE'
        )
        if server:
            self.servers.remove(server)
            self.gone(server)
        return server and server['status']

    def resize(self, chance):
        return self._resize(
            chance, {'resize': {'flavorRef': chance.choice(self.flavors)}}
        )

    def migrate(self, chance):
        return self._resize(chance, {'migrate': None})

    def _resize(self, chance, body):
        server = self.choose(chance, 'ACTIVE')
        if not server:
            return None
        response = self.api.post_server_action(
            server['id'], body, check_response_status=[202, 400]
        )
        if response:  # 400: to the flavor that it has
            return 'same flavor'
        server = self.settled(server, 'ACTIVE', 'VERIFY_RESIZE')
        if server['status'] == 'VERIFY_RESIZE':
            end = chance.choice(('confirmResize', 'revertResize', None))
            if end is None:  # a build may come in between
                self.create(chance)
                end = chance.choice(('confirmResize', 'revertResize'))
            self.api.post_server_action(server['id'], {end: None})
            self.settled(server, 'ACTIVE')
            return end
        return server['status']

    def shelve(self, chance):
        server = self.choose(chance, 'ACTIVE')
        if server:
            self._shelve_server(server)
        return bool(server)

    def unshelve(self, chance):
        server = self.choose(chance, 'SHELVED_OFFLOADED')
        if not server:
            return None
        self.api.post_server_action(server['id'], {'unshelve': None})
        return self.settled(server)['status']

    def evacuate(self, chance):
        """A host dies, its guests go elsewhere if they can, it comes back."""
        host = chance.choice(HOSTS)
        self.take_down(host)
        moved = []
        for server in self.servers:
            server = self.settled(server)
            if (
                server['OS-EXT-SRV-ATTR:host'] == host
                and server['status'] == 'ACTIVE'
            ):
                self.api.post_server_action(server['id'], {'evacuate': {}})
                server = self.settled(server)
                moved.append((server['status'], self.host_of(server)))
        self.bring_up(host)
        return moved
