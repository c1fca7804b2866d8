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

"""The record of a host, and what a scheduler makes of it."""

from importlib import metadata
import json
import time

import fixtures
import hypothesis
from hypothesis import strategies as st
from nova import objects
from nova.compute import vm_states
from nova.objects import fields
from nova.virt import hardware
from oslo_utils import uuidutils

from nova_numa_guard import (
    confinement,
    fixture,
    guests,
    isolation,
    metrics,
    occupancy,
    refusals,
    report,
    snapshot,
    tuning,
    writing,
)
from nova_numa_guard.scheduler import host_states
from nova_numa_guard.virt import (
    complaints,
    floating_cells,
    late_check,
    reporter,
)
from tests.unit import base, samples
from tests.unit.virt import records

CELL = samples.guest_cell
ISOLATE = fields.CPUThreadAllocationPolicy.ISOLATE


class ReporterTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.records = self.useFixture(records.Records())
        self.machine = self.useFixture(fixture.KernelFixture())
        self.machine.set_pool(0, 2048, total=64, free=16)
        self.refusals = refusals.Refusals()
        self.cells = [samples.host_cell(0), samples.host_cell(1)]
        self.start()

    def start(self):
        """The service starts anew, with the options that are set."""
        self.floating_cells = floating_cells.FloatingCells(self.machine.kernel)
        self.metrics = metrics.Metrics()
        self.complained = complaints.Complaints(self.metrics)
        self.check = late_check.LateCheck(self.metrics)
        self.reporter = reporter.Reporter(
            self.machine.kernel,
            self.floating_cells,
            self.check,
            self.refusals,
            self.complained,
        )

    def by_cell(self):
        """Cell 1 is for floating guests."""
        self.flags(isolation='cell', floating_cells='1')
        self.start()
        self.floating_cells.settle(self.topology())
        self.log.records.clear()

    def topology(self):
        return objects.NUMATopology(cells=self.cells) if self.cells else None

    def resources(self, **values):
        """What Nova's driver makes of this host."""
        topology = self.topology()
        return {
            'hypervisor_hostname': 'this-node',
            'numa_topology': topology._to_json() if topology else None,
            **values,
        }

    def complete(self, **values):
        resources = self.resources(**values)
        self.reporter.complete(resources, 'this')
        return resources

    def report(self, **values):
        """The record, read as a scheduler reads it."""
        return report.decode(self.complete(**values)['stats']['numa_guard'])

    def add(self, *cells, emulator=None, flavor=None, **values):
        """A guest that Nova has placed here, pins and all."""
        topology = samples.topology(*cells, emulator=emulator)
        if cells:
            limits = objects.NUMATopologyLimits(
                cpu_allocation_ratio=16.0, ram_allocation_ratio=16.0
            )
            topology = hardware.numa_fit_instance_to_host(
                self.tracked(self.topology()), topology, {}, limits=limits
            )
            # Releases of Nova place guests unlike.
            hypothesis.assume(topology is not None)
        cpus = sum(len(cell.cpuset | cell.pcpuset) for cell in cells)
        memory = sum(cell.memory for cell in cells)
        return self.records.add(
            host='this',
            numa_topology=topology,
            flavor=flavor or samples.flavor(memory or 1024, cpus or 2),
            **values,
        )

    def tracked(self, topology):
        """What Nova's tracker makes of a topology: it counts every guest."""
        for guest in self.records.guests:
            topology = hardware.numa_usage_from_instance_numa(
                topology, guest.numa_topology
            )
        return topology

    def host_state(self):
        """What the scheduler gets from this host."""
        resources = self.complete()
        found = [guest.flavor for guest in self.records.guests]
        topology = None
        if resources['numa_topology']:
            topology = self.tracked(
                objects.NUMATopology.obj_from_db_obj(
                    resources['numa_topology']
                )
            )
        return samples.host_state(
            *(topology.cells if topology else ()),
            used=512 + sum(flavor.memory_mb for flavor in found),
            vcpus_used=sum(flavor.vcpus for flavor in found),
            guests=len(found),
            report=resources['stats']['numa_guard'],
            memory=32768,
        )

    def content(self):
        host = self.host_state()
        return host_states.content_of(host, host_states.report_of(host))


