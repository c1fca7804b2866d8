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

"""What is checked on a compute host, against libvirt's own test driver."""

import pathlib

from nova_numa_guard import fixture, host_cells
from nova_numa_guard.status import (
    cell,
    checks,
    configured,
    host,
    mounts,
    old_guests,
    overcommit,
    reclaim,
    reserve,
)
from tests.unit import base
from tests.unit.status import configuration, hosts, test_scheduler_checks

Code = test_scheduler_checks.Code

CAPABILITIES = """
<capabilities><host><topology><cells num='2'>
  <cell id='0'>
    <memory unit='KiB'>8388608</memory>
    <pages unit='KiB' size='4'>1048576</pages>
    <pages unit='KiB' size='2048'>2048</pages>
    <cpus num='4'><cpu id='0'/><cpu id='1'/><cpu id='2'/><cpu id='3'/></cpus>
  </cell>
  <cell id='16'>
    <memory unit='KiB'>4194304</memory>
    <cpus num='2'><cpu id='4'/><cpu id='5'/></cpus>
  </cell>
</cells></topology></host></capabilities>
"""


class HostCellsTest(base.TestCase):
    def read(self, shared=None, dedicated=None):
        return [
            (
                each.id,
                set(each.shared_cpus),
                set(each.dedicated_cpus),
                each.small_memory,
            )
            for each in host_cells.read(
                CAPABILITIES, host_cells.CPUSets(shared, dedicated)
            )
        ]

    def test_cells(self):
        """Without huge pages libvirt may list none at all."""
        self.assertEqual(
            [(0, {0, 1, 2, 3}, set(), 4096), (16, {4, 5}, set(), 4096)],
            self.read(),
        )

    def test_cpus(self):
        self.assertEqual(
            [({0, 1}, {3}), (set(), {5})],
            [
                each[1:3]
                for each in self.read(frozenset({0, 1}), frozenset({3, 5}))
            ],
        )
        self.assertEqual(
            [(set(), {3}), (set(), set())],
            [each[1:3] for each in self.read(dedicated=frozenset({3}))],
        )

    def test_nonsense(self):
        for text in ('', '<a', CAPABILITIES.replace("id='16'", "id='x'")):
            self.assertRaises(
                ValueError, host_cells.read, text, host_cells.CPUSets()
            )


