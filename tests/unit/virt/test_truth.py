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

"""Nova's tracker is told of a host's pages, whoever took them."""

import types

from nova import objects

from nova_numa_guard import fixture, report
from nova_numa_guard.virt import claims, host_guests, truth
from tests.unit import base, costs, samples
from tests.unit.virt import domains, records, test_reporter

CELL = samples.guest_cell
HUGE, GIANT = 2048, 1048576
KIB = 64 * HUGE  # of a guest's cell: 64 pages


class TruthTestCase(base.TestCase):
    """A host of two nodes; Nova knows 100 huge pages on each."""

    def setUp(self):
        super().setUp()
        self.records = self.useFixture(records.Records())
        self.machine = self.useFixture(fixture.KernelFixture())
        self.machine.set_bound(HUGE)
        self.pool(0, 100)
        self.pool(1, 100)
        self.host = domains.Host()
        self.addCleanup(self.host.answers.set)
        self.launching = set()
        self.complaints = []
        self.running = claims.Claims(self.host, domains.LONG)
        self.truth = truth.Truth(
            self.running,
            lambda: frozenset(self.launching),
            types.SimpleNamespace(add=self.complain),
        )
        self.cells = [
            samples.host_cell(0, huge=100),
            samples.host_cell(1, huge=100),
        ]
        for cell in self.cells:
            for page in cell.mempages:
                page.reserved = 0

    def complain(self, what, exc, source=None):
        self.complaints.append(f'{what}: {exc} ({source})')

    def pool(self, node, free, total=100):
        self.machine.set_pool(node, HUGE, total=total, free=free)

    def guest(self, number=1, node=0, runs=True, held=None):
        """A guest of Nova's with 64 huge pages.

        :param held: what its process is seen to hold; else it is not seen
        """
        guest = self.records.add(
            CELL(memory=128, page_size=HUGE, node=node), host='this'
        )
        if runs:
            domain = self.host.add(guest.uuid, number, (node, KIB, HUGE))
            if held is not None:
                self.machine.set_process(
                    domain.name, number, {(node, HUGE): held}
                )
        return guest

    @property
    def text(self):
        return objects.NUMATopology(cells=self.cells)._to_json()

    def tell(self):
        return self.truth.tell(
            self.text,
            self.machine.kernel,
            host_guests.find(None, 'this', 'this-node'),
        )

    def told(self, text=None):
        """(total, reserved) of the huge pages of each node."""
        topology = objects.NUMATopology.obj_from_db_obj(text or self.tell())
        return {
            cell.id: (page.total, page.reserved)
            for cell in topology.cells
            for page in cell.mempages
            if page.size_kb == HUGE
        }

    def assert_reserved(self, *reserved):
        self.assertEqual(
            reserved, tuple(pages for _, pages in self.told().values())
        )
        self.assertEqual([], self.complaints)


class ReservedTest(TruthTestCase):
    def test_nothing_is_in_use(self):
        self.assertEqual({0: (100, 0), 1: (100, 0)}, self.told())

    def test_only_pages_are_changed(self):
        before = samples.contents(self.text)
        after = samples.contents(self.tell())
        for topology in (before, after):
            for cell in topology['nova_object.data']['cells']:
                for page in cell['nova_object.data'].pop('mempages'):
                    self.assertEqual(0, page['nova_object.data']['used'])
                cell['nova_object.changes'].remove('mempages')
        self.assertEqual(before, after)

    def test_another_process_holds_pages(self):
        """Case 28."""
        self.pool(1, 59)
        self.assert_reserved(0, 41)

    def test_a_guest_is_not_counted_twice(self):
        self.guest()
        self.pool(0, 36)
        self.assert_reserved(0, 0)
        self.pool(0, 30)
        self.assert_reserved(6, 0)

    def test_pages_that_the_kernel_does_not_give_back(self):
        """Case 38: the guest has ended, and nobody holds them."""
        guest = self.guest()
        self.pool(0, 36)
        self.tell()
        self.host.guests.clear()
        self.assert_reserved(64, 0)
        self.records.guests.remove(guest)
        self.assert_reserved(64, 0)
        [figure] = [f for f in self.truth.figures if f.node == 0]
        self.assertEqual((0, 64), (figure.claimed, figure.unaccounted))

    def test_a_guest_that_is_shut_off(self):
        self.guest(runs=False)
        self.assert_reserved(0, 0)
        self.pool(0, 90)
        self.assert_reserved(10, 0)

    def test_an_orphan(self):
        guest = self.guest()
        self.pool(0, 36)
        self.records.guests.remove(guest)
        self.assert_reserved(64, 0)

    def test_a_guest_on_another_node_than_nova_has_it(self):
        self.guest(node=0)
        self.host.guests[0].xml = samples.domain_xml((1, KIB, HUGE))
        self.pool(1, 36)
        self.assert_reserved(0, 64)

    def test_what_is_configured_is_the_least(self):
        for cell, reserved in zip(self.cells, (10, 10), strict=True):
            cell.mempages[1].reserved = reserved
        self.pool(1, 59)
        self.assert_reserved(10, 41)

    def test_a_guest_that_is_coming(self):
        """By live migration: Nova counts its new topology."""
        guest = self.records.add(
            CELL(memory=128, page_size=HUGE, node=0), host='other'
        )
        self.records.move(
            guest,
            'this',
            CELL(memory=128, page_size=HUGE, node=1),
            kind='live-migration',
        ).claim()
        self.assert_reserved(0, 0)
        self.host.add(guest.uuid, 1, (1, KIB, HUGE))
        self.machine.set_process('instance-1', 1, {(1, HUGE): 20})
        self.pool(1, 75)
        self.assert_reserved(0, 5)

    def test_a_guest_that_is_resized_on_this_host(self):
        """It holds one of the two that Nova counts."""
        guest = self.guest()
        self.records.move(
            guest, 'this', CELL(memory=64, page_size=HUGE, node=0)
        ).claim().leave()
        self.pool(0, 36)
        self.assert_reserved(0, 0)