class RecordTest(ReporterTestCase):
    def test_an_empty_host(self):
        self.config.config(reserved_host_memory_mb=777, reserved_host_cpus=3)
        self.assertEqual(
            report.Report(
                isolation=isolation.Isolation.NONE,
                enforce=True,
                correction=occupancy.Correction(777, 3),
                small_memory=16384,
                headroom={2048: {0: 16}},
                written=writing.Writing(tuning.SmallPagePolicy.AUTO),
                guard=metadata.version('nova-numa-guard'),
            ),
            self.report(),
        )
        self.assertEqual([], self.log.records)

    def test_how_it_writes_xml(self):
        self.flags(numatune='stock', isolation='cell', floating_cells='0')
        self.assertEqual(writing.STOCK, self.report().written)
        confined = confinement.Confinement(frozenset({0}), frozenset({1}))
        self.floating_cells.confinement = confined
        self.assertEqual(
            writing.Writing(floating=confined), self.report().written
        )

    def test_the_options_of_the_host(self):
        for word in ('none', 'host'):
            for mode, enforce in (('enforce', True), ('warn', False)):
                self.flags(isolation=word, isolation_mode=mode)
                record = self.report()
                self.assertEqual(isolation.Isolation(word), record.isolation)
                self.assertIs(enforce, record.enforce)

    def test_guests_by_kind(self):
        self.add(flavor=samples.flavor(100, 1))
        self.add(flavor=samples.flavor(200, 2))
        self.add(CELL(400, cpus=(0, 1, 2)))
        self.add(flavor=samples.flavor(800, 4, isolation='exempt'))
        self.add(CELL(), flavor=samples.flavor(1024, 2, isolation='exempt'))
        record = self.report()
        self.assertEqual(occupancy.Share(2, 300, 3), record.floating)
        self.assertEqual(occupancy.Share(1, 400, 3), record.affined)
        self.assertEqual(
            occupancy.Share(1, 800, 4), record.correction.exempt_floating
        )
        self.assertEqual(
            occupancy.Share(1, 1024, 2), record.correction.exempt_affined
        )
        self.assertIs(guests.Kind.AFFINED, record.dominant)
        self.assertEqual(
            snapshot.Kinds('none', {'floating': 300, 'affined': 400}),
            self.reporter.kinds,
        )

    def test_nova_is_asked_as_an_administrator(self):
        self.report()
        [(context, host)] = self.records.asked
        self.assertTrue(context.is_admin)
        self.assertEqual('this', host)

    def test_guests_on_their_way_count(self):
        guest = self.records.add(host='other')
        self.records.move(guest, 'this').claim()
        self.assertEqual(1, self.report().floating.guests)

    def test_the_dominant_kind_stays_what_it_was_near_the_middle(self):
        self.add(flavor=samples.flavor(3000))
        self.assertIs(guests.Kind.FLOATING, self.report().dominant)
        self.add(CELL(3500))
        self.assertIs(guests.Kind.FLOATING, self.report().dominant)
        self.assertIs(guests.Kind.FLOATING, self.check.last)
        self.add(CELL(3500))
        self.assertIs(guests.Kind.AFFINED, self.report().dominant)
        self.records.guests.clear()
        self.assertIsNone(self.report().dominant)

    def test_huge_pages_are_not_small_memory(self):
        self.cells = [samples.host_cell(0, huge=1024), samples.host_cell(1)]
        self.assertEqual(16384 - 2048, self.report().small_memory)

    def test_free_pages_are_the_kernels(self):
        self.machine.set_pool(1, 2048, total=64, free=7)
        self.machine.set_pool(1, samples.GIANT, total=2, free=1)
        self.assertEqual(
            {2048: {0: 16, 1: 7}, samples.GIANT: {1: 1}},
            self.report().headroom,
        )

    def test_pools_that_cannot_be_read(self):
        path = (
            self.machine.root
            / 'sys/devices/system/node/node0/hugepages/hugepages-2048kB'
        )
        (path / 'free_hugepages').write_text('junk')
        for _ in range(2):
            self.assertEqual({}, self.report().headroom)
        [warning] = self.log.at('WARNING')
        self.assertIn('Free huge pages are not in the report', warning)
        self.assertIn(str(path), warning)

    def test_what_was_refused_lately(self):
        now = time.time()
        self.refusals.add({(0, 2048): 16}, now, 300)
        [refusal] = self.report().refused
        self.assertEqual((0, 2048), (refusal.node, refusal.page_size))
        self.assertAlmostEqual(now + 300, refusal.expires, places=3)
        self.machine.set_pool(0, 2048, total=64, free=17)
        self.assertEqual((), self.report().refused)

    def test_it_joins_novas_stats(self):
        stats = self.complete(stats={'uptime': 'long'})['stats']
        self.assertEqual({'uptime', 'numa_guard'}, set(stats))
        self.assertEqual('long', stats['uptime'])

    def test_a_host_without_numa(self):
        self.cells = []
        self.add(flavor=samples.flavor(100, 1))
        resources = self.complete()
        self.assertIsNone(resources['numa_topology'])
        record = report.decode(resources['stats']['numa_guard'])
        self.assertIsNone(record.small_memory)
        self.assertEqual(occupancy.Share(1, 100, 1), record.floating)
        self.assertEqual([], self.log.records)

    def test_nova_keeps_it_as_it_is(self):
        """The field takes text only, and the filter reads it back."""
        stats = self.complete()['stats']
        node = objects.ComputeNode(stats=stats)
        self.assertIsNotNone(report.decode(node.stats['numa_guard']))


