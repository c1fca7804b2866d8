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
        self.assertEqual(base.NOVAS, self.numatune(server))
        server = self.migrate(server, base.FIRST)
        self.assertEqual(base.NOVAS, self.numatune(server))

        server = self.client.act(server.uuid, 'reboot', {'type': 'HARD'})
        self.assertEqual('ACTIVE', server.status, server.fault)
        self.assertEqual(base.FIRST, server.host)
        self.assertEqual(guarded, self.numatune(server))
