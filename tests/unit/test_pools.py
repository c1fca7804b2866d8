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

"""The kernel's files, as they are and as they should not be."""

import os
import re
import shutil
from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import availability, fixture, pools
from tests.unit import base

NODES = 'sys/devices/system/node'
POOL = f'{NODES}/node0/hugepages/hugepages-2048kB'
HOST = 'sys/kernel/mm/hugepages/hugepages-2048kB'


class FakeStatvfs:
    """Sizes and limits of mounts; an OSError is raised."""

    def __init__(self, **mounts):
        self.mounts = mounts
        self.asked = []

    def __call__(self, path):
        self.asked.append(path)
        found = self.mounts[os.path.basename(path)]
        if isinstance(found, OSError):
            raise found
        size, blocks, available = found
        return os.statvfs_result(
            (size, size, blocks, available, available, 0, 0, 0, 0, 255)
        )


class PoolsTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.machine = self.useFixture(fixture.KernelFixture())
        self.kernel = self.machine.kernel

    def write(self, name, content):
        (self.machine.root / name).write_bytes(content)

    def assert_unreadable(self, name, reason, function, *args):
        """The error names the file and what is the matter with it."""
        exc = self.assertRaises(pools.UnreadableError, function, *args)
        path = self.machine.root / name
        self.assertEqual(path, exc.path)
        self.assertIn(str(path), str(exc))
        self.assertIn(reason, str(exc))


