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

"""The <numatune> that libvirt is given, guest by guest."""

from lxml import etree

from tests.functional import base


class NumatuneTest(base.GuardTestCase):
    GUARD = {'isolation': 'none'}

    def setUp(self):
        super().setUp()
        self.start_host(
            'host1',
            base.pages(8192, huge=1024),
            base.pages(8192, huge=1024),
        )

    def numatune(self, **specs):
        """Boot a server: its uuid, and the <numatune> of its XML."""
        server = self.boot(self.flavor(memory_mb=1024, vcpu=2, **specs))
        root = etree.fromstring(self.xml[server['id']])
        return server['id'], root.find('numatune')

    def memnodes(self, numatune):
        return [
            (m.get('cellid'), m.get('mode'), m.get('nodeset'))
            for m in numatune.iterfind('memnode')
        ]

    def test_floating(self):
        uuid, numatune = self.numatune()
        self.assertIsNone(numatune)
        self.assertEqual(self.stock_xml[uuid], self.xml[uuid])

    def test_huge_pages(self):
        """Case 8: <memory> for all of QEMU goes, each memnode stays."""
        uuid, numatune = self.numatune(**{**base.HUGE, 'hw:numa_nodes': '2'})
        self.assertIsNone(numatune.find('memory'))
        self.assertEqual(
            [('0', 'strict', '0'), ('1', 'strict', '1')],
            self.memnodes(numatune),
        )
        stock = etree.fromstring(self.stock_xml[uuid]).find('numatune')
        self.assertEqual('strict', stock.find('memory').get('mode'))
        self.assertEqual(self.memnodes(stock), self.memnodes(numatune))

    def test_small_pages(self):
        _, numatune = self.numatune(**base.SMALL)
        self.assertIsNone(numatune.find('memory'))
        [(_, mode, _)] = self.memnodes(numatune)
        self.assertEqual('preferred', mode)

    def test_pinned_with_small_pages(self):
        _, numatune = self.numatune(**base.PINNED)
        [(_, mode, _)] = self.memnodes(numatune)
        self.assertEqual('preferred', mode)

    def test_locked_memory_stays_strict(self):
        """All of it is allocated at the start, so that it cannot spill."""
        _, numatune = self.numatune(
            **{'hw:mem_page_size': 'small', 'hw:locked_memory': 'true'}
        )
        self.assertIsNone(numatune.find('memory'))
        [(_, mode, _)] = self.memnodes(numatune)
        self.assertEqual('strict', mode)

    def test_small_page_policies(self):
        for policy, expected in (
            ('strict', 'strict'),
            ('preferred', 'preferred'),
        ):
            self.flags(small_page_policy=policy, group='numa_guard')
            _, numatune = self.numatune(**base.SMALL)
            [(_, mode, _)] = self.memnodes(numatune)
            self.assertEqual(expected, mode)
        self.flags(small_page_policy='local', group='numa_guard')
        _, numatune = self.numatune(**base.SMALL)
        self.assertIsNone(numatune)

    def test_hard_reboot_writes_it_anew(self):
        self.flags(numatune='stock', group='numa_guard')
        server = self.boot(self.flavor(**base.HUGE))
        self.assertIn('<memory mode="strict"', self.xml[server['id']])
        self.flags(numatune='guard', group='numa_guard')
        self._reboot_server(server, hard=True)
        self.assertNotIn('<memory mode="strict"', self.xml[server['id']])

    def test_switched_off_is_stock_byte_for_byte(self):
        self.flags(numatune='stock', page_check='off', group='numa_guard')
        for specs in (
            {},
            base.SMALL,
            base.HUGE,
            base.PINNED,
            {**base.HUGE, **base.PINNED, 'hw:numa_nodes': '2'},
        ):
            uuid, _ = self.numatune(**specs)
            self.assertIs(self.stock_xml[uuid], self.xml[uuid])
            self._delete_server({'id': uuid})
