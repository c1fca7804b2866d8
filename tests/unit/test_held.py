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

"""The huge pages that the process of a guest has touched."""

import contextlib
import os
from unittest import mock

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import pools
from tests.unit import test_pools

NAME = 'instance-00000007'
PID = f'run/libvirt/qemu/{NAME}.pid'
MAPS = 'proc/4711/numa_maps'
RAM = (
    r'/dev/hugepages/libvirt/qemu/1-instance-00000007/'
    r'qemu_back_mem.ram-node0.{}\040(deleted)'
)
# Of a line, and of what is none.
PARTS = [
    ' ',
    '\n',
    '7f2',
    'huge',
    'N0=1',
    'N1=x',
    'N=',
    'file=a',
    'kernelpagesize_kB=2048',
    'kernelpagesize_kB=',
    '\xff',
]


class HeldTest(test_pools.PoolsTestCase):
    def setUp(self):
        super().setUp()
        self.machine.set_process(NAME, 4711)

    def held(self, *lines):
        """What is held by a process with these mappings."""
        if lines:
            text = ''.join(f'{line}\n' for line in lines)
            self.write(MAPS, os.fsencode(text))
        return self.kernel.held(NAME)

    def mapping(self, counts, file='A', address='7f2000000000', size=2048):
        return (
            f'{address} bind:0 file={RAM.format(file)} huge dirty=36 {counts}'
            f' kernelpagesize_kB={size}'
        )

    def test_by_node_and_size(self):
        held = {(0, 2048): 36, (16, 2048): 1, (0, 1048576): 2}
        self.machine.set_process(NAME, 4711, held)
        self.assertEqual(held, self.held())

    def test_none(self):
        """Small pages, transparent huge ones among them, do not count."""
        self.assertEqual({}, self.held())

    def test_of_several_nodes(self):
        self.assertEqual(
            {(0, 2048): 30, (1, 2048): 6},
            self.held(self.mapping('N0=30 N1=6')),
        )

    def test_a_policy_of_two_words(self):
        for policy in (
            'default',
            'prefer (many):0',
            'weighted interleave:0-1',
            'bind=static:0',
        ):
            self.assertEqual(
                {(0, 2048): 36},
                self.held(
                    f'7f2000000000 {policy} file={RAM} huge N0=36'
                    ' kernelpagesize_kB=2048'
                ),
            )

    def test_untouched(self):
        """The kernel then says no size either."""
        self.assertEqual({}, self.held(f'7f2000000000 bind:0 file={RAM} huge'))

    def test_memory_backends_are_summed(self):
        self.assertEqual(
            {(0, 2048): 46},
            self.held(
                self.mapping('N0=36', 'A'),
                self.mapping('N0=10', 'B', '7f3000000000'),
            ),
        )

    def test_a_file_that_is_mapped_twice_counts_once(self):
        """By node: what either mapping has not touched counts as well."""
        self.assertEqual(
            {(0, 2048): 36, (1, 2048): 7},
            self.held(
                self.mapping('N0=36 N1=5', 'A'),
                self.mapping('N0=20 N1=7', 'A', '7f3000000000'),
            ),
        )

    def test_memory_of_no_file_is_summed(self):
        self.assertEqual(
            {(0, 2048): 3},
            self.held(
                '7f2000000000 bind:0 huge N0=1 kernelpagesize_kB=2048',
                '7f3000000000 bind:0 huge N0=2 kernelpagesize_kB=2048',
            ),
        )

    def test_memfds_of_cells_on_nodes_of_their_own(self):
        """QEMU names all of them alike."""
        file = r'file=/memfd:memory-backend-memfd\040(deleted)'
        self.assertEqual(
            {(0, 2048): 36, (1, 2048): 40},
            self.held(
                f'7f2 bind:0 {file} huge N0=36 kernelpagesize_kB=2048',
                f'7f3 bind:1 {file} huge N1=40 kernelpagesize_kB=2048',
            ),
        )

    def test_a_name_of_several_words_to_python(self):
        """The kernel escapes a blank, but no other white space."""
        for space in ('\x0b', '\x0c', '\r', '\x1c', '\x85', '\xa0', '\u2028'):
            name = f'a{space}huge{space}N1=7'
            self.assertEqual(
                {(0, 2048): 36}, self.held(self.mapping('N0=36', name))
            )
            self.assertEqual(
                {},
                self.held(f'7f2 default file={name} N0=7 kernelpagesize_kB=4'),
            )
            self.assertEqual(
                {(0, 2048): 36},
                self.held(
                    f'7f2 default file={name} huge N0=36'
                    ' kernelpagesize_kB=2048'
                ),
            )

    def test_a_name_that_is_not_text(self):
        self.assertEqual(
            {(0, 2048): 36},
            self.held(self.mapping('N0=36', os.fsdecode(b'caf\xe9'))),
        )

    def test_it_is_read_anew(self):
        for pages in (1, 2):
            self.machine.set_process(NAME, 4711, {(0, 2048): pages})
            self.assertEqual({(0, 2048): pages}, self.held())

    def test_another_process_after_a_restart(self):
        self.held()
        self.machine.set_process(NAME, 4712, {(0, 2048): 5})
        self.assertEqual({(0, 2048): 5}, self.held())

    def test_nothing_of_a_process_stays_open(self):
        self.held()
        opened = [
            os.path.realpath(f'/proc/self/fd/{number}')
            for number in os.listdir('/proc/self/fd')
        ]
        root = os.path.realpath(self.machine.root)
        self.assertEqual([], [p for p in opened if p.startswith(root)])

    def test_a_size_that_is_not_said(self):
        self.write(MAPS, f'7f2 bind:0 file={RAM} huge N0=36\n'.encode())
        self.assert_unreadable(
            MAPS, 'does not say the size', self.kernel.held, NAME
        )

    def test_a_guest_that_does_not_run(self):
        (self.machine.root / PID).unlink()
        self.assert_unreadable(PID, 'No such file', self.kernel.held, NAME)

    def test_a_pid_that_is_none(self):
        self.write(PID, b'../1')
        self.assert_unreadable(PID, 'not a number', self.kernel.held, NAME)

    def test_a_process_that_is_gone(self):
        (self.machine.root / MAPS).unlink()
        self.assert_unreadable(MAPS, 'No such file', self.kernel.held, NAME)

    def test_a_process_that_is_ending(self):
        """It has no memory any more, but the kernel may not have all back."""
        self.write(MAPS, b'')
        self.assert_unreadable(MAPS, 'no memory', self.kernel.held, NAME)

    def test_no_permission(self):
        real = open

        def refusing(path, *args):
            if str(path).endswith('numa_maps'):
                raise PermissionError(13, 'Permission denied')
            return real(path, *args)

        with mock.patch('builtins.open', refusing):
            self.assert_unreadable(
                MAPS, 'Permission denied', self.kernel.held, NAME
            )

    @hypothesis.given(
        st.lists(
            st.tuples(
                st.sampled_from((0, 1, 16)),
                st.sampled_from((2048, 1048576)),
                st.integers(0, 1 << 40),
            ),
            unique_by=lambda entry: entry[:2],
        )
    )
    def test_what_the_kernel_writes(self, entries):
        held = {(node, size): pages for node, size, pages in entries}
        self.machine.set_process(NAME, 4711, held)
        self.assertEqual({k: v for k, v in held.items() if v}, self.held())

    @hypothesis.given(
        st.lists(
            st.sampled_from(PARTS),
            max_size=30,
        )
    )
    def test_whatever_the_file_holds(self, parts):
        self.write(MAPS, os.fsencode(''.join(parts)))
        with contextlib.suppress(pools.UnreadableError):
            self.assertLessEqual(set(self.held()), {(0, 2048)})