class LookTest(TruthTestCase):
    """What guests hold is read where it is not what they claim."""

    def setUp(self):
        super().setUp()
        self.asked = []
        held = self.machine.kernel.held
        self.machine.kernel.held = lambda name: (
            self.asked.append(name) or held(name)
        )

    def test_when_it_is_seen_for_the_first_time(self):
        self.guest(held=50)
        self.pool(0, 30)
        self.assert_reserved(20, 0)
        self.assertEqual(['instance-1'], self.asked)
        self.assert_reserved(6, 0)
        self.assertEqual(['instance-1'], self.asked)

    def test_guests_without_huge_pages_never(self):
        guest = self.records.add(host='this')
        self.host.add(guest.uuid, 1)
        self.machine.set_bound(HUGE, reserved=8)
        self.tell()
        self.assertEqual([], self.asked)

    def test_when_claims_are_more_than_what_is_in_use(self):
        """Case 40: it gave memory back, and another has taken some of it."""
        self.guest(held=64)
        self.pool(0, 36)
        self.tell()
        self.machine.set_process('instance-1', 1, {(0, HUGE): 20})
        self.pool(0, 60)
        self.assert_reserved(20, 0)

    def test_when_pages_are_reserved(self):
        self.guest(held=64)
        self.pool(0, 36)
        self.tell()
        self.machine.set_process('instance-1', 1, {(0, HUGE): 20})
        self.assert_reserved(0, 0)
        self.machine.set_bound(HUGE, reserved=1)
        self.assert_reserved(44, 0)

    def test_one_that_cannot_be_looked_at_holds_what_it_claims(self):
        self.guest()
        self.pool(0, 30)
        self.machine.set_bound(HUGE, reserved=1)
        self.assert_reserved(6, 0)

    def test_while_it_is_starting(self):
        guest = self.guest(held=20)
        self.launching.add(guest.uuid)
        self.pool(0, 30)
        for _ in range(2):
            self.assert_reserved(50, 0)
        self.assertEqual(2, len(self.asked))
        self.assertTrue(self.truth.is_settled)

    def test_one_that_is_starting_and_cannot_be_looked_at_holds_nothing(self):
        guest = self.guest()
        self.launching.add(guest.uuid)
        self.pool(0, 75)
        self.assert_reserved(25, 0)
        self.assertFalse(self.truth.is_settled)
        self.launching.clear()
        self.pool(0, 36)
        self.assert_reserved(0, 0)
        self.assertTrue(self.truth.is_settled)

    def test_not_before_it_has_been_looked_at(self):
        """If it lands meanwhile nobody else asks for another look."""
        guest = self.guest()
        self.launching.add(guest.uuid)
        bound, settled = self.machine.kernel.bound, []

        def land(size):
            settled.append(self.truth.is_settled)
            self.launching.clear()
            return bound(size)

        self.machine.kernel.bound = land
        self.pool(0, 75)
        self.tell()
        self.assertEqual({False}, set(settled))

    def test_it_is_looked_at_before_the_kernel_is_asked_what_is_free(self):
        """The bound is safe: it takes pages all the time."""
        guest = self.guest(held=20)
        self.launching.add(guest.uuid)
        held = self.machine.kernel.held

        def then_it_takes_more(name):
            found = held(name)
            self.machine.set_process(name, 1, {(0, HUGE): 30})
            self.pool(0, 65)
            return found

        self.pool(0, 75)
        self.machine.kernel.held = then_it_takes_more
        self.assert_reserved(15, 0)

    def test_one_that_ends_meanwhile_holds_nothing(self):
        self.guest()
        self.pool(0, 36)
        self.tell()
        pools = self.machine.kernel.pools

        def then_it_ends():
            self.host.guests.clear()
            return pools()

        self.machine.kernel.pools = then_it_ends
        self.assert_reserved(64, 0)


