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

"""Show what the guard does: ``python -m tests.functional.demo``.

Nova's API, conductor, scheduler, placement and three computes run in this
process, with a fake libvirt; all that is printed was read from them.
"""

import logging
import re
import sys
import textwrap
import unittest

from lxml import etree

from tests.functional import base


def say(text, indent=3):
    """Print a paragraph, past the fixtures that capture output."""
    lines = textwrap.dedent(text).strip().splitlines()
    print(textwrap.indent('\n'.join(lines), ' ' * indent), file=sys.__stdout__)


def step(number, title):
    print(f'\n{number}. {title}', file=sys.__stdout__)


def numatune(xml):
    element = etree.fromstring(xml).find('numatune')
    if element is None:
        return '(no <numatune>)'
    element.tail = None
    return textwrap.dedent('  ' + etree.tostring(element, encoding='unicode'))


class Demo(base.GuardTestCase):
    """Two kinds of guest, three hosts, and a thief of huge pages."""

    def setUp(self):
        super().setUp()
        # the first host has the most memory, and is weighed first
        for number, mib in enumerate((16384, 12288, 8192), 1):
            self.start_host(f'host{number}', base.pages(mib, huge=512))
        # the services stop after this, and would log it below what we print
        self.addCleanup(logging.disable, logging.CRITICAL)

    def launch(self, name, flavor, expected_state='ACTIVE'):
        server = self.boot(flavor, expected_state=expected_state, name=name)
        where = self.host_of(server)
        say(
            f'server {name} is {server["status"]}'
            + (f' on {where}' if where else '')
        )
        return server

    def logged(self, pattern):
        """The last line of the services' logs that matches."""
        found = re.findall(pattern, self.stdlog.logger.output)
        self.assertTrue(found, pattern)
        return found[-1]

    def test_demo(self):
        print(
            textwrap.dedent("""
            Three compute hosts. Each has one NUMA cell with 512 huge pages
            of 2048 KiB. nova.conf has [numa_guard] isolation = host.
            """).strip(),
            file=sys.__stdout__,
        )
        floating = self.flavor()
        pinned = self.flavor(memory_mb=512, **base.PINNED, **base.HUGE)

        step(1, 'A floating server, which may take memory from anywhere')
        web = self.launch('web', floating)

        step(2, 'A pinned server with huge pages keeps away from it')
        nfv = self.launch('nfv', pinned)
        self.assertNotEqual(self.host_of(web), self.host_of(nfv))
        say(
            'nova-scheduler said:\n  '
            + self.logged('NUMA guard removed .*').replace(': ', ':\n  ', 1)
        )
        say('Nova alone would have written:')
        say(numatune(self.stock_xml[nfv['id']]), 5)
        say('The guard wrote, so that only the huge pages are bound:')
        say(numatune(self.xml[nfv['id']]), 5)
        self.assertIsNone(
            etree.fromstring(self.xml[nfv['id']]).find('./numatune/memory')
        )

        step(3, 'Another floating server joins the first, not an empty host')
        again = self.launch('web-2', floating)
        self.assertEqual(self.host_of(web), self.host_of(again))

        taken_from = self.host_of(nfv)
        step(4, f'A process outside Nova takes huge pages on {taken_from}')
        self.kernels[taken_from].set_pool(0, 2048, total=512, free=100)
        say('100 are left there; Nova still believes that 256 are')
        moved = self.launch('nfv-2', pinned)
        self.assertNotEqual(taken_from, self.host_of(moved))
        for host, details in self.events(moved):
            say(f'{host} had refused it, before any disk was made:')
            say('\n'.join(textwrap.wrap(details, 66)), 5)

        step(5, 'And on the last host as well')
        self.kernels[self.host_of(moved)].set_pool(0, 2048, 512, free=200)
        lost = self.launch('nfv-3', pinned, expected_state='ERROR')
        say('The tenant reads (openstack server show):')
        say('\n'.join(textwrap.wrap(lost['fault']['message'], 66)), 5)
        say('The operator reads (openstack server event show):')
        for host, details in self.events(lost):
            say('\n'.join(textwrap.wrap(f'{host}: {details}', 66)), 5)
        self.assertEqual(2, len(self.events(lost)))


def main():
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(Demo).run(result)
    for _, trace in result.errors + result.failures:
        print(trace, file=sys.__stdout__)
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == '__main__':
    sys.exit(main())