class UnreadableTest(ReporterTestCase):
    def setUp(self):
        super().setUp()
        self.add(CELL())
        self.add()

    def test_guests_that_are_not_known(self):
        self.report()
        self.assertIsNotNone(self.reporter.kinds)
        self.records.failure = RuntimeError('no database')
        for _ in range(3):
            record = self.report()
            self.assertEqual(occupancy.NOBODY, record.floating)
            self.assertEqual(occupancy.NOBODY, record.affined)
            self.assertEqual(occupancy.Correction(512), record.correction)
            self.assertIsNone(self.reporter.kinds)
        [warning] = self.log.at('WARNING')
        self.assertIn('guests of this host are not known', warning)
        self.assertIn('no database', warning)

    def test_the_rest_of_the_record_is_there(self):
        self.records.failure = RuntimeError('no database')
        record = self.report()
        self.assertEqual(16384, record.small_memory)
        self.assertEqual({2048: {0: 16}}, record.headroom)

    def test_what_was_dominant_is_not_forgotten(self):
        self.report()
        kind = self.check.last
        self.assertIsNotNone(kind)
        self.records.failure = RuntimeError('no database')
        self.report()
        self.assertIs(kind, self.check.last)

    def test_novas_audit_goes_on_whatever_it_is(self):
        """Nova would hear nothing of this host any more."""
        self.by_cell()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.report.encode', lambda record: 1 / 0
            )
        )
        for _ in range(2):
            resources = self.complete()
            self.assertNotIn('numa_guard', resources.get('stats', {}))
            [cell] = objects.NUMATopology.obj_from_db_obj(
                resources['numa_topology']
            ).cells
            self.assertEqual(0, cell.id)
        [warning] = self.log.at('WARNING')
        self.assertIn('does not report to the guard: ZeroDivision', warning)

    def test_when_they_are_known_again(self):
        self.records.failure = RuntimeError('no database')
        self.report()
        self.records.failure = None
        self.assertEqual(1, self.report().floating.guests)

    def test_nor_are_floating_cells_warned_of_before_that(self):
        self.by_cell()
        self.records.guests[0].numa_topology.cells[0].id = 1
        self.records.failure = RuntimeError('no database')
        self.report()
        self.log.records.clear()
        self.records.failure = None
        for _ in range(2):
            self.report()
        [warning] = self.log.at('WARNING')
        self.assertIn('1 affined guests are still on floating', warning)

    def test_guests_that_have_the_same_cpu(self):
        """Nova itself cannot count them."""
        pinned = self.add(CELL(pinned=True))
        twin = pinned.obj_clone()
        twin.uuid = uuidutils.generate_uuid()
        self.records.guests.append(twin)
        for _ in range(2):
            correction = self.report().correction
            self.assertEqual(0, correction.unseen_memory)
            self.assertEqual(0, correction.unseen_vcpus)
        [warning] = self.log.at('WARNING')
        self.assertIn('What Nova counts of affined guests', warning)


