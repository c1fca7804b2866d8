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

"""How a domain's memory is bound, by the look of its XML."""

from nova_numa_guard import binding, confinement, domain, tuning
from tests.unit import base, samples

CELLS = ((0, 4096, samples.HUGE), (16, 8192, None))


class OfTest(base.TestCase):
    def of(self, xml):
        found = binding.of(domain.read(xml), samples.SMALL)
        return found.numatune.value, found.small_nodes

    def test_as_nova_writes_it(self):
        self.assertEqual(('stock', {16}), self.of(samples.domain_xml(*CELLS)))

    def test_as_the_guard_writes_it(self):
        for policy in tuning.SmallPagePolicy:
            xml = tuning.apply(samples.domain_xml(*CELLS), policy)
            self.assertEqual('guard', self.of(xml)[0], policy)

    def test_a_floating_guest(self):
        xml = samples.domain_xml()
        self.assertEqual(('none', set()), self.of(xml))

    def test_a_confined_guest(self):
        confined = confinement.apply(
            samples.domain_xml(),
            confinement.Confinement(
                nodes=frozenset({0}),
                cpus=frozenset({0}),
                mode=confinement.Mode.RESTRICTIVE,
            ),
        )
        self.assertEqual(('confined', set()), self.of(confined))

    def test_cells_that_are_on_several_nodes(self):
        """Nova writes none."""
        xml = samples.domain_text(
            backing='<hugepages><page size="2048" nodeset="0"/></hugepages>',
            numatune='<memnode cellid="0" nodeset="0-1"/>'
            '<memnode cellid="1" nodeset="2-3"/>',
            cells='<cell id="0" memory="4096"/><cell id="1" memory="4096"/>',
        )
        self.assertEqual(('guard', {2, 3}), self.of(xml))
