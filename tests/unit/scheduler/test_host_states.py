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

"""Nova's HostState and RequestSpec, read as the pure modules want them."""

import hypothesis
from hypothesis import strategies as st
from nova import objects
from nova.objects import fields
from nova.scheduler import host_manager

from nova_numa_guard import (
    guests,
    isolation,
    occupancy,
    policies,
    report,
    room,
)
from nova_numa_guard.scheduler import host_states
from tests.unit import base, samples

REPORT = samples.record_text()
CELLS = report.FloatingCells(cells=(1,), cpus=8, memory=4096)


class ExplodingHostState(host_manager.HostState):
    """One that tells if somebody makes it ask the database."""

    @property
    def instances(self):
        raise AssertionError('HostState.instances was read')

    @instances.setter
    def instances(self, value):
        pass


def content_of(host):
    return host_states.content_of(host, host_states.report_of(host))


class ContentTest(base.TestCase):
    def assert_content(self, floating, affined, host):
        self.assertEqual(
            occupancy.HostContent(floating=floating, affined=affined),
            content_of(host),
        )

    def reserved(self, mib):
        return samples.record_text(reserved=mib)

    def test_a_host_that_was_never_updated(self):
        host = host_manager.HostState('host1', 'node1', None)
        self.assertFalse(hasattr(host, 'stats'))
        self.assert_content(0, 0, host)

    def test_an_empty_host(self):
        self.assert_content(0, 0, samples.host_state(samples.host_cell(0)))

    def test_a_host_without_numa(self):
        self.assert_content(0, 0, samples.host_state())
        self.assert_content(
            2048, 0, samples.host_state(used=2560, guests=1, vcpus_used=2)
        )

    def test_a_host_without_cells(self):
        host = samples.host_state(samples.host_cell(0), used=2560, guests=1)
        host.numa_topology.cells = []
        self.assert_content(2048, 0, host)

    def test_both_kinds(self):
        cells = (
            samples.host_cell(0, memory_usage=1024, cpu_usage=2),
            samples.host_cell(1, memory_usage=512, pinned_cpus={24, 25}),
        )
        values = {'used': 512 + 1536 + 256, 'guests': 3, 'vcpus_used': 5}
        for text in (None, self.reserved(512)):
            self.assert_content(
                256, 1536, samples.host_state(*cells, report=text, **values)
            )

    def test_pinned_cpus_are_cpus_of_affined_guests(self):
        """cpu_usage does not count them."""
        host = samples.host_state(
            samples.host_cell(0, memory_usage=1024, pinned_cpus={8, 9, 10}),
            used=4096,
            guests=1,
            vcpus_used=3,
        )
        self.assert_content(0, 1024, host)

    def test_a_reserve_that_the_scheduler_does_not_know(self):
        """Only the host's report tells 4096 MiB of reserve from a guest."""
        cell = samples.host_cell(0, memory_usage=1024, cpu_usage=2)
        values = {'used': 4096 + 1024, 'guests': 1, 'vcpus_used': 4}
        self.config.config(reserved_host_memory_mb=512)
        self.assert_content(3584, 1024, samples.host_state(cell, **values))
        self.assert_content(
            0,
            1024,
            samples.host_state(cell, report=self.reserved(4096), **values),
        )

    def test_the_report_counts_and_not_the_schedulers_option(self):
        self.config.config(reserved_host_memory_mb=8192)
        host = samples.host_state(
            samples.host_cell(0, memory_usage=1024),
            used=512 + 1024 + 2048,
            guests=2,
            report=self.reserved(512),
        )
        self.assert_content(2048, 1024, host)

    def test_without_a_report_the_schedulers_option_counts(self):
        self.config.config(reserved_host_memory_mb=1024)
        self.assert_content(
            1536, 0, samples.host_state(used=2560, guests=1, vcpus_used=1)
        )

    def test_it_is_said_whether_the_host_has_reported(self):
        for text, estimated in ((None, True), (REPORT, False)):
            host = samples.host_state(samples.host_cell(0), report=text)
            self.assertIs(estimated, content_of(host).estimated)

    def test_affined_guests_on_hidden_cells(self):
        """They are in the total, and in no cell that Nova shows."""
        host = samples.host_state(
            samples.host_cell(0, memory_usage=1024, cpu_usage=2),
            used=512 + 1024 + 2048 + 256,
            vcpus_used=1 + 2 + 4 + 3,
            guests=3,
            report=samples.record_text(
                'cell',
                cells=CELLS,
                reserved_cpus=1,
                unseen_memory=2048,
                unseen_vcpus=4,
            ),
        )
        self.assert_content(256, 3072, host)
        self.assertEqual(
            occupancy.Share(memory=256, vcpus=3), content_of(host).untied
        )

    def test_exempt_guests_are_of_no_kind(self):
        """But have a part in what is left of the host."""
        host = samples.host_state(
            samples.host_cell(0, memory_usage=1024),
            used=512 + 1024 + 2048,
            vcpus_used=4,
            guests=2,
            report=samples.record_text(
                exempt_floating=occupancy.Share(1, 2048, 4),
                exempt_affined=occupancy.Share(1, 1024, 2),
            ),
        )
        self.assert_content(0, 0, host)
        self.assertEqual(2048, content_of(host).untied.memory)

    def test_instances_are_not_touched(self):
        host = samples.host_state(
            samples.host_cell(0), cls=ExplodingHostState, used=2560, guests=1
        )
        self.assertRaises(AssertionError, lambda: host.instances)
        self.assert_content(2048, 0, host)


