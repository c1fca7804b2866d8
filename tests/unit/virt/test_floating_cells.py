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

"""A compute host's cells for floating guests, on Nova's own objects."""

import json

from nova import exception, objects

from nova_numa_guard import confinement, fixture, report
from nova_numa_guard.virt import floating_cells, host_guests
from tests.unit import base, samples

CELL = samples.guest_cell


def host(*cells):
    return objects.NUMATopology(cells=list(cells)) if cells else None


class FloatingCellsTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.flags(isolation='cell', floating_cells='1')
        self.machine = self.useFixture(fixture.KernelFixture())
        self.cells = floating_cells.FloatingCells(self.machine.kernel)
        self.topology = host(samples.host_cell(0), samples.host_cell(1))

    def settle(self, **options):
        """With other options, or another topology."""
        topology = options.pop('topology', self.topology)
        self.flags(**options)
        self.cells.settle(topology)
        self.log.records.clear()

    def write(self, name, text):
        path = self.machine.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def found(self, *cells, **values):
        """A guest as host_guests finds it."""
        guest = samples.instance(*cells, **values)
        return host_guests.Found(
            host_guests.describe(guest, guest.flavor, guest.numa_topology),
            guest.numa_topology,
        )


class SettleTest(FloatingCellsTestCase):
    def assert_stops(self, *parts, **options):
        exc = self.assertRaises(
            exception.InvalidConfiguration, self.settle, **options
        )
        for part in ('[numa_guard]', *parts):
            self.assertIn(part, str(exc))
        self.assertIsNone(self.cells.confinement)
        return str(exc)

    def test_where_floating_guests_run(self):
        for mode in confinement.Mode:
            self.settle(floating_memory_mode=mode.value)
            self.assertEqual(
                confinement.Confinement(
                    nodes=frozenset({1}),
                    cpus=frozenset(range(16, 24)),
                    mode=mode,
                ),
                self.cells.confinement,
            )

    def test_several_cells(self):
        self.settle(
            floating_cells='0-1,17',
            topology=host(
                *(samples.host_cell(node) for node in (0, 1, 16, 17))
            ),
        )
        self.assertEqual({0, 1, 17}, self.cells.confinement.nodes)
        self.assertEqual(
            {*range(8), *range(16, 24), *range(272, 280)},
            self.cells.confinement.cpus,
        )

    def test_it_is_said(self):
        self.cells.settle(self.topology)
        [line] = self.log.at('INFO')
        for part in ('CPUs 16-23', 'cells 1', 'restrictive'):
            self.assertIn(part, line)

    def test_nothing_under_any_other_isolation(self):
        for word in ('none', 'host'):
            self.settle(isolation=word, topology=None)
            self.assertIsNone(self.cells.confinement)

    def test_no_cells(self):
        self.assert_stops('floating_cells names none', floating_cells='')

    def test_a_range_the_wrong_way_round(self):
        self.assert_stops('floating_cells', "'3-1'", floating_cells='3-1')

    def test_a_host_without_numa(self):
        for topology in (None, objects.NUMATopology(cells=[])):
            self.assert_stops('has no NUMA topology', topology=topology)

    def test_cells_that_the_host_does_not_have(self):
        self.assert_stops(
            'floating_cells has 4-5, but the host has 0-1',
            floating_cells='1,4-5',
        )

    def test_all_the_cells_that_it_has(self):
        self.assert_stops('no cell is left', floating_cells='0-1')

    def test_a_cell_without_shared_cpus(self):
        self.assert_stops(
            'floating cell 1 has no CPU that guests share',
            'cpu_shared_set',
            topology=host(
                samples.host_cell(0), samples.host_cell(1, cpuset=set())
            ),
        )

    def test_dedicated_cpus_on_a_cell(self):
        self.config.config(group='compute', cpu_dedicated_set='8-15,24-31')
        self.assert_stops(
            'cpu_dedicated_set reaches into floating cell 1 with CPUs 24-31'
        )

    def test_dedicated_cpus_that_nobody_asked_for(self):
        """Nova lists all CPUs as dedicated ones without the option."""
        self.settle()
        self.assertIsNotNone(self.cells.confinement)

    def test_dedicated_cpus_on_other_cells(self):
        self.config.config(group='compute', cpu_dedicated_set='8-15')
        self.settle(
            topology=host(
                samples.host_cell(0), samples.host_cell(1, pcpuset=set())
            )
        )
        self.assertIsNotNone(self.cells.confinement)

    def test_everything_that_is_wrong_is_said_at_once(self):
        self.config.config(group='compute', cpu_dedicated_set='40-47')
        self.assert_stops(
            'floating cell 1 has no CPU',
            'floating cell 2 with CPUs 40-47',
            floating_cells='1-2',
            topology=host(
                samples.host_cell(0),
                samples.host_cell(1, cpuset=set(), pcpuset=set()),
                samples.host_cell(2),
            ),
        )


