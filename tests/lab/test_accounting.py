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

"""What Nova is told of a host's huge pages, whoever has them."""

from tests.lab import base, shared
from tests.lab.stack import hugepages

NO_HOST = 'No valid host was found.'

# Without it tests do not go by what was on the host when it looked last.
WITH_ACCOUNTING = base.run_with(
    base.SECOND, {'numa_guard': {'accounting': True}}
)


class AccountingTest(base.LabTestCase):
    """A host that cannot hold a server is not picked in the first place."""

    def setUp(self) -> None:
        super().setUp()
        # With all options there is no other reason for this host.
        self.assertEqual(base.SECOND, self.boot_and_delete())

    def boot_and_delete(self) -> str:
        server = self.boot(
            self.lab.huge_tiny, base.SECOND, status=('ACTIVE', 'ERROR')
        )
        if server.status == 'ERROR':
            self.assertIn(NO_HOST, server.fault)
            # Nova has asked no host.
            self.assertEqual([], self.refusals(server, base.PAGE_CHECK))
            self.assertEqual('', server.host)
        self.client.delete(server.uuid)
        return server.host

    @WITH_ACCOUNTING
    def test_an_outsider_comes_and_goes(self) -> None:
        let_go = self.outsider(leave=shared.TINY - 1)
        self.node(base.SECOND)
        self.assertEqual('', self.boot_and_delete())

        let_go()
        self.node(base.SECOND)
        self.assertEqual(base.SECOND, self.boot_and_delete())

    @WITH_ACCOUNTING
    def test_the_pool_is_resized(self) -> None:
        gone = hugepages.total() - (shared.TINY - 1)
        self.addCleanup(self.node, base.SECOND)
        self.addCleanup(hugepages.add, gone)
        hugepages.remove(gone)
        self.node(base.SECOND)
        self.assertEqual('', self.boot_and_delete())

        hugepages.add(1)
        self.addCleanup(hugepages.remove, 1)
        self.node(base.SECOND)
        self.assertEqual(base.SECOND, self.boot_and_delete())
