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

"""What the commands say of a machine, and what happens on it then."""

import mmap
import os

import libvirt

from nova_numa_guard import tuning
from tests.numa.inside import base, host
from tests.unit.cmd import runner

SIZE = 104 * host.MIB
PAGES = SIZE // host.HUGE
NODE = 1
OUTSIDERS = 3
FREE = 10

# Of <asm-generic/mman.h>; Python does not name it.
_MAP_HUGETLB = 0x40000
_NOVA = (
    '<metadata><nova:instance '
    'xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1"/></metadata>'
)


class CommandsTest(base.MachineTestCase):
    """A node with a guest of Nova's, an outsider, and a few free pages."""

    def setUp(self) -> None:
        super().setUp()
        self.pool(NODE, PAGES + OUTSIDERS + FREE)
        cpus = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cpus)
        os.sched_setaffinity(0, host.cpus(NODE))
        outsider = mmap.mmap(
            -1,
            OUTSIDERS * host.HUGE,
            flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_HUGETLB,
        )
        self.addCleanup(outsider.close)
        for page in range(OUTSIDERS):
            outsider[page * host.HUGE] = 1

    def guest(self) -> str:
        xml = self.affined(SIZE, NODE, huge=True)
        return xml.replace('<memory ', f'{_NOVA}<memory ', 1)

    def run_command(
        self, *words: str, xml: str = '', code: int = 0
    ) -> tuple[list[dict[str, object]], str]:
        """The rows, and what is on stderr."""
        # In this process, since it takes the machine long to start another.
        result = runner.run(
            *(*words, '-f', 'json', '--uri', 'qemu:///system'), stdin=xml
        )
        self.assertEqual(code, result.code, result.stderr)
        return result.json, result.stderr

    def test_pools_and_guests(self) -> None:
        self.start(tuning.apply(self.guest(), tuning.SmallPagePolicy.AUTO))

        rows, remarks = self.run_command('pools', 'show')

        [row] = [
            row
            for row in rows
            if (row['Node'], row['Page size']) == (NODE, 2048)
        ]
        self.assertEqual(
            {
                'Node': NODE,
                'Page size': 2048,
                'Total': PAGES + OUTSIDERS + FREE,
                'Free': FREE,
                'Reclaimable': None,
                'Reserved': 0,
                'Claimed': PAGES,
                'Unaccounted': OUTSIDERS,
                'Available': FREE,
            },
            row,
        )
        self.assertIn(
            f'reserved_huge_pages = node:{NODE},size:2048,count:{OUTSIDERS}\n',
            remarks,
        )

        [row], _ = self.run_command('guests', 'list', '--placement')

        self.assertEqual({'0': str(NODE)}, row['Cells'])
        self.assertEqual('guard', row['Numatune'])
        self.assertIs(False, row['Hard reboot'])
        placement = row['Placement']
        assert isinstance(placement, dict)
        self.assertEqual(PAGES, placement[str(NODE)]['2048'])

    def test_a_guest_as_nova_starts_it(self) -> None:
        self.start(self.guest())

        [row], _ = self.run_command('guests', 'list')

        self.assertEqual('stock', row['Numatune'])
        self.assertIs(True, row['Hard reboot'])

    def test_check(self) -> None:
        """What it says is what happens."""
        xml = self.guest()
        rows, _ = self.run_command('domain', 'check', '-', xml=xml)
        self.assertEqual(
            [[NODE, 2048, PAGES, PAGES + FREE, 0]],
            [list(row.values()) for row in rows],
        )
        self.start(xml)

        other = xml.replace(self.name, 'another')
        rows, remarks = self.run_command(
            'domain', 'check', '-', xml=other, code=1
        )
        self.assertEqual(
            [[NODE, 2048, PAGES, FREE, PAGES - FREE]],
            [list(row.values()) for row in rows],
        )
        self.assertIn(f'needed {PAGES}, available {FREE}', remarks)
        self.assertRaises(
            libvirt.libvirtError, base.connection().createXML, other
        )
