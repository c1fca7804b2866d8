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

"""More servers at once than there are pages for."""

import concurrent.futures

from tests.lab import base, shared
from tests.lab.stack import client, hugepages

SERVERS = 12
ROOM = 7
REFUSED = (
    f'Insufficient compute resources: huge pages of 2048 KiB on host NUMA '
    f'node 0: needed {shared.TINY}, available '
)
FAILED = ' Failed to start libvirt guest'


class ManyAtOnceTest(base.LabTestCase):
    """Nova believes that all of them fit, and an outsider has their pages."""

    def setUp(self) -> None:
        super().setUp()
        # Nova learns of it with the next audit, which is not waited for.
        self.outsider(leave=ROOM * shared.TINY + 2)

    def boot_all(self) -> list[client.Server]:
        with concurrent.futures.ThreadPoolExecutor(SERVERS) as pool:
            booted = [
                pool.submit(
                    self.boot,
                    self.lab.huge_tiny,
                    base.SECOND,
                    status=('ACTIVE', 'ERROR'),
                )
                for _ in range(SERVERS)
            ]
        return [each.result() for each in booted]

    def failed_in_qemu(self) -> int:
        return len(self.logged(base.SECOND, ' ERROR ', FAILED))

    def test_as_many_start_as_fit_and_the_rest_is_refused(self) -> None:
        servers = self.boot_all()

        active = [each for each in servers if each.status == 'ACTIVE']
        self.assertEqual(ROOM, len(active))
        self.assertEqual(0, self.failed_in_qemu())
        self.assertEqual(2, hugepages.free())
        for server in servers:
            events = self.refusals(server, base.PAGE_CHECK)
            if server in active:
                self.assertEqual([], events)
                continue
            (event,) = events
            self.assertTrue(event.details.startswith(REFUSED), event.details)
            self.assertEqual([], self.traces(server, base.SECOND))

    @base.run_with(base.SECOND, base.STOCK)
    def test_without_the_guard_the_rest_fails_in_qemu(self) -> None:
        servers = self.boot_all()

        statuses = [each.status for each in servers]
        self.assertEqual(ROOM, statuses.count('ACTIVE'))
        self.assertEqual(SERVERS - ROOM, self.failed_in_qemu())
