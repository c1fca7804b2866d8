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

"""Floating and affined guests on two hosts."""

from tests.lab import base
from tests.lab.stack import client, plan

WARN: plan.Options = {'numa_guard': {'isolation_mode': 'warn'}}


class TwoHostsTest(base.LabTestCase):
    """[numa_guard] isolation = host."""

    def test_huge_page_server_avoids_the_host_of_a_floating_one(self) -> None:
        floating = self.boot(self.lab.floating)
        huge = self.boot(self.lab.huge_pinned)

        self.assertEqual([base.FIRST, base.SECOND], [floating.host, huge.host])
        self.assert_explained(
            huge,
            'removed 1 of 2 hosts for affined guest: floating-present: 1',
        )
        self.assertEqual(floating.host, self.boot(self.lab.floating).host)
        self.assertEqual(huge.host, self.boot(self.lab.huge_shared).host)

    def test_floating_server_avoids_the_host_of_a_huge_page_one(self) -> None:
        huge = self.boot(self.lab.huge_pinned)
        floating = self.boot(self.lab.floating)

        self.assertEqual([base.FIRST, base.SECOND], [huge.host, floating.host])
        self.assert_explained(
            floating,
            'removed 1 of 2 hosts for floating guest: affined-present: 1',
        )
        self.assertEqual(floating.host, self.boot(self.lab.floating).host)
        # Another one with huge pages would find none left on that host.
        self.assertEqual(huge.host, self.boot(self.lab.small_page).host)

    def test_like_joins_like_before_an_empty_host_is_used(self) -> None:
        huge = self.boot(self.lab.huge_pinned, host=base.SECOND)

        self.assertEqual(huge.host, self.boot(self.lab.huge_shared).host)

    def test_affined_server_finds_no_host_between_floating_ones(self) -> None:
        self.boot(self.lab.floating, host=base.FIRST)
        self.boot(self.lab.floating, host=base.SECOND)

        server = self.boot(self.lab.huge_pinned, status='ERROR')

        self.assertEqual('', server.host)
        self.assertIn('No valid host was found.', server.fault)
        self.assert_explained(
            server,
            'removed 2 of 2 hosts for affined guest: floating-present: 2',
        )

    def test_floating_server_finds_no_host_between_affined_ones(self) -> None:
        self.boot(self.lab.small_page, host=base.FIRST)
        self.boot(self.lab.huge_pinned, host=base.SECOND)

        server = self.boot(self.lab.floating, status='ERROR')

        self.assertEqual('', server.host)
        self.assertIn('No valid host was found.', server.fault)
        self.assert_explained(
            server,
            'removed 2 of 2 hosts for floating guest: affined-present: 2',
        )

    @base.run_with(base.FIRST, WARN)
    def test_warn_mode_lets_both_kinds_share_a_host(self) -> None:
        self.reload_scheduler(WARN)
        self.boot(self.lab.floating, host=base.FIRST)

        huge = self.boot(self.lab.huge_pinned, host=base.FIRST)

        self.assert_explained(
            huge,
            'would have removed 1 of 1 hosts for affined guest: '
            'floating-present: 1',
        )
        (line,) = self.logged(base.FIRST, ' WARNING ', 'Starting although')
        self.assertIn(
            f'[instance: {huge.uuid}] Starting although it breaks the '
            'isolation, because [numa_guard] isolation_mode is "warn": ',
            line,
        )

    @base.run_with(
        base.SCHEDULER,
        {'numa_guard': {'isolation': 'none', 'weight_multiplier': 0}},
    )
    @base.run_with(base.FIRST, {'numa_guard': {'isolation': 'none'}})
    @base.run_with(base.SECOND, {'numa_guard': {'isolation': 'none'}})
    def test_without_isolation_both_kinds_share_a_host(self) -> None:
        """What the other tests are about does not happen by itself."""
        floating = self.boot(self.lab.floating)
        huge = self.boot(self.lab.huge_pinned)

        self.assertEqual([base.FIRST, base.FIRST], [floating.host, huge.host])
        self.assertEqual(
            1, len(self.logged(base.SCHEDULER, ' WARNING ', 'isolation is'))
        )

    def assert_explained(self, server: client.Server, text: str) -> None:
        """The scheduler says it once, where it is seen without debugging."""
        kind, why = text.split(' guest: ')
        (line,) = self.logged(base.SCHEDULER, ' NUMA guard ', server.uuid)
        self.assertIn(' INFO nova_numa_guard.', line)
        self.assertTrue(
            line.endswith(f'] NUMA guard {kind} guest {server.uuid}: {why}'),
            line,
        )
