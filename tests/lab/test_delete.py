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

"""What a server holds, and what is left of it."""

from tests.lab import base, shared
from tests.lab.stack import hugepages


class DeleteTest(base.LabTestCase):
    """Every test checks that nothing is left; this one, that there was."""

    def test_delete_gives_everything_back(self) -> None:
        before = hugepages.free()
        server = self.boot(self.lab.huge_pinned)

        self.assertEqual(before - shared.PAGES, hugepages.free())
        self.assertEqual([server.domain], self.host(server.host).domains())
        (held,) = self.client.allocations(server.uuid).values()
        self.assertEqual(2 * shared.PAGES, held['resources']['MEMORY_MB'])
        self.assertEqual(1, held['resources']['PCPU'])

        self.client.delete(server.uuid)

        self.assert_nothing_left()
        self.assertEqual(before, hugepages.free())