class ConsumeTest(base.TestCase):
    """Guests of one request, placed one by one with Nova's own code."""

    def consume(self, spec, report=None, **cell):
        host = samples.host_state(
            samples.host_cell(0, huge=1024, **cell), report=report
        )
        host.consume_from_request(spec)
        self.assertEqual(1, host.num_instances)
        self.assertIsNotNone(host.updated)  # or consuming failed
        return content_of(host)

    def test_a_floating_guest(self):
        for text in (None, REPORT):
            self.assertEqual(
                occupancy.HostContent(floating=1024, affined=0),
                self.consume(samples.request(), report=text),
            )

    def test_affined_guests(self):
        for cell in (
            samples.guest_cell(),
            samples.guest_cell(page_size=2048),
            samples.guest_cell(pinned=True),
            samples.guest_cell(
                pinned=True,
                cpu_thread_policy=fields.CPUThreadAllocationPolicy.REQUIRE,
            ),
        ):
            for text in (None, REPORT):
                self.assertEqual(
                    occupancy.HostContent(floating=0, affined=1024),
                    self.consume(samples.request(cell), report=text),
                    cell,
                )

    def test_isolated_threads(self):
        """They pin whole cores: twice the CPUs that the guest has."""
        for text in (None, REPORT):
            cell = samples.guest_cell(
                pinned=True,
                cpu_thread_policy=fields.CPUThreadAllocationPolicy.ISOLATE,
            )
            self.assertEqual(
                occupancy.HostContent(floating=0, affined=1024),
                self.consume(
                    samples.request(cell), report=text, **samples.PIN_SET
                ),
            )

    def test_isolated_emulator_threads(self):
        """They pin a CPU more than the guest has."""
        for text in (None, REPORT):
            spec = samples.request(
                samples.guest_cell(pinned=True),
                emulator=fields.CPUEmulatorThreadsPolicy.ISOLATE,
            )
            self.assertEqual(
                occupancy.HostContent(floating=0, affined=1024),
                self.consume(spec, report=text),
            )

    def test_two_cells(self):
        host = samples.host_state(
            samples.host_cell(0), samples.host_cell(1), report=REPORT
        )
        host.consume_from_request(
            samples.request(
                samples.guest_cell(cpus=(0,), node=0),
                samples.guest_cell(cpus=(1,), node=1),
                memory=2048,
            )
        )
        self.assertEqual(
            occupancy.HostContent(floating=0, affined=2048), content_of(host)
        )