class HideTest(FloatingCellsTestCase):
    def hidden(self):
        text = self.cells.hide(self.topology._to_json())
        return objects.NUMATopology.obj_from_db_obj(text)

    def test_the_floating_cells(self):
        self.topology = host(*(samples.host_cell(node) for node in range(3)))
        self.settle(floating_cells='0,2')
        self.assertEqual([1], [cell.id for cell in self.hidden().cells])

    def test_the_others_stay_as_they_are(self):
        self.settle()
        self.assertEqual(
            samples.contents(host(self.topology.cells[0])._to_json()),
            samples.contents(self.cells.hide(self.topology._to_json())),
        )

    def test_what_it_was_given_is_not_changed(self):
        self.settle()
        before = self.topology._to_json()
        self.cells.hide(before)
        self.assertEqual(2, len(self.topology.cells))

    def test_novas_own_string_without_floating_cells(self):
        text = self.topology._to_json()
        self.assertIs(text, self.cells.hide(text))
        self.settle(isolation='host')
        self.assertIs(text, self.cells.hide(text))

    def test_a_host_without_numa(self):
        self.settle()
        self.assertIsNone(self.cells.hide(None))


class CapacityTest(FloatingCellsTestCase):
    def setUp(self):
        super().setUp()
        self.config.config(reserved_host_memory_mb=0)

    def capacity(self, *found):
        return self.cells.capacity(self.topology, list(found))

    def test_none_without_floating_cells(self):
        self.assertIsNone(self.capacity())

    def test_all_of_a_cell(self):
        self.settle()
        self.assertEqual(
            report.FloatingCells(cells=(1,), cpus=8, memory=8192),
            self.capacity(),
        )

    def test_of_several_cells(self):
        self.topology = host(*(samples.host_cell(node) for node in range(3)))
        self.settle(floating_cells='0,2')
        self.assertEqual(
            report.FloatingCells(cells=(0, 2), cpus=16, memory=16384),
            self.capacity(),
        )

    def test_huge_pages_are_not_for_floating_guests(self):
        self.topology = host(
            samples.host_cell(0), samples.host_cell(1, huge=1024)
        )
        self.settle()
        self.assertEqual(8192 - 2048, self.capacity().memory)

    def test_a_cell_that_tells_of_no_pages(self):
        cell = samples.host_cell(1)
        cell.mempages = []
        self.topology = host(samples.host_cell(0), cell)
        self.settle()
        self.assertEqual(8192, self.capacity().memory)

    def test_their_part_of_what_the_host_keeps(self):
        """As large as they are among all cells, and rounded up."""
        self.config.config(reserved_host_memory_mb=1000, reserved_host_cpus=3)
        self.topology = host(
            samples.host_cell(0, huge=2048), samples.host_cell(1)
        )
        self.settle()
        self.assertEqual(
            report.FloatingCells(cells=(1,), cpus=8 - 2, memory=8192 - 667),
            self.capacity(),
        )

    def test_affined_guests_that_are_still_there(self):
        """Only what they have of these cells' small pages."""
        self.settle()
        self.assertEqual(
            8192 - 100 - 300,
            self.capacity(
                self.found(CELL(100, node=1), CELL(200, node=0)),
                self.found(CELL(300, node=1, pinned=True)),
                self.found(CELL(400, node=1, page_size=samples.HUGE)),
                self.found(),
            ).memory,
        )

    def test_never_below_zero(self):
        self.config.config(
            reserved_host_memory_mb=99999, reserved_host_cpus=99
        )
        self.settle()
        self.assertEqual(
            report.FloatingCells(cells=(1,), cpus=0, memory=0),
            self.capacity(self.found(CELL(9999, node=1))),
        )


