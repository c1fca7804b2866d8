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

"""nova-compute is killed while servers start on it."""

import time

from tests.lab import base
from tests.lab.stack import hugepages, plan, processes

# libvirt goes on with a start when who asked for it is gone. If Nova deletes
# the server meanwhile, its guest may start nevertheless. Nova looks for such
# ones, but not as often as a test can wait for.
REAPS: plan.Options = {
    'DEFAULT': {
        'running_deleted_instance_action': 'reap',
        'running_deleted_instance_poll_interval': 10,
        'running_deleted_instance_timeout': 0,
    }
}
POINTS = 12
# Of a start, which takes about two seconds.
STEP = 0.25


class KilledTest(base.LabTestCase):
    """What was promised goes with it; what was taken is found again."""

    def setUp(self) -> None:
        super().setUp()
        self.free = hugepages.free()

    def kill_and_start_again(self, point: int) -> None:
        self.lab.stack.processes.kill(base.SECOND)
        before = self.client.heard_of(base.SECOND)
        if point % 4 == 3:
            self.host(base.SECOND).restart_libvirtd()
        self.lab.stack.run_with({base.SECOND: REAPS})
        # Else Nova takes the host for down in the end, and deletes servers
        # without it.
        self.assertTrue(
            processes.poll(
                lambda: self.client.heard_of(base.SECOND) != before, 30
            )
        )

    def assert_pages_are_back(self, point: int) -> None:
        processes.poll(lambda: hugepages.free() == self.free, 60)
        self.assertEqual(self.free, hugepages.free(), f'point {point}')

    @base.run_with(base.SECOND, REAPS)
    def test_no_page_is_lost_and_the_next_server_starts(self) -> None:
        seen = set()
        for point in range(POINTS):
            uuid = self.ask_for(self.lab.huge_pinned, base.SECOND)
            time.sleep(STEP * point)
            self.kill_and_start_again(point)
            processes.poll(
                lambda uuid=uuid: self.client.server(uuid).status != 'BUILD',
                20,
            )
            seen.add(self.client.server(uuid).status)
            self.client.delete(uuid)
            self.assert_pages_are_back(point)

        # The first was killed before its guest was there, the last after.
        self.assertIn('ACTIVE', seen)
        self.assertNotEqual({'ACTIVE'}, seen)
        server = self.boot(self.lab.huge_pinned, base.SECOND)
        self.assertEqual(base.SECOND, server.host)
        self.assertEqual([], self.refusals(server, base.PAGE_CHECK))
