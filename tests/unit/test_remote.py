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

"""Where a guest's small pages are, as the kernel and libvirt say it."""

import pathlib

import fixtures
import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import pools, remote
from tests.unit import base

# Of a cgroup of version 2, on Linux 6.1; some lines are left out.
V2 = """\
anon N0=1073741824 N1=52428800
file N0=86016 N1=0
kernel_stack N0=262144 N1=0
pagetables N0=2609152 N1=118784
shmem N0=0 N1=0
anon_thp N0=1071644672 N1=50331648
inactive_anon N0=1073729536 N1=52420608
active_anon N0=12288 N1=8192
unevictable N0=0 N1=0
slab N0=393216 N1=4096
"""
# Of one of version 1, in pages; those of the guest are in a cgroup below it.
V1 = """\
total=70 N0=60 N16=10
file=30 N0=30 N16=0
anon=40 N0=30 N16=10
unevictable=0 N0=0 N16=0
hierarchical_total=275000 N0=262200 N16=12800
hierarchical_file=56 N0=56 N16=0
hierarchical_anon=274944 N0=262144 N16=12800
hierarchical_unevictable=0 N0=0 N16=0
"""
SCOPE = r'machine.slice/machine-qemu\x2d7\x2dinstance\x2d00000007.scope'
NODES = st.dictionaries(
    st.integers(0, 1023), st.integers(0, 1 << 40), min_size=1
)


class ParseTest(base.TestCase):
    def test_version_2(self):
        self.assertEqual({0: 1073741824, 1: 52428800}, remote.parse(V2))

    def test_version_1_with_what_is_below(self):
        self.assertEqual(
            {0: 1073741824, 16: 52428800}, remote.parse(V1, page_size=4096)
        )

    def test_version_1_without_a_hierarchy(self):
        text = ''.join(V1.splitlines(keepends=True)[:4])
        self.assertEqual({0: 122880, 16: 40960}, remote.parse(text, 4096))

    def test_pages_of_another_size(self):
        self.assertEqual(
            {0: 262144 * 65536, 16: 12800 * 65536}, remote.parse(V1, 65536)
        )
        self.assertEqual(remote.parse(V2), remote.parse(V2, 65536))

    def test_pages_are_those_of_this_host(self):
        self.assertEqual(
            remote.parse(V1, pools.SMALL_PAGE * 1024), remote.parse(V1)
        )

    @hypothesis.given(NODES)
    def test_any_nodes(self, memory):
        fields = ''.join(f' N{node}={n}' for node, n in memory.items())
        self.assertEqual(memory, remote.parse(f'file N0=1\nanon{fields}\n'))
        total = sum(memory.values())
        for name in ('anon', 'hierarchical_anon'):
            text = f'total=1 N0=1\n{name}={total}{fields}\n'
            self.assertEqual(memory, remote.parse(text, 1))

    def test_what_is_something_else(self):
        for text in (
            '',
            'anon 1126170624\nfile 86016\n',  # memory.stat
            'inactive_anon N0=1\n',
            'anon N0=many\n',
            'anon N0=1 N1\n',
            'anon\n',
            '\u2620\n',
        ):
            exc = self.assertRaises(ValueError, remote.parse, text)
            self.assertIn('no anonymous memory by node', str(exc))


class ElsewhereTest(base.TestCase):
    def test_by_node(self):
        memory = {0: 10, 1: 20, 16: 0, 17: 5}
        for own, expected in (
            ({0}, {1: 20, 16: 0, 17: 5}),
            ({0, 17}, {1: 20, 16: 0}),
            ({0, 1, 16, 17}, {}),
            ({99}, memory),
        ):
            self.assertEqual(expected, remote.elsewhere(memory, own))


class AnonymousTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.write('run/libvirt/qemu/instance-00000007.pid', '4711')

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())

    def read(self):
        return remote.anonymous('instance-00000007', self.root)

    def assert_read(self, cgroup, stat, text):
        """Nothing but the right file is there."""
        self.write('proc/4711/cgroup', cgroup)
        self.write(f'sys/fs/cgroup/{stat}/memory.numa_stat', text)
        self.assertEqual(remote.parse(text), self.read())

    def assert_unreadable(self, name, reason):
        exc = self.assertRaises(pools.UnreadableError, self.read)
        self.assertEqual(self.root / name, exc.path)
        self.assertIn(reason, str(exc))

    def test_version_2_with_systemd(self):
        self.assert_read(f'0::/{SCOPE}/libvirt/emulator\n', SCOPE, V2)

    def test_version_2_without_systemd(self):
        self.assert_read(
            '0::/machine/qemu-7-instance-00000007.libvirt-qemu/emulator\n',
            'machine/qemu-7-instance-00000007.libvirt-qemu',
            V2,
        )

    def test_version_1(self):
        self.assert_read(
            f'9:name=systemd:/{SCOPE}\n'
            f'5:cpuset:/{SCOPE}/emulator\n'
            f'4:memory:/{SCOPE}\n'
            f'1:cpu,cpuacct:/{SCOPE}/emulator\n',
            f'memory/{SCOPE}',
            V1,
        )

    def test_both_versions(self):
        self.write(f'sys/fs/cgroup/{SCOPE}/memory.numa_stat', V2)
        self.assert_read(
            f'4:net_cls,memory:/{SCOPE}\n0::/{SCOPE}\n', f'memory/{SCOPE}', V1
        )

    def test_in_a_slice_of_another_name(self):
        place = r'a.slice/a-qemu\x2dhost.slice/machine-qemu\x2d12\x2dvm.scope'
        self.assert_read(f'0::/{place}/libvirt/emulator\n', place, V2)

    def test_a_guest_without_a_cgroup_of_its_own(self):
        """The figures would be those of libvirtd, or of all guests."""
        for place in (
            '/',
            '/system.slice/libvirtd.service',
            '/machine.slice',
            '/a-qemu.slice',
            '',
        ):
            self.write('proc/4711/cgroup', f'0::{place}\n')
            self.write(f'sys/fs/cgroup{place}/memory.numa_stat', V2)
            self.assert_unreadable('proc/4711/cgroup', 'no cgroup of a')

    def test_one_outside_of_the_container(self):
        self.write('proc/4711/cgroup', f'0::/../../{SCOPE}\n')
        self.assert_unreadable('proc/4711/cgroup', 'no cgroup of a machine')

    def test_files_that_are_missing(self):
        """Such as those of a guest that has just ended."""
        stat = f'sys/fs/cgroup/{SCOPE}/memory.numa_stat'
        self.assert_unreadable('proc/4711/cgroup', 'No such file')
        self.write('proc/4711/cgroup', f'0::/{SCOPE}\n')
        self.assert_unreadable(stat, 'No such file')
        self.write(stat, V2)
        self.assertEqual(remote.parse(V2), self.read())
        (self.root / 'run/libvirt/qemu/instance-00000007.pid').unlink()
        self.assert_unreadable(
            'run/libvirt/qemu/instance-00000007.pid', 'No such file'
        )

    def test_files_that_hold_something_else(self):
        self.write('proc/4711/cgroup', '\n\u2620\n1:2\n')
        self.assert_unreadable('proc/4711/cgroup', 'no cgroup of a machine')
        self.write('proc/4711/cgroup', f'0::/{SCOPE}\n')
        stat = f'sys/fs/cgroup/{SCOPE}/memory.numa_stat'
        self.write(stat, 'anon 1\n')
        self.assert_unreadable(stat, 'no anonymous memory by node')
        for text in ('', 'x', '-1', '../1', '\u0661'):
            name = 'run/libvirt/qemu/instance-00000007.pid'
            self.write(name, text)
            self.assert_unreadable(name, 'is no process')