class BadReportTest(base.TestCase):
    JUNK = (
        '',
        'junk',
        '[]',
        '{}',
        '{"version": 1}',
        '{"version": Infinity}',
        '{"version": 1, "reserved": [-1, 0]}',
        REPORT.replace('"reserved":[512,0]', '"reserved":[-1,0]'),
        REPORT.replace('"none"', '"cell"'),
        b'{"version": 1}',
        7,
        {'version': 1},
        ['junk'],
        '[' * 100000,
    )

    def host(self, record, name='host1'):
        host = samples.host_state(used=2560, guests=1, vcpus_used=1, host=name)
        host.stats = {'numa_guard': record}
        return host

    def test_it_is_as_if_there_were_none(self):
        for record in self.JUNK:
            self.assertIsNone(host_states.report_of(self.host(record)))
            self.assertEqual(
                occupancy.HostContent(floating=2048, affined=0),
                content_of(self.host(record)),
            )

    def test_each_is_junk_by_itself(self):
        self.assertEqual(len(self.JUNK), len(set(map(str, self.JUNK))))
        self.assertNotIn(REPORT, self.JUNK)

    def test_one_warning_until_it_changes(self):
        for _ in range(3):
            content_of(self.host('junk'))
        [warning] = self.log.at('WARNING')
        self.assertIn('report of host host1 is ignored', warning)
        self.assertIn('junk', warning)
        content_of(self.host('other'))
        self.assertEqual(2, len(self.log.at('WARNING')))

    def test_one_warning_per_host(self):
        for name in ('host1', 'host2', 'host1'):
            content_of(self.host('junk', name))
        self.assertEqual(2, len(self.log.at('WARNING')))

    def test_a_newer_version_is_no_reason_to_warn(self):
        self.assertIsNone(host_states.report_of(self.host('{"version": 2}')))
        self.assert_logged('WARNING')

    def test_no_stats(self):
        host = self.host(None)
        for stats in (None, {}, 'junk', 7, ['numa_guard']):
            host.stats = stats
            self.assertIsNone(host_states.report_of(host))
            self.assertEqual(2048, content_of(host).floating)
        self.assert_logged('WARNING')

    def test_a_good_one(self):
        record = samples.record('cell', reserved=77, cells=CELLS)
        self.assertEqual(
            record, host_states.report_of(self.host(report.encode(record)))
        )
        self.assert_logged('WARNING')


class KindTest(base.TestCase):
    def test_extra_specs_are_not_looked_at(self):
        """They say what was asked for, not what the guest has."""
        spec = samples.request()
        spec.flavor.extra_specs = {'hw:mem_page_size': 'large'}
        self.assertIs(guests.Kind.FLOATING, host_states.kind_of(spec))

    def test_a_topology_is(self):
        self.assertIs(
            guests.Kind.AFFINED,
            host_states.kind_of(samples.request(samples.guest_cell())),
        )

    def test_exempt_guests_are_of_no_kind(self):
        for cells in ((), (samples.guest_cell(),)):
            self.assertIsNone(
                host_states.kind_of(
                    samples.request(*cells, isolation='exempt')
                )
            )

    def test_nothing_else_exempts(self):
        for words in ({'isolation': 'host'}, {'mem_policy': 'exempt'}):
            self.assertIs(
                guests.Kind.FLOATING,
                host_states.kind_of(samples.request(**words)),
            )


class MoveTest(base.TestCase):
    def test_a_guest_that_has_to_leave_its_host(self):
        self.assertIs(True, host_states.is_move(samples.request(moves=True)))

    def test_a_guest_that_has_none(self):
        spec = samples.request()
        for hosts in (None, []):
            spec.ignore_hosts = hosts
            self.assertIs(False, host_states.is_move(spec))
        del spec._obj_ignore_hosts
        self.assertIs(False, host_states.is_move(spec))


class WishesTest(base.TestCase):
    def wishes(self, *aggregates):
        return host_states.wishes_of(samples.host_state(aggregates=aggregates))

    def test_by_name_and_with_all_that_is_said(self):
        self.assertEqual(
            (
                policies.Wish('a', accepts='floating'),
                policies.Wish('b', isolation='host', isolation_mode='warn'),
            ),
            self.wishes(
                samples.aggregate(
                    'b', isolation='host', isolation_mode='warn'
                ),
                samples.aggregate('a', accepts='floating'),
            ),
        )

    def test_aggregates_that_are_not_about_it(self):
        self.assertEqual(
            (),
            self.wishes(
                samples.aggregate('a'),
                samples.aggregate('b', weather='fine'),
                objects.Aggregate(
                    name='c',
                    metadata={
                        'isolation': 'host',
                        'numa_guard_weight_multiplier': '3',
                    },
                ),
            ),
        )


