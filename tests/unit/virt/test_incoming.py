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

"""What this host says to guests that are to migrate here, live."""

from nova import exception, objects
from nova.compute import vm_states

from nova_numa_guard import guests
from nova_numa_guard.virt import incoming
from tests.unit import base, samples
from tests.unit.virt import hosts

LACKS = 'huge pages of 2048 KiB on host NUMA node 0: needed 32, available 16'


class Claim:
    """nova.compute.claims.MoveClaim."""

    def __init__(self, guest):
        self.claimed_numa_topology = getattr(guest, 'numa_topology', None)
        self.migration = objects.Migration(id=7)
        self.aborted = 0

    def abort(self):
        self.aborted += 1


class IncomingTestCase(base.TestCase):
    """A host with 64 pages a node, of which 16 are free on node 0."""

    def setUp(self):
        super().setUp()
        self.host = self.useFixture(hosts.Host())
        self.host.set(CONFIRM=0.02)
        self.machine, self.desk = self.host.machine, self.host.desk
        self.machine.set_pool(0, 2048, total=64, free=16)
        self.machine.set_pool(1, 2048, total=64, free=64)
        self.machine.set_bound(2048)
        self.incoming = incoming.Incoming(self.host.check)
        self.context = samples.context()
        self.short = self.guest()
        self.fits = self.guest(node=1)

    def guest(self, *mib, node=0, page_size=2048):
        return samples.instance(
            *(
                samples.guest_cell(each, page_size=page_size, node=node + i)
                for i, each in enumerate(mib or (64,))
            ),
            vm_state=vm_states.ACTIVE,
        )

    def refused(self, *args):
        exc = self.assertRaises(exception.MigrationPreCheckError, *args)
        # Nova's own class, for others do not cross RPC.
        self.assertIs(exception.MigrationPreCheckError, type(exc))
        self.assertEqual((), self.desk.promises)
        self.assertEqual((), self.host.check.arrivals.expected)
        return str(exc)

    def break_kernel(self):
        """Whoever reads is told of."""
        (self.machine.root / 'proc/self/mounts').unlink()


class CheckTest(IncomingTestCase):
    """Its cells are claimed."""

    def check(self, guest, claim=None):
        self.claim = claim or Claim(guest)
        self.incoming.check(self.context, guest, self.claim, 'this')
        self.assertEqual((), self.desk.promises)
        self.assertEqual(0, self.claim.aborted)

    def test_enough(self):
        """And from then on it is expected."""
        self.check(self.fits)
        [expected] = self.host.check.arrivals.expected
        self.assertEqual((guests.PageNeed(1, 2048, 32),), expected.needs)

    def test_a_shortage_goes_to_another_host(self):
        """Nova does not give up the claim for us."""
        self.assertIn(LACKS, self.refused(self.check, self.short))
        self.assertEqual(1, self.claim.aborted)

    def test_the_pages_are_those_of_the_claim(self):
        self.check(self.short, Claim(self.fits))
        self.host.records.migrations.clear()
        self.refused(self.check, self.fits, Claim(self.short))

    def test_in_warn_mode_it_may_come(self):
        self.flags(page_check='warn')
        self.check(self.short)
        self.assertEqual(1, len(self.log.at('WARNING')))

    def test_who_is_no_matter_of_the_page_check(self):
        self.break_kernel()
        self.check(samples.instance())
        self.check(samples.instance(samples.guest_cell()))
        self.flags(page_check='off')
        # Neither is looked at.
        self.incoming.check(self.context, 'guest', 'claim', 'this')
        self.incoming.rule_out(self.context, 'guest', 'this')
        self.assertEqual([], self.log.records)
        self.assertEqual((), self.host.check.arrivals.expected)


class RuleOutTest(IncomingTestCase):
    """Which cells it will have is not known yet."""

    def rule_out(self, guest):
        self.incoming.rule_out(self.context, guest, 'this')
        self.assertEqual([], self.log.records)
        self.assertEqual((), self.host.check.arrivals.expected)

    def test_a_node_that_has_the_pages(self):
        """Whichever it had where it comes from."""
        for node in (0, 1, 7):
            self.rule_out(self.guest(node=node))
        self.rule_out(self.guest(128))

    def test_no_node_has_them(self):
        """The figures are those of the node that has the most."""
        text = self.refused(self.rule_out, self.guest(130))
        self.assertIn('node 1: needed 65, available 64', text)
        self.assertNotIn('node 0', text)
        [event] = self.host.events.written
        self.assertIn('needed 65, available 64', event['details'])

    def test_one_of_two_cells_finds_none(self):
        self.assertIn(
            'needed 65', self.refused(self.rule_out, self.guest(64, 130))
        )

    def test_all_cells_together_are_judged_later(self):
        self.rule_out(self.guest(128, 128))

    def test_a_host_without_such_pages(self):
        """Nova's claim knows that, and says so."""
        self.rule_out(self.guest(1024, page_size=1048576))

    def test_what_may_be_there_in_a_moment(self):
        self.machine.set_bound(2048, reserved=1)
        self.rule_out(self.guest(130))

    def test_who_is_no_matter_of_the_page_check(self):
        self.break_kernel()
        self.rule_out(samples.instance())
        self.rule_out(samples.instance(samples.guest_cell()))
        for mode in ('warn', 'off'):
            self.flags(page_check=mode)
            self.rule_out(self.guest(130))

    def test_a_kernel_that_cannot_be_read(self):
        self.break_kernel()
        self.incoming.rule_out(self.context, self.guest(130), 'this')
        self.assertEqual(1, len(self.log.at('WARNING')))
