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

"""The option reserved_huge_pages, and the few others that commands read."""

from nova.virt import hardware

from nova_numa_guard import reserve
from nova_numa_guard.cmd import novaconf
from tests.unit import base

CONF = base.CONF


class ReserveTest(base.TestCase):
    def test_as_nova_reads_it(self):
        entries = [
            {'node': '0', 'size': '2048', 'count': '64'},
            {'node': '1', 'size': '1GB', 'count': '1'},
            {'node': '1', 'size': '2MB', 'count': '3'},
            {'node': '1', 'size': '2048', 'count': '5'},
        ]
        self.config.config(reserved_huge_pages=entries)
        self.assertEqual(
            {
                (node, int(size)): count
                for node, sizes in (
                    hardware.numa_get_reserved_huge_pages().items()
                )
                for size, count in sizes.items()
            },
            reserve.read(entries),
        )
        self.assertEqual(
            {(0, 2048): 64, (1, 1048576): 1, (1, 2048): 5},
            reserve.read(entries),
        )

    def test_what_is_none(self):
        for entry in (
            {},
            {'node': '0', 'size': '2048'},
            {'node': 'a', 'size': '2048', 'count': '1'},
            {'node': '0', 'size': 'big', 'count': '1'},
            {'node': '0', 'size': '2048', 'count': None},
        ):
            exc = self.assertRaises(ValueError, reserve.read, [entry])
            self.assertIn('is not like node:0,size:2048', str(exc))

    def test_text(self):
        pages = {(1, 2048): 3, (0, 1048576): 1, (0, 2048): 0}
        self.assertEqual(
            [
                'reserved_huge_pages = node:0,size:1048576,count:1',
                'reserved_huge_pages = node:1,size:2048,count:3',
            ],
            reserve.text(pages),
        )

    def test_covering(self):
        self.assertEqual(
            {(0, 2048): 9, (1, 2048): 7, (2, 2048): 1},
            reserve.covering(
                {(0, 2048): 5, (1, 2048): 7}, {(0, 2048): 9, (2, 2048): 1}
            ),
        )


class OptionsTest(base.TestCase):
    def test_they_are_novas(self):
        """Described once more, and not otherwise."""
        for group, options in novaconf.OPTIONS.items():
            for option in options:
                where = CONF if group is None else CONF[group]
                known = (CONF._opts if group is None else where._group._opts)[
                    option.name
                ]['opt']
                self.assertIs(type(known), type(option))
                self.assertEqual(known.default, option.default)
                if option.name == 'reserved_huge_pages':
                    self.assertEqual(known.type, option.type)

    def test_that_of_a_file(self):
        file = self.useFixture(base.fixtures.TempDir()).join('nova.conf')
        with open(file, 'w') as stream:
            stream.write(
                '[DEFAULT]\n'
                'reserved_huge_pages = node:0,size:2048,count:64\n'
                '[libvirt]\nvirt_type = lxc\n'
            )
        conf = novaconf.read([file])
        self.assertEqual('lxc', conf.libvirt.virt_type)
        self.assertEqual(
            {(0, 2048): 64}, reserve.read(conf.reserved_huge_pages)
        )
