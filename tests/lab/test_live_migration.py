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

from tests.lab import base, shared
from tests.lab.stack import client, processes

LEFT = shared.PAGES // 2


class LiveMigrationTest(base.LabTestCase):
    """The <numatune> is the destination's, and the kernel goes by it."""

    def test_a_huge_page_server(self) -> None:
        server = self.start_huge()
        server = self.migrate(server, base.SECOND)
        self.assert_huge(server, guarded=True)
        server = self.migrate(server, base.FIRST)
        self.assert_huge(server, guarded=True)

    def test_a_small_page_server(self) -> None:
        server = self.start_small()
        server = self.migrate(server, base.SECOND)
        self.assert_small(server, guarded=True)
        server = self.migrate(server, base.FIRST)
        self.assert_small(server, guarded=True)

    @base.run_with(base.SECOND, base.STOCK)
    def test_a_huge_page_server_to_stock_and_back(self) -> None:
        server = self.start_huge()
        server = self.migrate(server, base.SECOND)
        self.assert_huge(server, guarded=False)
        # Its source is Nova's, and so is the XML, until a hard reboot.
        server = self.migrate(server, base.FIRST)
        self.assert_huge(server, guarded=False)
        self.assert_huge(self.hard_reboot(server), guarded=True)

    @base.run_with(base.SECOND, base.STOCK)
    def test_a_small_page_server_to_stock_and_back(self) -> None:
        server = self.start_small()
        server = self.migrate(server, base.SECOND)
        self.assert_small(server, guarded=False)
        server = self.migrate(server, base.FIRST)
        self.assert_small(server, guarded=False)
        self.assert_small(self.hard_reboot(server), guarded=True)

    def test_a_destination_whose_pages_were_taken(self) -> None:
        """It is refused before QEMU is started there, and may come later."""
        server = self.start_huge(base.SECOND)
        pid = self.host(base.SECOND).qemu_pid(server.domain)
        let_go = self.outsider(leave=LEFT, host=base.FIRST)
        stays = self.move_to_first(server)
        self.assertEqual('ACTIVE', stays.status, stays.fault)
        self.assertEqual(base.SECOND, stays.host)
        self.assertEqual(pid, self.host(base.SECOND).qemu_pid(server.domain))
        self.assert_huge(stays, guarded=True)
        self.assertEqual([], self.traces(stays, base.FIRST))
        (event,) = self.refusals(stays, base.PAGE_CHECK)
        self.assertEqual(
            ('live-migration', base.FIRST), (event.action, event.host)
        )
        self.assertIn(
            f'needed {shared.PAGES}, available {LEFT}', event.details
        )
        self.assert_migrations(server, 'error')
        let_go()
        moved = self.move_to_first(server)
        self.assertEqual(base.FIRST, moved.host)
        self.assert_huge(moved, guarded=True)
        # The source has things to do when the server is active already.
        self.assert_migrations(server, 'completed', 'error')

    def move_to_first(self, server: client.Server) -> client.Server:
        return self.client.act(
            server.uuid,
            'os-migrateLive',
            {'host': base.FIRST, 'block_migration': 'auto'},
        )

    def assert_migrations(self, server: client.Server, *status: str) -> None:
        def found() -> list[str]:
            return sorted(self.client.migrations(server.uuid))

        processes.poll(lambda: found() == [*status], 60)
        self.assertEqual([*status], found())

    def start_huge(self, host: str = base.FIRST) -> client.Server:
        server = self.boot(self.lab.huge_pinned, host=host)
        self.assert_huge(server, guarded=True)
        return server

    def start_small(self) -> client.Server:
        server = self.boot(self.lab.small_page, host=base.FIRST)
        self.assert_small(server, guarded=True)
        return server

    def hard_reboot(self, server: client.Server) -> client.Server:
        server = self.client.act(server.uuid, 'reboot', {'type': 'HARD'})
        self.assertEqual('ACTIVE', server.status, server.fault)
        return server

    def assert_huge(self, server: client.Server, guarded: bool) -> None:
        expected = [('memnode', 'strict', '0')] if guarded else base.NOVAS
        self.assertEqual(expected, self.numatune(server))
        ram, others = self.ram(server, 2 * shared.PAGES)
        self.assertEqual('bind:0', ram.policy)
        self.assertEqual({0: shared.PAGES}, ram.pages)
        self.assertEqual({'default'}, others)

    def assert_small(self, server: client.Server, guarded: bool) -> None:
        expected = [('memnode', 'preferred', '0')] if guarded else base.NOVAS
        self.assertEqual(expected, self.numatune(server))
        ram, others = self.ram(server, self.lab.small_page_memory)
        self.assertEqual('prefer:0' if guarded else 'bind:0', ram.policy)
        self.assertEqual({'default'}, others)
