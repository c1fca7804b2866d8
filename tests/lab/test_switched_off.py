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

"""The guard, switched off, is Nova."""

import re

from lxml import etree

from tests.lab import base
from tests.lab.stack import client


class SwitchedOffTest(base.LabTestCase):
    @base.run_with(base.FIRST, base.OFF)
    def test_domain_is_the_one_that_nova_writes(self) -> None:
        flavors = (
            self.lab.huge_pinned,
            self.lab.small_page,
            self.lab.floating,
        )
        ours = [self.boot_and_delete(flavor) for flavor in flavors]
        self.lab.stack.run_with({base.FIRST: base.STOCK})
        stock = [self.boot_and_delete(flavor) for flavor in flavors]

        for one, other in zip(ours, stock, strict=True):
            self.assertEqual(other, one)
        for text in ours[:2]:
            self.assertIn('<memory mode="strict" nodeset="0"/>', text)
            self.assertIn(
                '<memnode cellid="0" mode="strict" nodeset="0"/>', text
            )

    def boot_and_delete(self, flavor: str) -> str:
        """The XML of a server's guest, without what no two servers share."""
        server = self.boot(flavor, host=base.FIRST)
        text = anonymous(self.domain(server), server)
        self.client.delete(server.uuid)
        return text


def anonymous(domain: etree._Element, server: client.Server) -> str:
    """XML without names, UUIDs, and what a host numbers."""
    del domain.attrib['id']
    for element in domain.iterfind('.//{*}creationTime'):
        element.text = ''
    text = etree.tostring(domain, encoding='unicode')
    for unique, word in (
        (re.escape(server.uuid), 'UUID'),
        (re.escape(server.domain), 'NAME'),
        (r'/dev/pts/\d+', 'PTY'),
    ):
        text = re.sub(unique, word, text)
    return text