class WarnTest(FloatingCellsTestCase):
    """What is said at start, but stops nobody."""

    def setUp(self):
        super().setUp()
        self.settle()
        self.capacity = report.FloatingCells((1,), 8, 4096)

    def warn(self, *found, pci=None):
        self.cells.warn(self.capacity, list(found), pci)
        return self.log.at('WARNING')

    def test_nothing(self):
        found = [self.found(), self.found(CELL(node=0))]
        for pci in (None, '[]'):
            self.assertEqual([], self.warn(*found, pci=pci))

    def test_affined_guests_on_floating_cells(self):
        [warning] = self.warn(
            self.found(CELL(node=1), uuid='a' * 36),
            self.found(CELL(node=0), CELL(node=1), uuid='b' * 36),
            self.found(CELL(node=0), uuid='c' * 36),
            self.found(uuid='d' * 36),
        )
        self.assertIn(
            '2 affined guests are still on floating cells 1', warning
        )
        self.assertIn(f'{"a" * 36}, {"b" * 36}', warning)
        self.assertNotIn('c' * 36, warning)

    def devices(self, *nodes, product='1520'):
        return json.dumps(
            [
                {
                    'address': f'0000:0{number}:00.0',
                    'vendor_id': '8086',
                    'product_id': product,
                    'dev_type': 'type-PCI',
                    'numa_node': node,
                }
                for number, node in enumerate(nodes)
            ]
        )

    def test_devices_for_guests_on_floating_cells(self):
        self.config.config(
            group='pci',
            device_spec=['{"vendor_id": "8086", "product_id": "1520"}'],
        )
        [warning] = self.warn(pci=self.devices(0, 1, None, 1))
        self.assertIn('2 PCI devices for guests are on', warning)
        self.assertIn('0000:01:00.0, 0000:03:00.0', warning)

    def test_devices_that_guests_do_not_get(self):
        self.assertEqual([], self.warn(pci=self.devices(1)))
        self.config.config(
            group='pci',
            device_spec=['{"vendor_id": "8086", "product_id": "1520"}'],
        )
        self.assertEqual([], self.warn(pci=self.devices(1, product='9999')))

    def swap(self, kib):
        self.write('proc/meminfo', f'MemTotal: 9 kB\nSwapTotal:  {kib} kB\n')

    def test_overcommit_without_swap(self):
        self.config.config(ram_allocation_ratio=1.5)
        self.swap(0)
        [warning] = self.warn()
        self.assertIn('6144 MiB', warning)
        self.assertIn('have 4096 MiB', warning)
        self.assertIn('no swap', warning)

    def test_overcommit_by_the_ratio_that_is_for_new_hosts(self):
        self.swap(0)
        self.config.config(initial_ram_allocation_ratio=2.0)
        [warning] = self.warn()
        self.assertIn('8192 MiB', warning)
        self.config.config(ram_allocation_ratio=1.0)
        self.assertEqual(1, len(self.warn()))

    def test_overcommit_with_swap(self):
        self.config.config(ram_allocation_ratio=1.5)
        self.swap(1)
        self.assertEqual([], self.warn())

    def test_without_overcommit_nobody_looks_for_swap(self):
        self.config.config(ram_allocation_ratio=1.0)
        self.assertEqual([], self.warn())

    def test_guests_that_have_too_much_already(self):
        self.config.config(ram_allocation_ratio=1.0)
        self.swap(0)
        [warning] = self.warn(
            self.found(flavor=samples.flavor(4000)),
            self.found(flavor=samples.flavor(97)),
            self.found(CELL(node=0), flavor=samples.flavor(9999)),
        )
        self.assertIn('4097 MiB', warning)

    def test_swap_that_cannot_be_read(self):
        self.config.config(ram_allocation_ratio=1.5)
        [warning] = self.warn()
        self.assertIn('not known if there is swap', warning)
        self.assertIn('proc/meminfo', warning)