class ComputeTestCase(test_scheduler_checks.CheckTestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(hosts.Libvirt())
        self.kernel = self.useFixture(fixture.KernelFixture())

    def host(self, conf=None, **guard):
        return host.Host(
            conf or configuration.of(self, numa_guard=guard),
            root=self.kernel.root,
        )

    def silent(self):
        """A host whose libvirt does not answer."""
        conf = configuration.of(self)
        return host.Host(
            conf, 'qemu+unix:///system?socket=/nowhere', self.kernel.root
        )


class ConfiguredTest(ComputeTestCase):
    def found(self, driver, code, *parts):
        conf = configuration.of(self, driver)
        self.assert_found(configured.ConfiguredCheck(conf), code, *parts)

    def test_it(self):
        self.found('numa_guard.NUMAGuardDriver', Code.SUCCESS)
        self.found('libvirt.LibvirtDriver', Code.WARNING, 'neither pages nor')
        self.found('', Code.WARNING, 'has no compute_driver')
        self.found(
            'nova_numa_guard.virt.driver.NUMAGuardDriver',
            Code.FAILURE,
            'would not find',
        )


class ReserveTest(ComputeTestCase):
    def found(self, code, *parts, reserved=(), **guard):
        entries = [
            ','.join(f'{key}:{value}' for key, value in each.items())
            for each in reserved
        ]
        conf = configuration.of(
            self, default={'reserved_huge_pages': entries}, numa_guard=guard
        )
        self.assert_found(reserve.ReserveCheck(self.host(conf)), code, *parts)

    def setUp(self):
        super().setUp()
        self.kernel.set_pool(0, 2048, total=100, free=60)
        self.libvirt.guest((0, 65536, 2048))  # 32 pages of the 40 in use

    def test_others_hold_pages(self):
        self.found(
            Code.WARNING,
            'Node 0, pages of 2048 KiB: 8 are held by others than Nova, and '
            '0 are reserved',
            'reserved_huge_pages = node:0,size:2048,count:8',
            'accounting',
        )
        self.found(
            Code.WARNING, 'accounting is off, so Nova', accounting=False
        )

    def test_they_are_reserved(self):
        for size in ('2048', '2MB', '2MiB'):
            entry = {'node': '0', 'size': size, 'count': '8'}
            self.found(Code.SUCCESS, reserved=[entry])

    def test_another_tool_s_domain_is_an_outsider(self):
        self.libvirt.guest(
            (0, 8192, 2048),
            name='other',
            write=lambda xml: xml.replace('openstack.org', 'example.org'),
        )
        self.found(Code.WARNING, ': 8 are held by others')

    def test_too_many_are_reserved(self):
        self.found(
            Code.WARNING,
            '200 pages of 2048 KiB on node 0, but its pool has 100',
            '1 pages of 2048 KiB on node 1, but the host has no such',
            reserved=[
                {'node': '0', 'size': '2048', 'count': '200'},
                {'node': '1', 'size': '2048', 'count': '1'},
            ],
        )

    def test_nova_cannot_read_it(self):
        for entry in (
            {'node': '0', 'size': '2048'},
            {'node': '0', 'size': '2M', 'count': '1'},
        ):
            self.found(
                Code.FAILURE, "reserved_huge_pages: 'node:0", reserved=[entry]
            )

    def test_libvirt_is_silent(self):
        error = self.assertRaises(
            checks.CannotCheckError, reserve.ReserveCheck(self.silent()).run
        )
        self.assertIn('/nowhere', str(error))


class OldGuestsTest(ComputeTestCase):
    def found(self, code, *parts, driver=None, **guard):
        conf = configuration.of(
            self, driver or configuration.GUARD, numa_guard=guard
        )
        self.assert_found(
            old_guests.OldGuestsCheck(self.host(conf)), code, *parts
        )

    def test_the_guard_s(self):
        self.libvirt.guest((0, 65536, 2048))
        self.libvirt.guest(name='floating')
        self.found(Code.SUCCESS)

    def test_nova_s(self):
        old = self.libvirt.guest((0, 65536, 2048), write=str)
        self.found(
            Code.WARNING,
            'bound strictly as a whole',
            f'- {old.UUIDString()} instance-1',
            'Hard-reboot each',
        )
        self.found(Code.SUCCESS, numatune='stock')
        self.found(
            Code.SUCCESS,
            old.UUIDString(),
            'Once nova-compute has',
            driver='libvirt.LibvirtDriver',
        )

    def test_confidential_guests_stay_as_they_are(self):
        self.libvirt.guest(
            (0, 65536, 2048),
            write=lambda xml: xml.replace(
                '</domain>', '<launchSecurity type="s390-pv"/></domain>'
            ),
        )
        self.found(Code.SUCCESS)

    def test_floating_guests_are_not_confined(self):
        free = self.libvirt.guest(name='floating')
        self.found(
            Code.WARNING,
            'not confined to the floating cells',
            free.UUIDString(),
            isolation='cell',
            floating_cells='0',
        )


class CellTest(ComputeTestCase):
    """libvirt's test driver has cells of its own, of 8 CPUs each."""

    def found(self, code, *parts, shared='', dedicated='', **guard):
        conf = configuration.of(
            self,
            compute={
                'cpu_shared_set': shared,
                'cpu_dedicated_set': dedicated,
            },
            numa_guard=guard,
        )
        self.assert_found(cell.CellCheck(self.host(conf)), code, *parts)

    CELL = {'isolation': 'cell', 'floating_cells': '0'}

    def test_it_is_possible(self):
        self.found(Code.SUCCESS, **self.CELL)

    def test_nova_compute_would_not_start(self):
        for guard, part in (
            ({'floating_cells': ''}, 'floating_cells names none'),
            ({'floating_cells': '7'}, 'floating_cells has 7'),
            ({'floating_cells': '3-1'}, '3-1'),
        ):
            self.found(Code.FAILURE, part, **{**self.CELL, **guard})
        self.found(
            Code.FAILURE,
            'cpu_dedicated_set reaches into floating cell 0',
            dedicated='0',
            **self.CELL,
        )
        self.found(Code.FAILURE, 'cpu_shared_set', shared='a-b', **self.CELL)

    def test_it_is_not_asked_for(self):
        self.found(
            Code.WARNING,
            'would not start with isolation = cell',
            floating_cells='7',
        )
        self.found(
            Code.SUCCESS,
            'floating_cells = 0 would contradict',
            'floating_cells = 1 would be possible',
            dedicated='0',
            shared='8-11',
        )

    def test_affined_guests_are_there(self):
        guest = self.libvirt.guest((0, 65536, 2048))
        self.libvirt.guest((1, 65536, 2048), name='elsewhere')
        self.found(
            Code.WARNING, f'- {guest.UUIDString()} instance-1', **self.CELL
        )

    def test_memory_is_overcommitted(self):
        conf = configuration.of(
            self, default={'ram_allocation_ratio': 1.5}, numa_guard=self.CELL
        )
        check = cell.CellCheck(self.host(conf))
        meminfo = pathlib.Path(self.kernel.root, 'proc/meminfo')
        meminfo.write_text('SwapTotal:       0 kB\n')
        self.assert_found(check, Code.WARNING, 'has no swap')
        meminfo.write_text('SwapTotal:      12 kB\n')
        self.assert_found(check, Code.SUCCESS)
        meminfo.unlink()
        self.assertRaises(checks.CannotCheckError, check.run)


class KernelTest(ComputeTestCase):
    def reclaim(self, mode):
        path = pathlib.Path(self.kernel.root, 'proc/sys/vm/zone_reclaim_mode')
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{mode}\n')

    def test_zone_reclaim_mode(self):
        check = reclaim.ReclaimCheck(self.host())
        self.reclaim(1)
        self.assert_found(check, Code.SUCCESS)
        self.reclaim(0)
        self.assert_found(check, Code.SUCCESS, 'drops file cache')
        self.assert_found(
            reclaim.ReclaimCheck(self.host(small_page_policy='strict')),
            Code.SUCCESS,
        )
        for mode in (3, 5, 7):
            self.reclaim(mode)
            self.assert_found(check, Code.WARNING, f'It is {mode}')

    def test_there_is_no_such_file(self):
        for check in (
            reclaim.ReclaimCheck,
            mounts.MountsCheck,
            overcommit.OvercommitCheck,
        ):
            error = self.assertRaises(
                checks.CannotCheckError, check(self.host()).run
            )
            self.assertIn('cannot read', str(error))

    def test_overcommit(self):
        self.kernel.set_pool(0, 2048, total=4, free=4)
        self.kernel.set_bound(2048)
        check = overcommit.OvercommitCheck(self.host())
        self.assert_found(check, Code.SUCCESS)
        self.kernel.set_bound(2048, overcommit=3)
        self.assert_found(check, Code.WARNING, 'may add 3', 'echo 0 >')

    def test_mounts(self):
        self.kernel.set_pool(0, 2048, total=4, free=3)
        self.kernel.set_pool(1, 2048, total=4, free=2)
        self.kernel.set_bound(2048)
        here = self.host()
        check = mounts.MountsCheck(here)
        self.assert_found(check, Code.SUCCESS)
        for left, code, parts in (
            (5, Code.SUCCESS, ()),
            (4, Code.WARNING, ('has 5 free, and hugetlbfs gives out 4',)),
        ):
            here.kernel._mount_free = lambda size, left=left: left
            self.assert_found(check, code, *parts)
