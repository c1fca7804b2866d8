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

"""Live migration of servers whose <numatune> is the guard's."""

from tests.lab import base
from tests.lab.stack import client, processes

STOCK = [('memory', 'strict', '0'), ('memnode', 'strict', '0')]


class LiveMigrationTest(base.LabTestCase):
    def test_huge_page_server(self) -> None:
        self.check(self.lab.huge_pinned, 'strict')

    def test_small_page_server(self) -> None:
        self.check(self.lab.small_page, 'preferred')

    @base.run_with(base.SECOND, base.STOCK)
    def test_to_a_host_without_the_guard_and_back(self) -> None:
        self.check(self.lab.huge_pinned, 'strict')

    def check(self, flavor: str, mode: str) -> None:
        """There, and back again, and then a hard reboot."""
        guarded = [('memnode', mode, '0')]
        server = self.boot(flavor, host=base.FIRST)
        self.assertEqual(guarded, self.numatune(server))

        # From a guest with our <numatune>, and then from one with Nova's.
        server = self.migrate(server, base.SECOND)
        self.assertEqual(STOCK, self.numatune(server))
        server = self.migrate(server, base.FIRST)
        self.assertEqual(STOCK, self.numatune(server))

        server = self.client.act(server.uuid, 'reboot', {'type': 'HARD'})
        self.assertEqual('ACTIVE', server.status, server.fault)
        self.assertEqual(base.FIRST, server.host)
        self.assertEqual(guarded, self.numatune(server))

    def migrate(self, server: client.Server, host: str) -> client.Server:
        """Live-migrate a server; Nova must be content with it."""
        source = server.host
        done = ['completed'] * (1 + len(self.client.migrations(server.uuid)))
        server = self.client.act(
            server.uuid,
            'os-migrateLive',
            {'host': host, 'block_migration': 'auto'},
        )
        self.assertEqual('ACTIVE', server.status, server.fault)
        self.assertEqual(host, server.host)
        # The source has things to do when the server is active already.
        processes.poll(lambda: self.client.migrations(server.uuid) == done, 60)
        self.assertEqual(done, self.client.migrations(server.uuid))
        self.assertEqual([server.domain], self.host(host).domains())
        self.assertEqual([], self.host(source).domains())
        return server