class MixedTest(ReporterTestCase):
    def setUp(self):
        super().setUp()
        self.flags(isolation='host')
        self.floating = self.add(flavor=samples.flavor(2048))

    def test_once_until_it_is_not_mixed(self):
        affined = self.add(CELL(1024))
        for _ in range(3):
            self.report()
        self.assert_logged(
            'WARNING',
            'NUMA guard: this host holds both kinds of guest, floating ones '
            'of 2048 MiB and affined ones of 1024 MiB; the minority is '
            f'{affined.uuid}',
        )
        self.records.guests.remove(affined)
        self.report()
        self.records.guests.append(affined)
        self.report()
        self.assertEqual(2, len(self.log.at('WARNING')))

    def test_the_minority_is_the_smaller_kind(self):
        self.add(CELL(3000))
        self.add(CELL(3000))
        self.add(flavor=samples.flavor(isolation='exempt'))
        self.report()
        [warning] = self.log.at('WARNING')
        self.assertTrue(
            warning.endswith(f'the minority is {self.floating.uuid}')
        )

    def test_hosts_that_may_be_mixed(self):
        self.add(CELL())
        for word in ('none', 'cell'):
            self.flags(isolation=word)
            if word == 'cell':
                self.by_cell()
            self.report()
        self.assert_logged('WARNING')

    def test_exempt_guests_do_not_mix(self):
        self.add(CELL(), flavor=samples.flavor(1024, 2, isolation='exempt'))
        self.report()
        self.assert_logged('WARNING')


class SeenTest(ReporterTestCase):
    """What Nova's cells do not show: its own functions are the judge."""

    def unseen(self):
        correction = self.report().correction
        return correction.unseen_memory, correction.unseen_vcpus

    def test_all_is_seen(self):
        self.add(CELL())
        self.add(CELL(pinned=True))
        self.add()
        self.assertEqual((0, 0), self.unseen())

    def test_isolated_threads_pin_more_cpus_than_the_guest_has(self):
        self.cells = [
            samples.host_cell(0, **samples.PIN_SET),
            samples.host_cell(1),
        ]
        self.add(CELL(pinned=True, cpu_thread_policy=ISOLATE))
        self.assertEqual((0, -2), self.unseen())

    def test_so_do_isolated_emulator_threads(self):
        self.add(
            CELL(pinned=True),
            emulator=fields.CPUEmulatorThreadsPolicy.ISOLATE,
        )
        self.assertEqual((0, -1), self.unseen())

    def test_guests_on_hidden_cells(self):
        self.add(CELL(1024, node=0))
        self.by_cell()
        guest = self.add(CELL(2048, cpus=(0, 1, 2)))
        guest.numa_topology.cells[0].id = 1
        self.assertEqual((2048, 3), self.unseen())

    def test_guests_with_one_cell_of_two_hidden(self):
        guest = self.add(CELL(1000, cpus=(0,)), CELL(500, cpus=(1,), node=1))
        self.assertEqual(
            [0, 1], [cell.id for cell in guest.numa_topology.cells]
        )
        self.assertEqual((0, 0), self.unseen())
        self.by_cell()
        self.assertEqual((500, 1), self.unseen())