class PoolsTest(PoolsTestCase):
    def test_sparse_nodes_and_two_sizes(self):
        expected = []
        for node in (0, 1, 16, 17):
            for size in (2048, 1048576):
                pool = availability.Pool(
                    node, size, total=node + 64, free=node + size // 2048 % 64
                )
                self.machine.set_pool(node, size, pool.total, pool.free)
                expected.append(pool)
        self.assertEqual((0, 1, 16, 17), self.kernel.nodes())
        self.assertEqual(expected, self.kernel.pools())
        self.assertEqual(
            [pool for pool in expected if pool.page_size == 2048],
            self.kernel.pools(2048),
        )

    def test_nodes_are_numbers_in_order(self):
        for node in (10, 9, 2):
            self.machine.set_pool(node, 2048, 1, 1)
        self.assertEqual((2, 9, 10), self.kernel.nodes())

    def test_sizes_that_a_node_does_not_have(self):
        self.machine.set_pool(0, 2048, 8, 8)
        self.machine.set_pool(1, 1048576, 8, 8)
        self.assertEqual([], self.kernel.pools(65536))
        [pool] = self.kernel.pools(1048576)
        self.assertEqual(1, pool.node)

    def test_a_node_without_memory(self):
        """Older kernels give it no folder, as hugetlbpage.rst says."""
        self.machine.set_pool(0, 2048, 8, 8)
        (self.machine.root / NODES / 'node1').mkdir()
        self.assertEqual((0, 1), self.kernel.nodes())
        [pool] = self.kernel.pools()
        self.assertEqual(0, pool.node)

    def test_a_kernel_without_huge_pages(self):
        (self.machine.root / NODES / 'node0').mkdir(parents=True)
        self.assertEqual([], self.kernel.pools())

    def test_other_entries_are_not_nodes(self):
        self.machine.set_pool(0, 2048, 8, 8)
        for name in ('has_cpu', 'node', 'nodeX', 'node1.old', 'power'):
            self.write(f'{NODES}/{name}', b'0\n')
        self.assertEqual((0,), self.kernel.nodes())

    def test_everything_is_read_anew(self):
        self.machine.set_pool(0, 2048, 8, 8)
        self.kernel.pools()
        self.machine.set_pool(0, 2048, 9, 3, surplus=1)
        self.assertEqual(
            [availability.Pool(0, 2048, 9, 3, 1)], self.kernel.pools()
        )

    def test_files_stay_open(self):
        self.machine.set_pool(0, 2048, 8, 8)
        self.machine.set_bound(2048)
        self.machine.set_memory(0, 1024, 1024)
        opens = self.useFixture(
            fixtures.MockPatchObject(os, 'open', wraps=os.open)
        ).mock
        for _ in range(2):
            self.kernel.pools()
            self.kernel.bound(2048)
            self.kernel.small_pool(0)
            self.assertEqual(6, opens.call_count)
        self.kernel.close()
        self.kernel.pools()
        self.assertEqual(9, opens.call_count)

    def test_nodes_and_sizes_come_and_go(self):
        """Also for a call that asks for one size."""
        self.machine.set_pool(0, 2048, 8, 8)
        for size in (None, 2048):
            self.assertEqual(1, len(self.kernel.pools(size)))
            self.machine.set_pool(1, 2048, 8, 8)
            self.assertEqual((0, 1), self.kernel.nodes())
            self.assertEqual(2, len(self.kernel.pools(size)))
            self.machine.set_pool(1, 65536, 8, 8)
            self.assertEqual(1, len(self.kernel.pools(65536)))
            shutil.rmtree(self.machine.root / NODES / 'node1')
            self.assertEqual(1, len(self.kernel.pools(size)))
            self.assertEqual([], self.kernel.pools(65536))
            self.assertEqual((0,), self.kernel.nodes())

    def test_a_node_that_goes_while_it_is_read(self):
        """Its open files then say ENODEV, and its folder is no longer."""
        self.machine.set_pool(0, 2048, 8, 8)
        self.kernel.pools()
        listdir = os.listdir

        def late(folder):
            entries = listdir(folder)
            if str(folder).endswith('hugepages'):
                shutil.rmtree(folder)
            return entries

        with (
            mock.patch.object(os, 'listdir', late),
            mock.patch.object(os, 'pread', side_effect=OSError(19, '')),
        ):
            self.assert_unreadable(
                f'{POOL}/nr_hugepages', 'No such file', self.kernel.pools
            )

    def test_no_folder_of_nodes(self):
        self.assert_unreadable(
            NODES, 'No such file or directory', self.kernel.nodes
        )
        self.assert_unreadable(
            NODES, 'No such file or directory', self.kernel.pools, 2048
        )

    def test_no_nodes(self):
        (self.machine.root / NODES).mkdir(parents=True)
        self.assert_unreadable(NODES, 'no NUMA node', self.kernel.nodes)

    def test_a_missing_file(self):
        for name in ('nr_hugepages', 'free_hugepages', 'surplus_hugepages'):
            self.machine.set_pool(0, 2048, 8, 8)
            (self.machine.root / POOL / name).unlink()
            self.assert_unreadable(
                f'{POOL}/{name}', 'No such file', self.kernel.pools
            )

    def test_a_folder_where_a_file_should_be(self):
        self.machine.set_pool(0, 2048, 8, 8)
        (self.machine.root / POOL / 'free_hugepages').unlink()
        (self.machine.root / POOL / 'free_hugepages').mkdir()
        self.assert_unreadable(
            f'{POOL}/free_hugepages', 'Is a directory', self.kernel.pools
        )

    def test_a_file_where_a_folder_should_be(self):
        self.machine.set_pool(0, 2048, 8, 8)
        (self.machine.root / NODES / 'node1').mkdir()
        self.write(f'{NODES}/node1/hugepages', b'')
        self.assert_unreadable(
            f'{NODES}/node1/hugepages', 'Not a directory', self.kernel.pools
        )

    def test_no_permission(self):
        """Root may read everything, so the refusal comes from a loop."""
        self.machine.set_pool(0, 2048, 8, 8)
        path = self.machine.root / POOL / 'free_hugepages'
        path.unlink()
        path.symlink_to(path)
        self.assert_unreadable(
            f'{POOL}/free_hugepages', 'symbolic links', self.kernel.pools
        )

    def test_junk(self):
        for junk in (
            b'',
            b'\n',
            b'x',
            b'-1\n',
            b'+1\n',
            b'1.0\n',
            b'0x10\n',
            b'1 2\n',
            b'1_000\n',
            b'\x00\xff\xfe',
            b'\xd9\xa3\n',  # a digit, but not of the kernel's
            b'\xc2\xb2\n',  # nor is a superscript
        ):
            self.machine.set_pool(0, 2048, 8, 8)
            self.write(f'{POOL}/free_hugepages', junk)
            self.assert_unreadable(
                f'{POOL}/free_hugepages', 'not', self.kernel.pools
            )

    def test_the_error_quotes_junk_but_not_all_of_it(self):
        self.machine.set_pool(0, 2048, 8, 8)
        self.write(f'{POOL}/free_hugepages', b'junk' * 1000)
        exc = self.assertRaises(pools.UnreadableError, self.kernel.pools)
        self.assertIn('junkjunk', str(exc))
        self.assertLess(len(exc.reason), 100)

    @hypothesis.given(st.binary(max_size=30), st.sampled_from([None, 2048]))
    def test_whatever_the_file_holds(self, content, size):
        self.machine.set_pool(0, 2048, 8, 8)
        self.write(f'{POOL}/free_hugepages', content)
        try:
            [pool] = self.kernel.pools(size)
        except pools.UnreadableError:
            return
        self.assertEqual(int(content.decode()), pool.free)

    def test_the_roots_own_form_does_not_matter(self):
        self.machine.set_pool(0, 2048, 8, 8)
        for root in (str(self.machine.root), self.machine.root):
            self.assertEqual(1, len(pools.Kernel(root).pools()))


