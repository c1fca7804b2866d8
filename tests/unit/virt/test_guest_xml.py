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

"""How hosts write the XML of their guests, by options and by reports."""

import dataclasses

import fixtures
from nova import exception, objects

from nova_numa_guard import confinement, report, tuning, writing
from nova_numa_guard.virt import guest_xml
from tests.unit import base, samples

Policy = tuning.SmallPagePolicy


class WrittenTest(base.TestCase):
    def test_here(self):
        self.assertEqual(writing.Writing(Policy.AUTO), guest_xml.here(None))
        self.flags(small_page_policy='local')
        self.assertEqual(writing.Writing(Policy.LOCAL), guest_xml.here(None))
        there = confinement.Confinement(frozenset({2}), frozenset({8, 9}))
        self.flags(numatune='stock')
        self.assertEqual(
            writing.Writing(floating=there), guest_xml.here(there)
        )

    def there(self, stats=None, failure=None):
        asked = []

        def get(cls, context, host):
            asked.append((context.is_admin, host))
            if failure:
                raise failure
            return objects.ComputeNode(stats=stats)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.objects.ComputeNode'
                '.get_first_node_by_host_for_old_compat',
                get,
            )
        )
        found = guest_xml.there('there', samples.instance())
        self.assertEqual([(True, 'there')], asked)
        return found

    def test_there(self):
        for written in (
            writing.Writing(Policy.STRICT),
            writing.Writing(
                None, confinement.Confinement(frozenset({2}), frozenset({8}))
            ),
            writing.STOCK,
        ):
            record = dataclasses.replace(samples.record(), written=written)
            stats = {report.STATS_KEY: report.encode(record)}
            self.assertEqual(written, self.there(stats))
        self.assert_logged('WARNING')

    def test_without_the_guard(self):
        for stats in (None, {}, {'uptime': '7'}):
            self.assertEqual(writing.STOCK, self.there(stats))
        self.assert_logged('WARNING')

    def test_what_cannot_be_read(self):
        for values in (
            {'stats': {report.STATS_KEY: 'junk'}},
            {'failure': exception.ComputeHostNotFound(host='there')},
        ):
            self.log.records.clear()
            self.assertEqual(writing.STOCK, self.there(**values))
            [line] = self.log.at('WARNING')
            self.assertIn('host there', line)