class CellTest(ReporterTestCase):
    def test_nova_does_not_see_the_floating_cells(self):
        self.by_cell()
        text = self.complete()['numa_topology']
        cells = objects.NUMATopology.obj_from_db_obj(text).cells
        self.assertEqual([0], [cell.id for cell in cells])

    def test_the_scheduler_is_told_what_they_have(self):
        self.by_cell()
        record = self.report()
        self.assertEqual(isolation.Isolation.CELL, record.isolation)
        self.assertEqual(
            report.FloatingCells(cells=(1,), cpus=8, memory=8192 - 256),
            record.floating_cells,
        )
        self.assertEqual(16384, record.small_memory)

    def test_before_they_are_known_nothing_is_confined(self):
        """And a record of cells that names none would be no sound one."""
        self.flags(isolation='cell', floating_cells='1')
        self.start()
        record = self.report()
        self.assertEqual(isolation.Isolation.NONE, record.isolation)
        self.assertIsNone(record.floating_cells)

    def test_affined_guests_that_are_there_take_of_it(self):
        guest = self.add(CELL(1000))
        guest.numa_topology.cells[0].id = 1
        self.by_cell()
        self.assertEqual(
            8192 - 256 - 1000, self.report().floating_cells.memory
        )

    def test_what_is_not_as_it_should_be_is_said_once(self):
        guest = self.add(CELL())
        guest.numa_topology.cells[0].id = 1
        self.config.config(
            group='pci',
            device_spec=['{"vendor_id": "8086", "product_id": "1520"}'],
        )
        self.by_cell()
        devices = json.dumps(
            [
                {
                    'address': '0000:01:00.0',
                    'vendor_id': '8086',
                    'product_id': '1520',
                    'dev_type': 'type-PCI',
                    'numa_node': 1,
                }
            ]
        )
        for _ in range(2):
            self.complete(pci_passthrough_devices=devices)
        first, second = self.log.at('WARNING')
        self.assertIn(guest.uuid, first)
        self.assertIn('0000:01:00.0', second)

    def test_other_hosts_have_no_floating_cells(self):
        for word in ('none', 'host'):
            self.flags(isolation=word)
            self.start()
            self.assertIsNone(self.report().floating_cells)


GUESTS = st.lists(
    st.sampled_from(
        [
            'floating',
            'exempt',
            'shared',
            'pinned',
            'isolated',
            'emulator',
            'two cells',
            'exempt affined',
            'hidden',
        ]
    ),
    max_size=5,
)


class SchedulerTest(ReporterTestCase):
    """From Nova's records to what the scheduler believes, and nothing lost."""

    def setUp(self):
        super().setUp()
        self.config.config(reserved_host_memory_mb=512)

    def put(self, word):
        """Put a guest here, and add its MiB to the kind that it is."""
        exempt = samples.flavor(1024, 2, isolation='exempt')
        if word == 'floating':
            self.add(flavor=samples.flavor(300, 3))
            self.expected['floating'] += 300
        elif word == 'exempt':
            self.add(flavor=exempt)
        elif word == 'exempt affined':
            self.add(CELL(), flavor=exempt)
        elif word == 'two cells':
            self.add(CELL(100, cpus=(0,)), CELL(50, cpus=(1,), node=1))
            self.expected['affined'] += 150
        elif word == 'hidden':
            guest = self.add(CELL(70))
            guest.numa_topology.cells[0].id = 2
            self.expected['affined'] += 70
        else:
            self.add(
                CELL(
                    200,
                    pinned=word != 'shared',
                    cpu_thread_policy=ISOLATE if word == 'isolated' else None,
                ),
                emulator=fields.CPUEmulatorThreadsPolicy.ISOLATE
                if word == 'emulator'
                else None,
            )
            self.expected['affined'] += 200

    @hypothesis.settings(max_examples=60)
    @hypothesis.given(GUESTS, st.booleans())
    def test_guests_by_kind(self, words, by_cell):
        self.records.guests.clear()
        self.expected = {'floating': 0, 'affined': 0}
        self.cells = [
            samples.host_cell(0, **samples.PIN_SET),
            samples.host_cell(1),
            samples.host_cell(2),
        ]
        for word in words:
            if word == 'hidden' and not by_cell:
                continue
            self.put(word)
        self.flags(isolation='cell' if by_cell else 'host', floating_cells='2')
        self.start()
        self.floating_cells.settle(self.topology())
        present = self.content()
        self.assertEqual(
            self.expected,
            {'floating': present.floating, 'affined': present.affined},
        )
        untied = [
            guest.flavor
            for guest in self.records.guests
            if guest.numa_topology is None
        ]
        self.assertEqual(
            sum(flavor.memory_mb for flavor in untied), present.untied.memory
        )
        # Elsewhere Nova alone counts them.
        if by_cell:
            self.assertEqual(
                sum(flavor.vcpus for flavor in untied), present.untied.vcpus
            )

    def test_a_guest_that_is_built_is_in_both_figures(self):
        """Nova has claimed it, and its record shows it."""
        self.add(CELL(200), vm_state=vm_states.BUILDING)
        self.assertEqual(
            occupancy.HostContent(floating=0, affined=200), self.content()
        )
