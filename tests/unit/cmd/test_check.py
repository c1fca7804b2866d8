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

"""The command ``domain check``."""

import re

from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import fixture
from tests.unit import samples
from tests.unit.cmd import base, runner, trees
from tests.unit.status import hosts

HUGE = samples.HUGE
MIB = 1024  # KiB


class CheckTestCase(base.TestCase):
    def check(self, xml, *words):
        """Exit code, rows, and the verdict."""
        result = runner.run(
            *('domain', 'check', '-', '-f', 'json', *words), stdin=xml
        )
        self.assertIn(result.code, (0, 1), result.stderr)
        for row in result.json:
            self.assertEqual(
                ['Node', 'Page size', 'Needed', 'Available', 'Short'],
                list(row),
            )
        return (
            result.code,
            [tuple(row.values()) for row in result.json],
            result.stderr.strip(),
        )


class TreesTest(CheckTestCase):
    """Against other machines' files."""

    def test_one_node_without_pages(self):
        tree = trees.recorded('x86-1-node.txt', self.folder)
        self.assertEqual(
            (
                1,
                [(0, 1048576, 2, 0, 2)],
                'The domain does not fit: huge pages of 1048576 KiB on host '
                'NUMA node 0: needed 2, available 0.',
            ),
            self.check(
                samples.domain_xml((0, 2048 * MIB, 1048576)), '--sysfs', tree
            ),
        )

    def test_two_nodes(self):
        """The kernel keeps three pages, on whichever node they are."""
        tree = trees.recorded('x86-2-nodes.txt', self.folder)
        fits = samples.domain_xml((0, 60 * MIB, HUGE), (1, 26 * MIB, HUGE))
        short = samples.domain_xml((0, 60 * MIB, HUGE), (1, 28 * MIB, HUGE))
        self.assertEqual(
            (
                0,
                [(0, HUGE, 30, 30, 0), (1, HUGE, 13, 13, 0)],
                'The domain fits: it would start here.',
            ),
            self.check(fits, '--sysfs', tree),
        )
        code, rows, verdict = self.check(short, '--sysfs', tree)
        self.assertEqual([(0, HUGE, 30, 30, 0), (1, HUGE, 14, 13, 1)], rows)
        # That machine has nr_overcommit_hugepages.
        self.assertEqual(0, code)
        self.assertIn('only if the kernel adds pages to the pools', verdict)

    def test_eight_nodes(self):
        tree = trees.recorded('x86-8-nodes.txt', self.folder)
        file = 'kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages'
        (tree / file).write_text('0\n')
        code, rows, _ = self.check(
            samples.domain_xml((7, 16 * MIB, HUGE), (3, 2 * MIB, HUGE)),
            *('--sysfs', tree),
        )
        self.assertEqual(1, code)
        self.assertEqual([(3, HUGE, 1, 0, 1), (7, HUGE, 8, 8, 0)], rows)

    def test_big_pages(self):
        machine = self.useFixture(trees.BigPages())
        code, rows, _ = self.check(
            samples.domain_xml(
                (0, 13 * 512 * MIB, 524288), (1, 4 << 20, None)
            ),
            *('--sysfs', machine.tree),
        )
        self.assertEqual(1, code)
        self.assertEqual(
            [
                (0, 524288, 13, 12, 1),
                (1, 64, 65536, (30 << 14) + 24576, 0),
            ],
            rows,
        )

    def test_sparse_nodes(self):
        machine = self.useFixture(trees.Sparse())
        code, rows, verdict = self.check(
            samples.domain_xml((8, 40 * MIB, HUGE), (1, 2 * MIB, HUGE)),
            *('--sysfs', machine.tree),
        )
        self.assertEqual([(1, HUGE, 1, 0, 1), (8, HUGE, 20, 20, 0)], rows)
        self.assertEqual(1, code)
        self.assertIn('on host NUMA node 1: needed 1, available 0', verdict)

    def test_small_pages_of_a_node_that_there_is_not(self):
        machine = self.useFixture(trees.Sparse())
        code, rows, verdict = self.check(
            samples.domain_xml((1, MIB, None)), '--sysfs', machine.tree
        )
        small = samples.SMALL
        self.assertEqual([(1, small, MIB // small, 0, MIB // small)], rows)
        self.assertEqual(1, code)
        self.assertIn(f'small pages of {small} KiB', verdict)

    def test_small_pages_that_may_come_from_anywhere(self):
        """The guard's XML does not bind them; Nova's own does."""
        machine = self.useFixture(trees.Sparse())
        stock = samples.domain_xml((0, 1 << 30, None))
        self.assertEqual(1, self.check(stock, '--sysfs', machine.tree)[0])
        self.assertEqual(
            (0, [], 'The domain fits: it would start here.'),
            self.check(hosts.guarded(stock), '--sysfs', machine.tree),
        )

    def test_pages_of_any_node(self):
        """A domain without cells takes them from wherever they are."""
        machine = self.useFixture(trees.Sparse())
        xml = (
            "<domain type='kvm'><memory unit='MiB'>{}</memory>"
            "<memoryBacking><hugepages><page size='2' unit='MiB'/>"
            '</hugepages></memoryBacking></domain>'
        )
        self.assertEqual(
            (0, [(None, HUGE, 120, 120, 0)]),
            self.check(xml.format(240), '--sysfs', machine.tree)[:2],
        )
        code, rows, verdict = self.check(
            xml.format(241), '--sysfs', machine.tree
        )
        self.assertEqual((1, [(None, HUGE, 121, 120, 1)]), (code, rows))
        self.assertIn('on any host NUMA node: needed 121', verdict)

    def test_a_reserve(self):
        machine = self.useFixture(trees.Sparse())
        xml = samples.domain_xml((0, 180 * MIB, HUGE))
        reserve = ['--reserved', 'node:0,size:2048,count:11']
        words = ['--sysfs', machine.tree]
        self.assertEqual(0, self.check(xml, *words)[0])
        self.assertEqual(
            (1, [(0, HUGE, 90, 89, 1)]), self.check(xml, *words, *reserve)[:2]
        )

    def test_a_table(self):
        machine = self.useFixture(trees.Sparse())
        file = self.file('a.xml', samples.domain_xml((0, 4 * MIB, HUGE)))
        result = runner.run('domain', 'check', file, '--sysfs', machine.tree)
        self.assertEqual(0, result.code)
        cells = [
            tuple(map(str.strip, line.strip('|').split('|')))
            for line in result.stdout.splitlines()
            if line.startswith('|')
        ]
        self.assertEqual(('0', '2048', '2', '100', '0'), cells[1])


class GuestsTest(CheckTestCase):
    """Beside guests that run, of libvirt's own test driver."""

    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(hosts.Libvirt())
        self.kernel = self.useFixture(fixture.KernelFixture())
        self.kernel.set_pool(0, HUGE, total=40, free=8)
        self.kernel.set_bound(HUGE)
        # It has 32 pages in use.
        self.guest = self.libvirt.guest(hosts.HUGE)
        self.words = ['--uri', base.URI, '--sysfs', self.kernel.root / 'sys']

    def test_beside_it(self):
        xml = samples.domain_xml((0, 18 * MIB, HUGE))
        self.assertEqual(
            (1, [(0, HUGE, 9, 8, 1)]), self.check(xml, *self.words)[:2]
        )

    def test_instead_of_it(self):
        xml = samples.domain_xml((0, 80 * MIB, HUGE))
        words = [*self.words, '--exclude-uuid', self.guest.UUIDString()]
        self.assertEqual(
            (0, [(0, HUGE, 40, 40, 0)]), self.check(xml, *words)[:2]
        )

    def test_its_own_next_start(self):
        """As after a hard reboot: its pages are free by then."""
        self.assertEqual(
            (0, [(0, HUGE, 32, 40, 0)]),
            self.check(self.guest.XMLDesc(), *self.words)[:2],
        )

    def test_instead_of_nobody(self):
        file = self.file('a.xml', samples.domain_xml((0, MIB, HUGE)))
        self.assert_fails(
            [
                *('domain', 'check', file, *self.words),
                *('--exclude-uuid', uuids.nobody),
            ],
            f'no domain with the UUID {uuids.nobody} runs there',
        )

    def test_instead_of_somebody_where_nobody_is_known(self):
        file = self.file('a.xml', samples.domain_xml((0, MIB, HUGE)))
        self.assert_fails(
            [
                *('domain', 'check', file, *self.words[2:]),
                *('--exclude-uuid', uuids.nobody),
            ],
            '--exclude-uuid needs --uri where there is --sysfs',
        )


class ErrorsTest(base.TestCase):
    """They are the same for ``domain rewrite``."""

    COMMANDS = ('check', 'rewrite')

    def test_broken_xml(self):
        file = self.file('a.xml', '<domain>\n  <memory>\n</domain>\n')
        for command in self.COMMANDS:
            self.assert_fails(
                ['domain', command, file],
                f'{file}: not the XML of a domain: Opening and ending tag '
                'mismatch: memory line 2 and domain, line 3, column 10',
            )

    def test_broken_xml_of_stdin(self):
        for command in self.COMMANDS:
            self.assert_fails(
                ['domain', command, '-'],
                'stdin: not the XML of a domain: Document is empty, line 1, '
                'column 1',
            )

    def test_another_xml(self):
        file = self.file('a.xml', '<network/>')
        for command in self.COMMANDS:
            self.assert_fails(
                ['domain', command, file],
                f"{file}: not the XML of a domain, but of a 'network'",
            )

    def test_what_is_no_text(self):
        file = self.folder / 'a.xml'
        file.write_bytes(b'<domain>\xff</domain>')
        for command in self.COMMANDS:
            result = runner.run('domain', command, file)
            self.assertEqual((2, ''), (result.code, result.stdout))
            self.assertIn(f"{file}: 'utf-8' codec", result.stderr)

    def test_a_size_that_is_none(self):
        tree = trees.recorded('x86-1-node.txt', self.folder)
        xml = samples.domain_xml((0, MIB, HUGE)).replace(
            f'size="{HUGE}"', 'size="some"'
        )
        self.assert_fails(
            ['domain', 'check', '-', '--sysfs', tree],
            "stdin: not a size: 'some' 'KiB'",
            stdin=xml,
        )
        self.assert_fails(
            ['domain', 'rewrite', '-'],
            "stdin: not a size: 'some' 'KiB'",
            stdin=xml,
        )

    def test_a_cell_that_is_no_number(self):
        tree = trees.recorded('x86-1-node.txt', self.folder)
        xml = samples.LIBVIRT_XML.replace("cellid='1'", "cellid='one'")
        line = next(
            number
            for number, text in enumerate(xml.splitlines(), start=1)
            if 'one' in text
        )
        for words in (['check', '-', '--sysfs', tree], ['rewrite', '-']):
            self.assert_fails(
                ['domain', *words],
                f"stdin: line {line}: <memnode> has cellid='one', which is "
                'not a number',
                stdin=xml,
            )

    def test_huge_pages_of_no_size(self):
        tree = trees.recorded('x86-1-node.txt', self.folder)
        xml = re.sub('<page [^>]*>', '', samples.LIBVIRT_XML)
        self.assert_fails(
            ['domain', 'check', '-', '--sysfs', tree],
            'stdin: <hugepages> does not say the size of a <page>',
            stdin=xml,
        )

    def test_no_such_file(self):
        for command in self.COMMANDS:
            self.assert_fails(
                ['domain', command, self.folder / 'a.xml'],
                f'cannot read {self.folder}/a.xml: No such file or directory',
            )

    def test_a_folder(self):
        for command in self.COMMANDS:
            self.assert_fails(
                ['domain', command, self.folder],
                f'cannot read {self.folder}: Is a directory',
            )

    def test_no_permission(self):
        file = self.file('a.xml', samples.LIBVIRT_XML)
        for command in self.COMMANDS:
            self.assert_forbidden(file, ['domain', command, file])

    def test_no_such_tree(self):
        file = self.file('a.xml', samples.LIBVIRT_XML)
        self.assert_fails(
            ['domain', 'check', file, '--sysfs', self.folder],
            f'cannot read {self.folder}/devices/system/node: '
            'No such file or directory',
        )

    def test_no_libvirt(self):
        file = self.file('a.xml', samples.LIBVIRT_XML)
        uri = f'qemu+unix:///system?socket={self.folder}/none'
        result = runner.run('domain', 'check', file, '--uri', uri)
        self.assertEqual((2, ''), (result.code, result.stdout))
        [line] = result.stderr.splitlines()
        self.assertIn(f'libvirt at {uri} does not say', line)

    def test_wrong_options(self):
        self.assert_misused(
            ['domain', 'check', '-', '--exclude-uuid', 'web'],
            "argument --exclude-uuid: 'web' is not a UUID",
        )
        self.assert_misused(
            ['domain', 'check', '-', '--reserved', 'node:x'],
            'argument --reserved',
        )
        self.assert_misused(['domain', 'check'], '<file>')
