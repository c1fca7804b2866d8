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

"""What an operator is told of a guest."""

from lxml import etree

from nova_numa_guard import binding, guests, overview, tuning
from tests.unit import base, samples

SMALL, HUGE = samples.SMALL, samples.HUGE


def of(xml):
    return overview.of(etree.fromstring(xml), SMALL)


class OverviewTest(base.TestCase):
    def test_pinned(self):
        self.assertEqual(
            4, of(samples.domain_xml((0, 1, 4), (1, 1, 4))).pinned
        )

    def test_pinned_to_several(self):
        """Nova pins each vCPU of an affined guest to all CPUs of a cell."""
        text = samples.domain_xml((0, 1024, HUGE))
        text = text.replace('cpuset="8"', 'cpuset="8-11"')
        self.assertEqual(1, of(text).pinned)
        self.assertEqual(0, of(samples.LIBVIRT_XML).pinned)

    def test_cells(self):
        guest = of(samples.LIBVIRT_XML)
        self.assertEqual({0: frozenset({0}), 1: frozenset({1})}, guest.cells)
        self.assertEqual((SMALL, HUGE), guest.page_sizes)
        self.assertEqual(guests.Kind.AFFINED, guest.kind)
        self.assertEqual(('strict',), guest.modes)

    def test_a_cell_that_is_not_bound(self):
        local = tuning.apply(samples.LIBVIRT_XML, tuning.SmallPagePolicy.LOCAL)
        self.assertEqual({0: frozenset({0}), 1: frozenset()}, of(local).cells)

    def test_a_domain_that_nova_did_not_make_is_not_to_be_rebooted(self):
        guest = of(samples.LIBVIRT_XML)
        self.assertEqual(binding.Numatune.STOCK, guest.numatune)
        self.assertFalse(guest.is_novas)
        self.assertFalse(guest.needs_reboot)

    def test_who_needs_a_reboot(self):
        stock = samples.nova_guest((0, 1024, HUGE))
        self.assertTrue(of(stock).needs_reboot)
        guard = tuning.apply(stock, tuning.SmallPagePolicy.AUTO)
        self.assertFalse(of(guard).needs_reboot)

    def test_what_the_guard_would_not_change(self):
        """A hard reboot of these changes nothing."""
        stock = samples.nova_guest((0, 1024, HUGE))
        confidential = stock.replace(
            '</devices>', '</devices><launchSecurity type="sev-snp"/>'
        )
        self.assertNotEqual(stock, confidential)
        self.assertFalse(of(confidential).needs_reboot)
        other = stock.replace(
            '<memory mode="strict"', '<memory mode="preferred"'
        )
        self.assertNotEqual(stock, other)
        self.assertFalse(of(other).needs_reboot)