class RoomTestCase(base.TestCase):
    def room(self, host, memory=1024, vcpus=2):
        """Why a floating guest has no room; None if it has."""
        record = host_states.report_of(host)
        return host_states.judge_room(
            host,
            room.Need(memory, vcpus),
            record,
            host_states.content_of(host, record),
        )

    def assert_room(self, mib, host):
        """A floating guest of so much fits, and not one of a MiB more."""
        self.assertIsNone(self.room(host, mib))
        verdict = self.room(host, mib + 1)
        self.assertFalse(verdict.passes)
        self.assertIn(f'needed {mib + 1} MiB, available {mib}', verdict.detail)
        return verdict


class RoomTest(RoomTestCase):
    """Small pages of the whole host: isolation none and host."""

    def host(self, *cells, **values):
        return samples.host_state(
            *(cells or (samples.host_cell(0), samples.host_cell(1))),
            **{'report': REPORT, **values},
        )

    def test_what_the_host_keeps_is_not_given_out(self):
        verdict = self.assert_room(16384 - 512, self.host())
        self.assertEqual(isolation.Reason.SMALL_PAGES_SHORT, verdict.reason)
        self.assertIn('small-page memory', verdict.detail)

    def test_nor_are_huge_pages(self):
        """Nova's filters see 13 GiB free there, of which 95 % are not."""
        cells = [samples.host_cell(n, huge=3892) for n in (0, 1)]
        host = self.host(*cells)
        small = 2 * (8192 - 2 * 3892)
        self.assertGreater(host.free_ram_mb, 15 * 1024)
        self.assert_room(small - 512, host)

    def test_giant_pages_are_not_either(self):
        cell = samples.host_cell(
            0,
            mempages=[
                objects.NUMAPagesTopology(
                    size_kb=samples.GIANT, total=4, used=1
                ),
                objects.NUMAPagesTopology(
                    size_kb=samples.SMALL,
                    total=2 * samples.GIANT // samples.SMALL,
                    used=0,
                ),
                objects.NUMAPagesTopology(
                    size_kb=samples.HUGE, total=1024, used=0
                ),
            ],
            memory_usage=1024,
        )
        self.assert_room(
            2048 - 512, self.host(cell, used=512 + 1024, guests=1)
        )

    def test_floating_guests_take_it(self):
        self.assert_room(
            16384 - 512 - 2048, self.host(used=512 + 2048, guests=1)
        )

    def test_affined_guests_on_small_pages_take_it(self):
        cells = samples.host_cell(0, memory_usage=1024), samples.host_cell(1)
        self.assert_room(
            16384 - 512 - 1024, self.host(*cells, used=512 + 1024, guests=1)
        )

    def test_affined_guests_on_huge_pages_do_not(self):
        host = self.host(samples.host_cell(0, huge=1024))
        before = 8192 - 2048 - 512
        self.assert_room(before, host)
        host.consume_from_request(
            samples.request(samples.guest_cell(page_size=2048))
        )
        self.assertEqual(1024, host.numa_topology.cells[0].memory_usage)
        self.assert_room(before, host)

    def test_several_guests_of_one_request(self):
        host = self.host(samples.host_cell(0, huge=3072), memory=8192)
        left = 8192 - 6144 - 512
        for _ in range(3):
            self.assert_room(left, host)
            host.consume_from_request(samples.request(memory=512))
            left -= 512
        self.assert_room(0, host)

    def test_exempt_guests_take_it_as_well(self):
        host = self.host(
            used=512 + 2048,
            guests=1,
            report=samples.record_text(
                exempt_floating=occupancy.Share(1, 2048, 2)
            ),
        )
        self.assert_room(16384 - 512 - 2048, host)

    def test_memory_that_may_be_given_out_more_than_once(self):
        self.assert_room(
            int((16384 - 512) * 1.5), self.host(ram_allocation_ratio=1.5)
        )

    def test_a_ratio_that_the_compute_has_not_set_yet(self):
        for ratio in (None, 0.0):
            host = self.host()
            host.ram_allocation_ratio = ratio
            self.assert_room(16384 - 512, host)

    def test_cpus_are_novas_affair(self):
        self.assertIsNone(self.room(self.host(), vcpus=1000))

    def test_the_reported_memory_counts_hidden_cells_too(self):
        """A host that was isolated by cell a moment ago."""
        host = self.host(
            samples.host_cell(0),
            report=samples.record_text(small_memory=16384),
        )
        self.assert_room(16384 - 512, host)

    def test_a_host_without_numa(self):
        """Its pages are known only if it has reported them."""
        host = samples.host_state(report=REPORT)
        self.assertIsNone(self.room(host, 1 << 30))
        host = samples.host_state(
            report=samples.record_text(small_memory=4096)
        )
        self.assert_room(4096 - 512, host)

    def test_cells_that_tell_of_no_pages(self):
        for pages in (None, []):
            host = self.host()
            host.numa_topology.cells[1].mempages = pages or []
            self.assertIsNone(self.room(host, 1 << 30))

    def test_less_than_the_reserve(self):
        host = self.host(
            samples.host_cell(0, huge=4096), samples.host_cell(1, huge=4000)
        )
        self.assert_room(0, host)