class FakeGuest:
    """A guest of libvirt's, as nova.virt.libvirt.guest.Guest shows it."""

    name = 'instance-00000001'

    def __init__(self, active=True):
        self.active = active

    def is_active(self):
        if isinstance(self.active, Exception):
            raise self.active
        return self.active


class VerifyTest(FloatingCellsTestCase):
    """Whether the kernel keeps to what the XML says."""

    def setUp(self):
        super().setUp()
        self.settle()
        self.write(f'run/libvirt/qemu/{FakeGuest.name}.pid', '77')

    def allow(self, *nodes):
        for number, text in enumerate(nodes):
            self.write(
                f'proc/77/task/{77 + number}/status',
                f'Name:\tqemu\nMems_allowed:\t3\nMems_allowed_list:\t{text}\n',
            )

    def verify(self, *cells, guest=None):
        self.cells.verify(samples.instance(*cells), guest or FakeGuest())

    def test_it_keeps_to_them(self):
        self.allow('1', '1')
        self.verify()
        self.assertEqual([], self.log.records)

    def test_it_keeps_to_one_of_several(self):
        topology = host(*(samples.host_cell(node) for node in range(3)))
        self.settle(floating_cells='1-2', topology=topology)
        self.allow('1', '2')
        self.verify()
        self.assertEqual([], self.log.records)

    def test_it_does_not(self):
        self.allow('0-1')
        self.verify()
        [line] = self.log.at('ERROR')
        self.assertIn('may take memory from cells 0-1', line)
        self.assertIn('floating cells 1 only', line)

    def test_one_that_was_migrated_here(self):
        """A source without the guard confines its CPUs only."""
        asked = []

        class Host:
            def get_guest(self, instance):
                asked.append(instance)
                return FakeGuest()

        self.allow('1', '1')
        self.cells.verify_arrival(samples.instance(), Host())
        self.assertEqual([], self.log.records)
        self.allow('0-1')
        self.cells.verify_arrival(samples.instance(), Host())
        [line] = self.log.at('WARNING')
        self.assertIn('from cells 0-1 until its next hard reboot', line)
        self.assertEqual(2, len(asked))
        self.cells.verify_arrival(samples.instance(CELL()), Host())
        self.cells = floating_cells.FloatingCells(self.machine.kernel)
        self.cells.verify_arrival(samples.instance(), Host())
        self.assertEqual(2, len(asked))
        self.assert_logged('ERROR')

    def test_one_thread_of_it_does_not(self):
        self.allow('1', '1', '0')
        self.verify()
        self.assertEqual(1, len(self.log.at('ERROR')))

    def test_each_guest_that_does_not(self):
        self.allow('0')
        for _ in range(2):
            self.verify()
        self.assertEqual(2, len(self.log.at('ERROR')))

    def test_what_is_not_looked_at(self):
        """Affined guests, guests that are not started, other isolation."""
        self.allow('0-1')
        self.verify(CELL())
        self.verify(guest=FakeGuest(active=False))
        self.cells = floating_cells.FloatingCells(self.machine.kernel)
        self.verify()
        self.assertEqual([], self.log.records)

    def test_files_that_cannot_be_read(self):
        """Once: it is the same for all guests."""
        for _ in range(3):
            self.verify()
        [warning] = self.log.at('WARNING')
        self.assertIn('does not know if the guest keeps to', warning)
        self.assertIn('proc/77/task', warning)
        self.assert_logged('ERROR')

    def test_a_status_that_says_nothing(self):
        self.write('proc/77/task/77/status', 'Name:\tqemu\n')
        self.verify()
        [warning] = self.log.at('WARNING')
        self.assertIn('Mems_allowed_list', warning)

    def test_a_libvirt_that_does_not_answer(self):
        for error in (RuntimeError('libvirt'), RuntimeError('again')):
            self.verify(guest=FakeGuest(active=error))
        self.verify(guest=FakeGuest(active=OSError('other')))
        self.assertEqual(2, len(self.log.at('WARNING')))
