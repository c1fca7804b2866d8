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

"""A host refuses what no scheduler has kept from it.

The records that it judges by, and the event, go through the conductor of the
cell, which does not know the API's database.
"""

from tests.lab import base, shared
from tests.lab.stack import client

EVENT = 'compute_numa_guard_isolation_check'

FOUND = (
    f'isolation: affined guest on host {base.FIRST}: floating guests present: '
    f'1, {2 * shared.PAGES} MiB'
)


class LateCheckTest(base.LabTestCase):
    """[numa_guard] isolation = host, in the nova.conf of the computes."""

    def test_server_that_is_forced_onto_the_host_is_refused(self) -> None:
        self.boot(self.lab.floating, host=base.FIRST, forced=True)

        huge = self.boot(
            self.lab.huge_pinned, base.FIRST, status='ERROR', forced=True
        )

        self.assertEqual('', huge.host)
        # There is no other host that Nova may try, so it says why.
        self.assertIn(FOUND, huge.fault)
        self.assertEqual({}, self.client.allocations(huge.uuid))
        self.assert_refused_by_the_first(huge)

    @base.run_with(
        base.SCHEDULER,
        {
            'filter_scheduler': {
                'enabled_filters': 'ComputeFilter,NUMATopologyFilter'
            },
            'numa_guard': {'weight_multiplier': 0},
        },
    )
    def test_server_goes_to_the_second_host(self) -> None:
        """The scheduler is one without the guard."""
        floating = self.boot(self.lab.floating)
        self.assertEqual(base.FIRST, floating.host)

        huge = self.boot(self.lab.huge_pinned)

        self.assertEqual(base.SECOND, huge.host)
        self.assertEqual([('memnode', 'strict', '0')], self.numatune(huge))
        self.assert_refused_by_the_first(huge)
        self.assertEqual([], self.warnings(base.SECOND))

    def assert_refused_by_the_first(self, server: client.Server) -> None:
        (event,) = self.refusals(server, EVENT)
        self.assertEqual(
            ('create', base.FIRST, 'Error', FOUND),
            (event.action, event.host, event.result, event.details),
        )
        # An audit may warn besides of what is there while it is refused.
        (line,) = self.logged(
            base.FIRST, ' WARNING nova_numa_guard.virt.refusal'
        )
        self.assertIn(f'{event.request_id} ', line)
        self.assertIn(
            f'[instance: {server.uuid}] Refused to start: {FOUND}', line
        )
        self.assertEqual([], self.traces(server, base.FIRST))
        # The floating server's success has set it to 0.
        self.assertEqual(0, self.node(base.FIRST).failed_builds)
