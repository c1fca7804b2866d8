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

"""The command ``pools show``."""

import pathlib
import socket
import time
from unittest import mock

import yaml

from nova_numa_guard import collected, fixture, pools
from tests.unit import samples
from tests.unit.cmd import base, runner, trees
from tests.unit.status import hosts

KEYS = (
    'Node',
    'Page size',
    'Total',
    'Free',
    'Reclaimable',
    'Reserved',
    'Claimed',
    'Unaccounted',
    'Available',
)
HUGE = samples.HUGE


class TreesTest(base.TestCase):
    """Other machines' files."""

    def show(self, tree, *words):
        result = runner.run('pools', 'show', '-f', 'json', '--sysfs', tree)
        self.assertEqual((0, ''), (result.code, result.stderr))
        self.assertEqual(KEYS, tuple(result.json[0]))
        return [tuple(row.values()) for row in result.json]

    def test_one_node(self):
        tree = trees.recorded('x86-1-node.txt', self.folder)
        memory = dict(
            line.split()[2:4]
            for line in (tree / 'devices/system/node/node0/meminfo')
            .read_text()
            .splitlines()
        )
        free, total = int(memory['MemFree:']), int(memory['MemTotal:'])
        reclaimable = (
            int(memory['FilePages:'])
            - int(memory['Shmem:'])
            + int(memory['SReclaimable:'])
        )
        self.assertEqual(
            [
                (
                    *(0, 4, total // 4, free // 4, reclaimable // 4),
                    *(None, None, None, (free + reclaimable) // 4),
                ),
                (0, 2048, 0, 0, None, 0, None, None, 0),
                (0, 1048576, 0, 0, None, 0, None, None, 0),
            ],
            self.show(tree),
        )

    def test_two_nodes(self):
        """Three mapped pages of no certain node are kept from everybody."""
        tree = trees.recorded('x86-2-nodes.txt', self.folder)
        rows = self.show(tree)
        self.assertEqual(
            [
                (0, 2048, 32, 30, None, 0, None, None, 30),
                (1, 2048, 16, 16, None, 0, None, None, 16),
            ],
            [row for row in rows if row[1] == 2048],
        )
        # 385612 KiB, of which 32 huge pages have 64 MiB.
        self.assertEqual((385612 - 65536) // 4, rows[0][2])

    def test_eight_nodes(self):
        tree = trees.recorded('x86-8-nodes.txt', self.folder)
        rows = self.show(tree)
        self.assertEqual(
            [(node, size) for node in range(8) for size in (4, 2048)],
            [row[:2] for row in rows],
        )
        self.assertEqual(
            {0: (32, 30), 1: (16, 16), 7: (8, 8)},
            {row[0]: row[2:4] for row in rows if row[1] == 2048 and row[2]},
        )

    def test_big_pages(self):
        machine = self.useFixture(trees.BigPages())
        mib = 1 << 10
        huge = 1024 * 2 * mib + 20 * 512 * mib + (16 << 20)
        self.assertEqual(
            [
                (
                    *(0, 64, ((64 << 20) - huge) // 64, (30 << 20) // 64),
                    *(24576, None, None, None, (30 << 20) // 64 + 24576),
                ),
                (0, 2048, 1024, 1000, None, 0, None, None, 1000),
                (0, 524288, 20, 12, None, 0, None, None, 12),
                (0, 16777216, 1, 1, None, 0, None, None, 1),
            ],
            self.show(machine.tree)[:4],
        )

    def test_the_small_page_of_an_x86(self):
        for name in ('x86-1-node.txt', 'x86-2-nodes.txt', 'x86-8-nodes.txt'):
            tree = trees.recorded(name, self.folder / name)
            self.assertEqual(4, collected.Kernel(tree).small_page)

    def test_the_small_page_where_it_cannot_be_told(self):
        tree = trees.recorded('x86-1-node.txt', self.folder)
        (tree / 'devices/system/node/node0/vmstat').unlink()
        kernel = collected.Kernel(tree)
        self.assertEqual(pools.SMALL_PAGE, kernel.small_page)

    def test_no_process_is_in_it(self):
        tree = trees.recorded('x86-1-node.txt', self.folder)
        kernel = collected.Kernel(tree)
        for ask in (kernel.held, kernel.allowed_nodes):
            self.assertRaises(pools.UnreadableError, ask, 'instance-1')

    def test_mounts_are_not_those_of_this_machine(self):
        tree = trees.recorded('x86-2-nodes.txt', self.folder)
        with mock.patch.object(
            pools.Kernel, '_mount_free', side_effect=AssertionError
        ):
            bound = collected.Kernel(tree).bound(HUGE)
        self.assertEqual(
            (3, 3, None), (bound.reserved, bound.overcommit, bound.mount_free)
        )

    def test_sparse_nodes(self):
        machine = self.useFixture(trees.Sparse())
        self.assertEqual(
            [(0, 100, 100), (8, 100, 20)],
            [
                (node, total, free)
                for node, size, total, free, *_ in self.show(machine.tree)
                if size == HUGE
            ],
        )

    def test_a_reserve(self):
        """It is kept from guests as long as others have not taken it."""
        machine = self.useFixture(trees.Sparse())
        result = runner.run(
            *('pools', 'show', '-f', 'json', '--sysfs', machine.tree),
            *('--reserved', 'node:0,size:2048,count:30'),
            *('--reserved', 'node:8,size:2MB,count:70'),
        )
        self.assertEqual(
            [(0, 30, 70), (8, 70, 20)],
            [
                (row['Node'], row['Reserved'], row['Available'])
                for row in result.json
                if row['Page size'] == HUGE
            ],
        )

    def test_a_reserve_of_a_file(self):
        machine = self.useFixture(trees.Sparse())
        conf = self.file(
            'other.conf',
            '[DEFAULT]\n'
            'reserved_huge_pages = node:0,size:2048,count:7\n'
            'reserved_huge_pages = node:8,size:2048,count:9\n',
        )
        result = runner.run(
            *('pools', 'show', '-f', 'value', '-c', 'Reserved'),
            *('--sysfs', machine.tree, '--config-file', conf),
        )
        self.assertEqual(['None', '7', 'None', '9'], result.stdout.split())


class ErrorsTest(base.TestCase):
    def test_no_such_folder(self):
        self.assert_fails(
            ['pools', 'show', '--sysfs', self.folder / 'none'],
            f'cannot read {self.folder}/none/devices/system/node: '
            'No such file or directory',
        )

    def test_a_folder_without_nodes(self):
        (self.folder / 'devices/system/node').mkdir(parents=True)
        self.assert_fails(
            ['pools', 'show', '--sysfs', self.folder],
            f'cannot read {self.folder}/devices/system/node: '
            'it lists no NUMA node',
        )

    def test_half_of_it_is_missing(self):
        machine = self.useFixture(trees.Sparse())
        file = machine.tree / (
            'kernel/mm/hugepages/hugepages-2048kB/resv_hugepages'
        )
        file.unlink()
        self.assert_fails(
            ['pools', 'show', '--sysfs', machine.tree],
            f'cannot read {file}: No such file or directory',
        )

    def test_what_is_no_number(self):
        machine = self.useFixture(trees.Sparse())
        machine.set_pool(0, HUGE, total='many', free=0)
        self.assert_fails(
            ['pools', 'show', '--sysfs', machine.tree],
            f'cannot read {machine.tree}/devices/system/node/node0/hugepages/'
            f"hugepages-2048kB/nr_hugepages: 'many' is not a number",
        )

    def test_no_libvirt(self):
        uri = f'qemu+unix:///system?socket={self.folder}/none'
        result = runner.run('pools', 'show', '--uri', uri)
        self.assertEqual((2, ''), (result.code, result.stdout))
        [line] = result.stderr.splitlines()
        self.assertIn(
            f'libvirt at {uri} does not say which domains run: Failed to '
            f"connect socket to '{self.folder}/none'",
            line,
        )

    def test_libvirt_does_not_answer(self):
        """A hanging libvirt does not hang the command."""
        path = f'{self.folder}/hanging'
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()
            uri = f'qemu+unix:///system?socket={path}'
            begun = time.monotonic()
            with mock.patch('nova_numa_guard.cmd.domains.PATIENCE', 0.2):
                self.assert_fails(
                    ['pools', 'show', '--uri', uri],
                    f'libvirt at {uri} does not say which domains run: '
                    'no answer within 0.2 s',
                )
            self.assertLess(time.monotonic() - begun, 2)

    def test_no_such_configuration(self):
        file = self.folder / 'none.conf'
        result = runner.run('pools', 'show', '--config-file', file)
        self.assertEqual((2, ''), (result.code, result.stdout))
        [line] = result.stderr.splitlines()
        self.assertIn("Nova's configuration cannot be read", line)
        self.assertIn(str(file), line)

    def test_a_reserve_that_is_none(self):
        conf = self.file(
            'other.conf',
            '[DEFAULT]\nreserved_huge_pages = node:0,size:2048\n',
        )
        self.assert_fails(
            [
                *('pools', 'show', '--uri', base.URI),
                *('--config-file', conf),
            ],
            "[DEFAULT] reserved_huge_pages: 'node:0,size:2048' is not like "
            'node:0,size:2048,count:64',
        )

    def test_wrong_options(self):
        for value in (
            'node:0',
            'node:0,size:2048,count:some',
            'node:0,size:two,count:1',
            'node:0,size:2048,count:-1',
            '64',
        ):
            self.assert_misused(
                ['pools', 'show', '--reserved', value], 'argument --reserved'
            )

    def test_no_permission_for_libvirt(self):
        path = self.folder / 'socket'
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(path))
            listening.listen()
            uri = f'qemu+unix:///system?socket={path}'
            self.assert_forbidden(
                path,
                ['pools', 'show', '--uri', uri],
                f'libvirt at {uri} does not say which domains run: Failed to '
                f"connect socket to '{path}': Permission denied",
            )

    def test_no_permission_for_the_configuration(self):
        """As any user has it, of a nova.conf that is root's and Nova's."""
        self.assert_forbidden(
            self.conf,
            ['pools', 'show', '--config-file', self.conf],
            f"Nova's configuration cannot be read: Failed to open some config "
            f'files: {self.conf}',
        )

    def test_no_permission(self):
        """Files that are root's, read by somebody who is not."""
        machine = self.useFixture(trees.Sparse())
        file = machine.tree / 'devices/system/node/node8/meminfo'
        self.assert_forbidden(file, ['pools', 'show', '--sysfs', machine.tree])


class GuestsTest(base.TestCase):
    """A host with guests, of libvirt's own test driver."""

    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(hosts.Libvirt())
        self.kernel = self.useFixture(fixture.KernelFixture())
        self.kernel.set_pool(0, HUGE, total=100, free=100)
        self.kernel.set_memory(0, total=1 << 20, free=1 << 18)
        self.kernel.set_bound(HUGE)

    def show(self, *words):
        result = runner.run(
            *('pools', 'show', '-f', 'yaml', '--uri', base.URI),
            *('--sysfs', self.kernel.root / 'sys', *words),
        )
        self.assertEqual(0, result.code, result.stderr)
        [row] = [
            row
            for row in yaml.safe_load(result.stdout)
            if row['Page size'] == HUGE
        ]
        return row, result.stderr

    def test_of_nova(self):
        """64 MiB of a guest are 32 pages, which it has in use."""
        self.libvirt.guest(hosts.HUGE)
        self.kernel.steal(0, HUGE, 32)
        row, stderr = self.show()
        self.assertEqual(32, row['Claimed'])
        self.assertEqual(0, row['Unaccounted'])
        self.assertEqual(68, row['Available'])
        self.assertEqual('', stderr)

    def test_pages_that_a_guest_has_not_touched(self):
        self.libvirt.guest(hosts.HUGE)
        row, _ = self.show()
        self.assertEqual((100, 68), (row['Free'], row['Available']))

    def test_of_others(self):
        """Ten of nobody's: nova.conf is to leave them alone."""
        self.libvirt.guest(hosts.HUGE)
        self.kernel.steal(0, HUGE, 42)
        row, stderr = self.show()
        self.assertEqual(10, row['Unaccounted'])
        self.assertEqual(58, row['Available'])
        self.assertIn('In [DEFAULT] of nova.conf', stderr)
        self.assertIn(
            'reserved_huge_pages = node:0,size:2048,count:10\n', stderr
        )

    def test_of_others_and_covered(self):
        self.kernel.steal(0, HUGE, 10)
        row, stderr = self.show('--reserved', 'node:0,size:2048,count:12')
        self.assertEqual((10, 88), (row['Unaccounted'], row['Available']))
        self.assertEqual(
            'The reserve of nova.conf covers the unaccounted pages:\n'
            'reserved_huge_pages = node:0,size:2048,count:12\n',
            stderr,
        )

    def test_a_domain_that_nova_did_not_make(self):
        """Nova has to be told of its pages, too."""
        xml = hosts.guarded(samples.nova_guest(hosts.HUGE, name='other'))
        start, end = xml.index('<metadata>'), xml.index('</metadata>')
        other = self.libvirt.connection.defineXML(
            xml[:start] + xml[end + len('</metadata>') :]
        )
        other.create()
        self.kernel.steal(0, HUGE, 32)
        row, stderr = self.show()
        self.assertEqual((0, 32), (row['Claimed'], row['Unaccounted']))
        self.assertEqual(68, row['Available'])
        self.assertIn('count:32', stderr)

    def test_a_guest_that_is_shut_off(self):
        self.libvirt.guest(hosts.HUGE).destroy()
        row, _ = self.show()
        self.assertEqual((0, 100), (row['Claimed'], row['Available']))


class OwnHostTest(base.TestCase):
    def test_this_machine(self):
        """As its own files have it."""
        top = pathlib.Path('/sys/devices/system/node')
        if not top.exists():
            self.skipTest('This kernel has no NUMA (CONFIG_NUMA).')
        result = runner.run(
            *('pools', 'show', '-f', 'json', '--uri', base.URI),
            *('--config-file', self.conf),
        )
        self.assertEqual(0, result.code, result.stderr)
        for row in result.json:
            if row['Reclaimable'] is None:
                file = top / (
                    f'node{row["Node"]}/hugepages/'
                    f'hugepages-{row["Page size"]}kB/nr_hugepages'
                )
                self.assertEqual(int(file.read_text()), row['Total'])