class ReportedRoomTest(RoomTest):
    """The same of a host that has reported its small pages, as all do."""

    def host(self, *cells, **values):
        cells = cells or (samples.host_cell(0), samples.host_cell(1))
        total = sum(
            pages.total * pages.size_kb
            for cell in cells
            for pages in cell.mempages
            if pages.size_kb == samples.SMALL
        )
        text = samples.record_text(small_memory=total // 1024)
        return super().host(*cells, **{'report': text, **values})

    def test_cells_that_tell_of_no_pages(self):
        """It is its own word that counts, if one guest more would do."""
        host = self.host()
        host.numa_topology.cells[1].mempages = []
        self.assertIsNone(self.room(host, 16384 - 512))


class AnyRoomTest(RoomTestCase):
    @hypothesis.given(
        st.integers(0, 4096),
        st.integers(0, 4096),
        st.integers(0, 20000),
        st.sampled_from(['nothing', 'no pages', 'pages']),
        st.sampled_from([1.0, 1.5, 16.0]),
    )
    def test_what_is_left_is_what_fits(self, huge, usage, used, says, ratio):
        text = {
            'nothing': None,
            'no pages': REPORT,
            'pages': samples.record_text(small_memory=8192 - 2 * huge),
        }[says]
        host = samples.host_state(
            samples.host_cell(0, huge=huge, memory_usage=usage),
            used=used,
            guests=2,
            vcpus_used=4,
            report=text,
            ram_allocation_ratio=ratio,
        )
        record = host_states.report_of(host)
        capacity = host_states.capacity_of(host, record)
        left = capacity.memory_left(content_of(host).untied)
        self.assertGreaterEqual(left, 0)
        self.assert_room(left, host)


class StockRoomTest(RoomTestCase):
    """Hosts that report nothing are judged by what Nova knows of them."""

    def host(self, **values):
        return samples.host_state(
            samples.host_cell(0, huge=3000),
            samples.host_cell(1, huge=3000),
            **values,
        )

    def test_the_schedulers_reserve_counts(self):
        self.config.config(reserved_host_memory_mb=1000)
        self.assert_room(16384 - 12000 - 1000, self.host())

    def test_its_guests_count(self):
        self.assert_room(
            16384 - 12000 - 512 - 1024,
            self.host(used=512 + 1024, guests=1, vcpus_used=2),
        )

    def test_several_guests_of_one_request(self):
        host = self.host()
        for left in (3872, 2848, 1824):
            self.assert_room(left, host)
            host.consume_from_request(samples.request())


class CellRoomTest(RoomTestCase):
    """The floating cells of a host, which Nova does not see."""

    def host(self, cells=CELLS, **values):
        report_of = {
            'reserved_cpus': 2,
            'small_memory': 16384,
            **values.pop('reported', {}),
        }
        return samples.host_state(
            samples.host_cell(0, huge=2048),
            report=samples.record_text('cell', cells=cells, **report_of),
            **{'vcpus_used': 2, **values},
        )

    def test_their_memory(self):
        """The reserve is taken off it by the host already."""
        verdict = self.assert_room(4096, self.host())
        self.assertEqual(isolation.Reason.CELL_MEMORY_SHORT, verdict.reason)
        self.assertIn('floating cells 1', verdict.detail)

    def test_memory_that_may_be_given_out_more_than_once(self):
        self.assert_room(6144, self.host(ram_allocation_ratio=1.5))

    def test_memory_while_guests_of_one_request_are_placed(self):
        host = self.host()
        for left in (4096, 3072, 2048, 1024):
            self.assert_room(left, host)
            host.consume_from_request(samples.request())
        self.assertIsNotNone(self.room(host, 1))

    def test_their_cpus_while_guests_of_one_request_are_placed(self):
        host = self.host(cpu_allocation_ratio=1.0)
        for left in (8, 6, 4, 2):
            self.assertIsNone(self.room(host, 1, vcpus=left))
            verdict = self.room(host, 1, vcpus=left + 1)
            self.assertEqual(isolation.Reason.CELL_CPUS_SHORT, verdict.reason)
            self.assertIn(
                f'CPUs of the floating cells 1: needed {left + 1} vCPUs, '
                f'available {left}',
                verdict.detail,
            )
            host.consume_from_request(samples.request(memory=1))
        self.assertIsNotNone(self.room(host, 1, vcpus=1))

    def test_cpus_that_may_be_given_out_more_than_once(self):
        host = self.host(cpu_allocation_ratio=4.0)
        self.assertIsNone(self.room(host, 1, vcpus=32))
        self.assertIsNotNone(self.room(host, 1, vcpus=33))

    def test_a_ratio_that_the_compute_has_not_set_yet(self):
        host = self.host()
        host.cpu_allocation_ratio = host.ram_allocation_ratio = None
        self.assert_room(4096, host)
        self.assertIsNotNone(self.room(host, 1, vcpus=9))

    def test_affined_guests_do_not_count(self):
        """They are on other cells, whether shared, pinned or on huge pages."""
        for cell in (
            samples.guest_cell(),
            samples.guest_cell(pinned=True),
            samples.guest_cell(page_size=2048),
        ):
            host = self.host(cpu_allocation_ratio=1.0)
            for _ in range(3):
                host.consume_from_request(samples.request(cell))
            self.assertEqual(3, host.num_instances)
            self.assert_room(4096, host)
            self.assertIsNone(self.room(host, 1, vcpus=8))

    def test_affined_guests_that_are_still_there(self):
        """The host has taken their memory off already."""
        host = self.host(
            reported={'unseen_memory': 1024, 'unseen_vcpus': 2},
            used=512 + 1024,
            vcpus_used=4,
            guests=1,
            cpu_allocation_ratio=1.0,
        )
        self.assert_room(4096, host)
        self.assertIsNone(self.room(host, 1, vcpus=8))
        host.consume_from_request(samples.request())
        self.assert_room(3072, host)

    def test_pinned_guests_that_hold_more_cpus_than_they_have(self):
        """As reported: two vCPUs on four CPUs hide no floating ones."""
        host = self.host(
            reported={'unseen_vcpus': -2},
            cpu_allocation_ratio=1.0,
        )
        host.numa_topology.cells[0].pinned_cpus = {8, 9, 10, 11}
        host.numa_topology.cells[0].memory_usage = 1024
        host.free_ram_mb -= 1024
        host.vcpus_used += 2
        host.consume_from_request(samples.request())
        self.assert_room(3072, host)
        self.assertIsNone(self.room(host, 1, vcpus=6))
        self.assertIsNotNone(self.room(host, 1, vcpus=7))

    def test_nothing_is_left_of_a_cell_that_is_full(self):
        none = report.FloatingCells(cells=(0, 2, 3), cpus=8, memory=0)
        verdict = self.assert_room(0, self.host(none))
        self.assertIn('floating cells 0,2,3', verdict.detail)