class SmallPoolTest(PoolsTestCase):
    MEMINFO = f'{NODES}/node0/meminfo'
    # As Linux 6.1 writes it, of a node with 100 huge pages of 2 MiB.
    CONTENT = b"""\
Node 0 MemTotal:        2013116 kB
Node 0 MemFree:         1200008 kB
Node 0 MemUsed:          813108 kB
Node 0 SwapCached:            0 kB
Node 0 Active:           300000 kB
Node 0 Active(file):     200000 kB
Node 0 FilePages:        400016 kB
Node 0 Mapped:            10728 kB
Node 0 Shmem:             50004 kB
Node 0 KReclaimable:      99999 kB
Node 0 Slab:              88888 kB
Node 0 SReclaimable:      20000 kB
Node 0 SUnreclaim:        68888 kB
Node 0 ShmemHugePages:    77777 kB
Node 0 FileHugePages:     66666 kB
Node 0 HugePages_Total:   100
Node 0 HugePages_Free:    100
"""

    def setUp(self):
        super().setUp()
        self.machine.set_memory(0, 1024, 1024)

    def free(self, **lines):
        """KiB, with these changed in the file."""
        content = self.CONTENT
        for name, kib in lines.items():
            content, count = re.subn(
                rb' %b: +\d+ kB' % name.encode(),
                b' %b: %8d kB' % (name.encode(), kib),
                content,
            )
            self.assertEqual(1, count)
        self.write(self.MEMINFO, content)
        return self.kernel.small_pool(0).free * pools.SMALL_PAGE

    def test_what_can_be_given_to_a_bound_guest(self):
        page = pools.SMALL_PAGE
        kib = 1200008 + 400016 - 50004 + 20000
        self.assertEqual(kib // page * page, self.free())
        self.assertEqual(
            availability.Pool(
                node=0,
                page_size=page,
                total=2013116 // page,
                free=kib // page,
                small=True,
            ),
            self.kernel.small_pool(0),
        )

    def test_each_line(self):
        before = self.free()
        for name, was, change in (
            ('MemFree', 1200008, 640),
            ('FilePages', 400016, 640),
            ('Shmem', 50004, -640),
            ('SReclaimable', 20000, 640),
        ):
            self.assertEqual(before + change, self.free(**{name: was + 640}))

    def test_never_less_than_none(self):
        """The kernel does not read its counters at one moment."""
        self.assertEqual(
            0, self.free(MemFree=0, FilePages=64, Shmem=128, SReclaimable=0)
        )

    def test_of_the_node(self):
        self.machine.set_memory(16, 4096, 2048)
        pool = self.kernel.small_pool(16)
        self.assertEqual(16, pool.node)
        self.assertEqual(4096 // pools.SMALL_PAGE, pool.total)
        self.assertEqual(2048 // pools.SMALL_PAGE, pool.free)

    def test_it_is_read_anew(self):
        self.kernel.small_pool(0)
        self.machine.set_memory(0, 1024, 512)
        self.assertEqual(
            512 // pools.SMALL_PAGE, self.kernel.small_pool(0).free
        )

    def test_a_node_that_the_host_does_not_have(self):
        self.assert_unreadable(
            f'{NODES}/node9/meminfo', 'No such file', self.kernel.small_pool, 9
        )

    def test_a_missing_line(self):
        for name in (
            b'MemTotal',
            b'MemFree',
            b'FilePages',
            b'Shmem',
            b'SReclaimable',
        ):
            line = b'Node 0 %b:' % name
            for instead in (b'Node 0 Other:', b'Node 0 ', b'%b:' % name):
                self.write(self.MEMINFO, self.CONTENT.replace(line, instead))
                self.assert_unreadable(
                    self.MEMINFO,
                    f'no {name.decode()}',
                    self.kernel.small_pool,
                    0,
                )

    def test_junk(self):
        for junk in (b'', b'\xff', b'Node 0 MemTotal: -1 kB\n', b'0\n'):
            self.write(self.MEMINFO, junk)
            self.assert_unreadable(
                self.MEMINFO, 'no MemTotal', self.kernel.small_pool, 0
            )


class SwapTest(PoolsTestCase):
    MEMINFO = b"""\
MemTotal:       65842964 kB
SwapCached:           12 kB
SwapTotal:       8388604 kB
SwapFree:              0 kB
"""

    def test_used_or_not(self):
        self.write('proc/meminfo', self.MEMINFO)
        self.assertEqual(8388604, self.kernel.swap())

    def test_none(self):
        self.write('proc/meminfo', b'SwapTotal:             0 kB\n')
        self.assertEqual(0, self.kernel.swap())

    def test_no_file(self):
        self.assert_unreadable(
            'proc/meminfo', 'No such file', self.kernel.swap
        )

    def test_junk(self):
        for junk in (
            b'',
            b'SwapFree: 1 kB\n',
            b'SwapTotal: x kB\n',
            b'SwapTotal: 1 MB\n',
            b'SwapTotal: -1 kB\n',
            b'NoSwapTotal: 1 kB\n',
            b'\xff',
        ):
            self.write('proc/meminfo', junk)
            self.assert_unreadable(
                'proc/meminfo', 'no SwapTotal', self.kernel.swap
            )


class AllowedNodesTest(PoolsTestCase):
    PID = 'run/libvirt/qemu/instance-00000007.pid'

    def setUp(self):
        super().setUp()
        self.put(self.PID, b'4711\n')

    def put(self, name, content):
        (self.machine.root / name).parent.mkdir(parents=True, exist_ok=True)
        self.write(name, content)

    def put_thread(self, thread, allowed):
        self.put(
            f'proc/4711/task/{thread}/status',
            b'Name:\tqemu-system-x86\n'
            b'Mems_allowed:\t00000000,0000000f\n'
            b'Mems_allowed_list:\t%b\n'
            b'voluntary_ctxt_switches:\t10\n' % allowed,
        )

    def allowed_nodes(self):
        return self.kernel.allowed_nodes('instance-00000007')

    def test_of_a_process(self):
        for text, expected in (
            (b'0', {0}),
            (b'0-3', {0, 1, 2, 3}),
            (b'0,16-17', {0, 16, 17}),
        ):
            self.put_thread(4711, text)
            self.assertEqual(expected, self.allowed_nodes())

    def test_one_thread_may_do_more_than_the_others(self):
        self.put_thread(4711, b'1')
        self.put_thread(4712, b'0')
        self.put_thread(4713, b'1')
        self.assertEqual({0, 1}, self.allowed_nodes())

    def test_a_thread_that_has_ended_since_it_was_listed(self):
        self.put_thread(4711, b'1')
        tasks = self.machine.root / 'proc/4711/task'
        (tasks / '4712').symlink_to('nowhere')
        self.assertEqual({1}, self.allowed_nodes())

    def test_another_process_is_not_asked(self):
        self.put_thread(4711, b'1')
        self.put('proc/4712/task/4712/status', b'junk')
        self.assertEqual({1}, self.allowed_nodes())

    def test_a_guest_that_does_not_run(self):
        (self.machine.root / self.PID).unlink()
        self.assert_unreadable(self.PID, 'No such file', self.allowed_nodes)

    def test_a_process_that_is_gone(self):
        self.assert_unreadable(
            'proc/4711/task', 'No such file', self.allowed_nodes
        )

    def test_a_pid_that_is_none(self):
        for junk in (b'', b'x', b'-1', b'1 2', b'../1'):
            self.put(self.PID, junk)
            self.assert_unreadable(
                self.PID, 'not a number', self.allowed_nodes
            )

    def test_a_kernel_without_cpusets(self):
        status = 'proc/4711/task/4711/status'
        self.put(status, b'Name:\tqemu\nMems_allowed:\t1\n')
        self.assert_unreadable(
            status, 'no Mems_allowed_list', self.allowed_nodes
        )

    def test_junk(self):
        for junk in (b'', b'x', b'0-', b'3-1', b'0 1', b'\xff'):
            self.put_thread(4711, junk)
            self.assert_unreadable(
                'proc/4711/task/4711/status', 'not a set', self.allowed_nodes
            )


class BoundTest(PoolsTestCase):
    def setUp(self):
        super().setUp()
        self.machine.set_bound(2048, reserved=5, overcommit=7)

    def bound(self, *mounts, **limits):
        """With these lines in the table of mounts."""
        self.write('proc/self/mounts', b''.join(m + b'\n' for m in mounts))
        self.statvfs = FakeStatvfs(**limits)
        return pools.Kernel(self.machine.root, self.statvfs).bound(2048)

    def mount(self, name, size='2M'):
        options = f'rw,relatime,pagesize={size},size=1073741824'
        return f'none /dev/{name} hugetlbfs {options} 0 0'.encode()

    def test_without_a_mount(self):
        self.assertEqual(
            availability.Bound(reserved=5, overcommit=7, mount_free=None),
            self.bound(),
        )

    def test_other_file_systems_are_not_asked(self):
        bound = self.bound(
            b'tmpfs /dev/hugetlbfs tmpfs rw 0 0',
            b'hugetlbfs',
            b'',
            b'/dev/sda1 / ext4 rw 0 0',
        )
        self.assertIsNone(bound.mount_free)
        self.assertEqual([], self.statvfs.asked)

    def test_a_limit(self):
        bound = self.bound(self.mount('a'), a=(2 << 20, 100, 60))
        self.assertEqual(60, bound.mount_free)

    def test_a_limit_that_is_used_up(self):
        bound = self.bound(self.mount('a'), a=(2 << 20, 100, 0))
        self.assertEqual(0, bound.mount_free)

    def test_no_limit(self):
        """The kernel says 0, or -1 where the mount has min_size only."""
        for blocks in (0, -1):
            bound = self.bound(self.mount('a'), a=(2 << 20, blocks, blocks))
            self.assertIsNone(bound.mount_free)

    def test_the_roomiest_of_two_mounts(self):
        limits = {'a': (2 << 20, 100, 60), 'b': (2 << 20, 100, 70)}
        for order in ('ab', 'ba'):
            bound = self.bound(*map(self.mount, order), **limits)
            self.assertEqual(70, bound.mount_free)

    def test_no_limit_is_the_roomiest(self):
        limits = {'a': (2 << 20, 100, 60), 'b': (2 << 20, 0, 0)}
        for order in ('ab', 'ba'):
            bound = self.bound(*map(self.mount, order), **limits)
            self.assertIsNone(bound.mount_free)

    def test_a_mount_of_another_size(self):
        bound = self.bound(self.mount('a'), a=(1 << 30, 100, 60))
        self.assertIsNone(bound.mount_free)
        bound = self.bound(
            self.mount('a'),
            self.mount('b'),
            a=(1 << 30, 100, 60),
            b=(2 << 20, 100, 9),
        )
        self.assertEqual(9, bound.mount_free)

    def test_a_mount_of_another_size_is_not_asked(self):
        """That nova may not read another tool's mount does no harm."""
        denied = PermissionError(13, 'Permission denied')
        for size in ('1024M', '1G', '64K'):
            bound = self.bound(
                self.mount('a', size),
                self.mount('b'),
                a=denied,
                b=(2 << 20, 100, 9),
            )
            self.assertEqual(9, bound.mount_free)
            self.assertEqual(['/dev/b'], self.statvfs.asked)

    def test_a_path_with_a_space(self):
        """The kernel writes it as \\040, a backslash as \\134."""
        bound = self.bound(
            b'hugetlbfs /dev/huge\\040pages hugetlbfs rw 0 0',
            b'hugetlbfs /dev/back\\134040 hugetlbfs rw 0 0',
            **{
                'huge pages': (2 << 20, 100, 60),
                'back\\040': (2 << 20, 100, 59),
            },
        )
        self.assertEqual(60, bound.mount_free)

    def test_a_path_that_is_not_text(self):
        """Of any file system: it must not end the check of huge pages."""
        bound = self.bound(
            b'/dev/sdb1 /media/caf\xe9 ext4 rw 0 0',
            b'hugetlbfs /dev/caf\xe9 hugetlbfs rw 0 0',
            **{os.fsdecode(b'caf\xe9'): (2 << 20, 100, 60)},
        )
        self.assertEqual(60, bound.mount_free)

    def test_a_path_that_is_mounted_twice_is_asked_once(self):
        self.bound(self.mount('a'), self.mount('a'), a=(2 << 20, 100, 60))
        self.assertEqual(['/dev/a'], self.statvfs.asked)

    def test_a_mount_that_cannot_be_asked(self):
        """It limits nothing, and is complained of once."""
        self.write('proc/self/mounts', self.mount('a') + b'\n')
        kernel = pools.Kernel(
            self.machine.root,
            FakeStatvfs(a=PermissionError(13, 'Permission denied')),
        )
        for _ in range(2):
            self.assertIsNone(kernel.bound(2048).mount_free)
        [warning] = self.log.at('WARNING')
        self.assertIn('/dev/a', warning)
        self.assertIn('Permission denied', warning)

    def test_no_table_of_mounts(self):
        (self.machine.root / 'proc/self/mounts').unlink()
        self.assert_unreadable(
            'proc/self/mounts', 'No such file', self.kernel.bound, 2048
        )

    def test_a_missing_file(self):
        for name in ('resv_hugepages', 'nr_overcommit_hugepages'):
            self.machine.set_bound(2048)
            (self.machine.root / HOST / name).unlink()
            self.assert_unreadable(
                f'{HOST}/{name}', 'No such file', self.kernel.bound, 2048
            )

    def test_a_size_that_the_host_does_not_have(self):
        self.assert_unreadable(
            'sys/kernel/mm/hugepages/hugepages-64kB/resv_hugepages',
            'No such file',
            self.kernel.bound,
            64,
        )

    def test_junk(self):
        self.write(f'{HOST}/resv_hugepages', b'18446744073709551615.\n')
        self.assert_unreadable(
            f'{HOST}/resv_hugepages', 'not a number', self.kernel.bound, 2048
        )
