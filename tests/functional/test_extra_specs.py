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

"""The flavor extra specs of the guard."""

from lxml import etree
from nova.tests.functional.api import client

from tests.functional import base


class ExtraSpecsTest(base.GuardTestCase):
    GUARD = {'isolation': 'host'}

    def memnodes(self, **specs):
        """The memory modes of a guest's cells, and the global one."""
        flavor = self.flavor(memory_mb=512, **specs)
        server = self.boot(flavor)
        numatune = etree.fromstring(self.xml[server['id']]).find('numatune')
        if numatune is None:
            return []
        return [(part.tag, part.get('mode')) for part in numatune]

    def test_the_flavor_counts_more_than_the_option(self):
        self.flags(small_page_policy='strict', group='numa_guard')
        self.start_host('host1', base.pages(8192, huge=1024))
        for policy, wanted in (
            ('preferred', [('memnode', 'preferred')]),
            ('auto', [('memnode', 'preferred')]),
            ('strict', [('memnode', 'strict')]),
            ('local', []),
        ):
            self.assertEqual(
                wanted,
                self.memnodes(
                    **base.SMALL, **{'numa_guard:mem_policy': policy}
                ),
            )
        self.assertEqual([('memnode', 'strict')], self.memnodes(**base.SMALL))
        # Huge pages are bound whatever it says.
        self.assertEqual(
            [('memnode', 'strict')],
            self.memnodes(**base.HUGE, **{'numa_guard:mem_policy': 'local'}),
        )

    def test_a_bad_key_or_value_is_a_400(self):
        for key, value in (
            ('numa_guard:mem_policy', 'interleave'),
            ('numa_guard:isolation', 'host'),
            ('numa_guard:mempolicy', 'strict'),
        ):
            exc = self.assertRaises(
                client.OpenStackApiException, self.flavor, **{key: value}
            )
            self.assertEqual(400, exc.response.status_code)
            self.assertIn('Validation failed', str(exc))

    def test_exempt_guests_join_any_host_and_keep_none_from_one(self):
        self.start_host('host1', base.pages(8192, huge=1024))
        exempt = {'numa_guard:isolation': 'exempt'}
        floating, affined = self.flavor(), self.flavor(**base.HUGE)
        for specs in (exempt, {**exempt, **base.HUGE}):
            self.boot(self.flavor(memory_mb=512, **specs))
        self.look()
        servers = [self.boot(floating)]
        servers.append(self.boot(self.flavor(**exempt, **base.HUGE)))
        self.look()
        self.boot(affined, expected_state='ERROR')
        self.gone(*servers)
        self.boot(affined)