class LivePoolsTest(TruthTestCase):
    def small(self, text):
        topology = objects.NUMATopology.obj_from_db_obj(text)
        return [cell.mempages[0].total for cell in topology.cells]

    def test_a_pool_grows_and_shrinks(self):
        page = HUGE // samples.SMALL
        before = self.small(self.text)
        for total in (150, 20, 0):
            self.pool(1, total, total=total)
            text = self.tell()
            self.assertEqual({0: (100, 0), 1: (total, 0)}, self.told(text))
            self.assertEqual(
                [before[0], before[1] - (total - 100) * page],
                self.small(text),
            )

    def test_a_size_that_nova_does_not_know(self):
        self.machine.set_pool(1, GIANT, total=2, free=1)
        self.machine.set_bound(GIANT)
        topology = objects.NUMATopology.obj_from_db_obj(self.tell())
        self.assertEqual(
            [HUGE], [page.size_kb for page in topology.cells[0].mempages[1:]]
        )
        page = topology.cells[1].mempages[2]
        self.assertEqual(
            (GIANT, 2, 1), (page.size_kb, page.total, page.reserved)
        )

    def test_figures(self):
        self.cells[1].mempages[1].reserved = 9
        self.guest()
        self.pool(0, 30)
        self.tell()
        self.assertEqual(
            [
                (0, HUGE, 100, 30, 0, 6, 64, 6),
                (1, HUGE, 100, 100, 9, 9, 0, 0),
            ],
            [
                (
                    each.node,
                    each.page_size,
                    each.total,
                    each.free,
                    each.configured,
                    each.reserved,
                    each.claimed,
                    each.unaccounted,
                )
                for each in self.truth.figures
            ],
        )


class UnknownTest(TruthTestCase):
    def test_it_is_switched_off(self):
        self.pool(0, 59)
        self.flags(accounting=False)
        self.assertEqual(self.text, self.tell())
        self.assertEqual((), self.truth.figures)
        self.assertEqual(0, self.host.listings)

    def test_a_host_without_numa(self):
        self.assertIsNone(self.truth.tell(None, self.machine.kernel, []))

    def test_files_that_cannot_be_read(self):
        """Nova is told what it knows itself."""
        self.pool(0, 59)
        self.tell()
        path = (
            self.machine.root
            / 'sys/devices/system/node/node0/hugepages/hugepages-2048kB'
            / 'free_hugepages'
        )
        path.write_text('many\n')
        self.assertEqual(self.text, self.tell())
        [complaint] = self.complaints
        self.assertIn('told what it knows itself', complaint)
        self.assertIn(str(path), complaint)
        self.assertIn('(kernel)', complaint)
        self.assertEqual((), self.truth.figures)

    def test_libvirt_does_not_answer(self):
        """The pools are live; others hold what they held before."""
        guest = self.guest()
        self.pool(0, 30)
        self.tell()
        self.host.failure = domains.error(domains.BROKEN)
        self.pool(1, 20, total=50)
        self.assertEqual({0: (100, 6), 1: (50, 0)}, self.told())
        self.assertEqual(1, len(self.complaints))
        self.assertIn('libvirt fails', self.complaints[0])
        self.assertIn('(libvirt)', self.complaints[0])
        self.assert_guests_not_known()
        # No more than what is in use now.
        self.pool(0, 97)
        self.assertEqual({0: (100, 3), 1: (50, 0)}, self.told())
        self.host.failure = None
        self.records.guests.remove(guest)
        self.assertEqual({0: (100, 3), 1: (50, 30)}, self.told())

    def test_it_stops_answering_meanwhile(self):
        self.guest()
        self.pool(0, 30)
        self.tell()
        pools = self.machine.kernel.pools

        def then_it_fails():
            self.host.failure = domains.error(domains.BROKEN)
            return pools()

        self.machine.kernel.pools = then_it_fails
        self.pool(0, 20)
        self.assertEqual({0: (100, 6), 1: (100, 0)}, self.told())
        self.assert_guests_not_known()

    def test_novas_records_cannot_be_read(self):
        self.guest()
        self.pool(0, 30)
        self.tell()
        text = self.truth.tell(self.text, self.machine.kernel, None)
        self.assertEqual({0: (100, 6), 1: (100, 0)}, self.told(text))
        self.assertEqual([], self.complaints)
        self.assert_guests_not_known()

    def assert_guests_not_known(self):
        """What is shown of them would be made up, or that of another time."""
        self.assertEqual(
            [(0, None, None), (1, None, None)],
            [
                (each.node, each.claimed, each.unaccounted)
                for each in self.truth.figures
            ],
        )

    def test_whatever_else_goes_wrong(self):
        self.assertEqual(
            'junk', self.truth.tell('junk', self.machine.kernel, [])
        )
        self.assertEqual(1, len(self.complaints))


