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

"""Where the memory of a guest may come from, asked of the kernel."""

from tests.lab import base, shared


class NUMATuneTest(base.LabTestCase):
    """[numa_guard] numatune = guard."""

    def test_huge_pages_are_bound_and_nothing_else_is(self) -> None:
        server = self.boot(self.lab.huge_pinned)

        self.assertEqual([('memnode', 'strict', '0')], self.numatune(server))
        ram, others = self.ram(server, 2 * shared.PAGES)
        self.assertEqual('bind:0', ram.policy)
        self.assertTrue(ram.huge)
        self.assertIn('/qemu_back_mem.ram-node0', ram.file)
        self.assertEqual({0: shared.PAGES}, ram.pages)
        self.assertEqual({'default'}, others)

    def test_small_pages_are_preferred_from_their_node(self) -> None:
        server = self.boot(self.lab.small_page)

        self.assertEqual(
            [('memnode', 'preferred', '0')], self.numatune(server)
        )
        ram, others = self.ram(server, self.lab.small_page_memory)
        self.assertEqual('prefer:0', ram.policy)
        self.assertFalse(ram.huge)
        self.assertEqual({'default'}, others)

    def test_floating_server_is_left_alone(self) -> None:
        server = self.boot(self.lab.floating)

        self.assertEqual([], self.numatune(server))
        self.assertEqual(
            {'default'}, {found.policy for found in self.mappings(server)}
        )

    def test_in_place_rebuild_on_a_full_host(self) -> None:
        """The pages that it needs are those that it had."""
        server = self.boot(self.lab.huge_pinned)
        self.assertEqual(base.FIRST, server.host)

        again = self.client.act(
            server.uuid, 'rebuild', {'imageRef': self.lab.image}
        )

        self.assertEqual('ACTIVE', again.status, again.fault)
        self.assertEqual([('memnode', 'strict', '0')], self.numatune(again))
        self.assertEqual([], self.logged(base.FIRST, 'Starting although'))