class ReporterTest(test_reporter.ReporterTestCase):
    """The record, and what Nova gets, are made of the same figures."""

    def setUp(self):
        super().setUp()
        self.machine.set_bound(HUGE)
        self.machine.set_pool(0, HUGE, total=256, free=200)
        self.machine.set_pool(1, HUGE, total=0, free=0)
        self.host = domains.Host()
        self.restart()

    def restart(self):
        self.reporter = test_reporter.reporter.Reporter(
            self.machine.kernel,
            self.floating_cells,
            self.check,
            self.refusals,
            self.complained,
            claims.Claims(self.host, domains.LONG),
        )

    def topology_told(self):
        return objects.NUMATopology.obj_from_db_obj(
            self.complete()['numa_topology']
        )

    def test_nova_is_told(self):
        page = self.topology_told().cells[0].mempages[1]
        self.assertEqual((256, 56), (page.total, page.reserved))

    def test_small_memory_is_what_the_pools_left(self):
        self.assertEqual(2 * 8192 - 512, self.report().small_memory)

    def test_floating_cells_stay_hidden(self):
        self.by_cell()
        self.restart()
        [cell] = self.topology_told().cells
        self.assertEqual((0, 56), (cell.id, cell.mempages[1].reserved))
        self.assertEqual({0, 1}, {f.node for f in self.reporter.truth.figures})

    def test_a_warning_is_given_once(self):
        self.host.failure = domains.error(domains.BROKEN)
        for _ in range(3):
            self.topology_told()
        [line] = self.log.at('WARNING')
        self.assertIn('libvirt fails', line)

    def test_without_libvirt_nova_is_told_what_it_knows(self):
        self.start()
        resources = self.resources()
        before = samples.contents(resources['numa_topology'])
        self.reporter.complete(resources, 'this')
        self.assertEqual(before, samples.contents(resources['numa_topology']))


class RefreshedTest(test_reporter.ReporterTestCase):
    """The record between two audits."""

    def refreshed(self):
        return report.decode(self.reporter.refreshed())

    def test_there_was_no_audit(self):
        self.assertIsNone(self.reporter.refreshed())

    def test_refusals_and_free_pages_are_those_of_now(self):
        self.records.add(host='this')
        before = self.report()
        self.assertEqual(before, self.refreshed())
        self.records.add(host='this')
        self.machine.set_pool(0, 2048, total=64, free=9)
        self.refusals.add({(0, 2048): 9}, test_reporter.time.time(), 300)
        after = self.refreshed()
        self.assertEqual({2048: {0: 9}}, after.headroom)
        [refusal] = after.refused
        self.assertEqual((0, 2048), (refusal.node, refusal.page_size))
        self.assertEqual(before.floating, after.floating)


class CostTest(TruthTestCase):
    def test_each_guest_costs_the_same(self):
        """Many guests run on a host, and an audit sees all of them."""
        found, number = [], 0
        for count in (20, 40, 80):
            while number < count:
                number += 1
                self.guest(number)
            self.pool(0, 0, total=64 * count)
            counted = host_guests.find(None, 'this', 'this-node')
            found.append(
                costs.calls(
                    lambda counted=counted: self.truth.tell(
                        self.text, self.machine.kernel, counted
                    )
                )
            )
        few, some, many = found
        self.assertAlmostEqual(2, (many - some) / (some - few), delta=0.1)
