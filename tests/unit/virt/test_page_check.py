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

"""The check of huge pages, on Nova's own Instance."""

import threading
import time

import fixtures
from nova import exception, objects
import oslo_messaging
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import guests, pools
from nova_numa_guard.virt import answers, claims, needs
from tests.unit import base, samples
from tests.unit.virt import hosts

SHORT = 'huge pages of 2048 KiB on host NUMA node 0: needed 32, available 16'
SMALL = samples.SMALL


class PageCheckTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.host = self.useFixture(hosts.Host())
        self.events, self.machine = self.host.events, self.host.machine
        self.refusals, self.running = self.host.refusals, self.host.running
        self.check = self.host.check
        self.machine.set_pool(0, 2048, total=64, free=16)
        self.machine.set_pool(1, 2048, total=64, free=64)
        self.machine.set_bound(2048)
        self.context = samples.context()

    def guest(self, mib=64, page_size=2048, node=0, **values):
        return samples.instance(
            samples.guest_cell(mib, page_size=page_size, node=node),
            **{'vm_state': 'active', **values},
        )

    def of(self, *cells):
        return samples.instance(*cells, vm_state='active')

    def needs(self, instance):
        return needs.pages(instance, instance.numa_topology)

    def spawn(self, instance, restart=False, excuse='', patience=0):
        """Begin to start it, and give that up."""
        found = self.promise(instance, restart, excuse, patience)
        self.check.reservations.release(found)
        return found

    def promise(self, instance, restart=False, excuse='', patience=0):
        return self.check.promise(
            instance, self.request(instance, restart, excuse), patience
        )

    def request(self, instance, restart=False, excuse=''):
        return answers.Request(
            self.context,
            'this',
            self.needs(instance),
            self.check.terms(restart, excuse),
        )

    def refused(self, instance, **values):
        """The text of the refusal."""
        exc = self.assertRaises(
            exception.ComputeResourcesUnavailable,
            self.spawn,
            instance,
            **values,
        )
        # Nova's own class, for others do not cross RPC.
        self.assertIs(exception.ComputeResourcesUnavailable, type(exc))
        return str(exc)


class EnforceTest(PageCheckTestCase):
    def test_enough(self):
        self.spawn(self.guest(node=1))
        self.assert_logged('WARNING')
        self.assertEqual([], self.events.written)

    def test_exact_fit_and_one_page_more(self):
        self.spawn(self.guest(32))
        self.assertIn('needed 17, available 16', self.refused(self.guest(34)))

    def test_a_shortage_is_refused_with_its_numbers(self):
        self.assertEqual(
            f'Insufficient compute resources: {SHORT}.',
            self.refused(self.guest()),
        )
        self.assert_logged('WARNING', f'Refused to start: {SHORT}')

    def test_the_event(self):
        self.refused(self.guest())
        [event] = self.events.written
        self.assertEqual('compute_numa_guard_page_check', event['event'])
        self.assertEqual('this', event['host'])
        self.assertEqual(uuids.instance, event['instance_uuid'])
        self.assertEqual(self.context.request_id, event['request_id'])
        self.assertEqual('Error', event['result'])
        self.assertEqual(
            f'Insufficient compute resources: {SHORT}.', event['details']
        )
        self.assertIsNotNone(event['start_time'])
        self.assertIsNotNone(event['finish_time'])

    def test_an_event_that_cannot_be_written(self):
        """The guest is refused all the same, and the log says why."""
        for failure in (
            exception.InstanceActionNotFound(
                request_id='req', instance_uuid=uuids.instance
            ),
            oslo_messaging.MessagingTimeout('no answer'),
            exception.ComputeResourcesUnavailable(reason='not ours'),
            RuntimeError('no database'),
        ):
            self.events.failure = failure
            self.log.records.clear()
            self.assertEqual(
                f'Insufficient compute resources: {SHORT}.',
                self.refused(self.guest()),
            )
            first, second = self.log.at('WARNING')
            self.assertEqual(f'Refused to start: {SHORT}', first)
            self.assertIn('could not be recorded as an event', second)
            self.assertIn(str(failure), second)

    def test_every_shortage_is_in_the_text(self):
        text = self.refused(
            self.of(
                samples.guest_cell(64, page_size=2048, node=0),
                samples.guest_cell(256, page_size=2048, node=1),
            )
        )
        self.assertIn(SHORT, text)
        self.assertIn('NUMA node 1: needed 128, available 6', text)
        self.assertEqual(1, len(self.log.at('WARNING')))

    def test_cells_on_one_node_are_summed(self):
        cells = [samples.guest_cell(18, page_size=2048) for _ in range(2)]
        self.assertIn('needed 18', self.refused(self.of(*cells)))

    def test_pages_taken_a_moment_ago(self):
        instance = self.guest(32)
        self.spawn(instance)
        self.machine.steal(0, 2048, 1)
        self.assertIn('available 15', self.refused(instance))

    def test_pages_that_others_have_reserved(self):
        self.machine.set_bound(2048, reserved=80)
        self.spawn(self.guest(0))
        self.assertIn('needed 1, available 0', self.refused(self.guest(2)))

    def test_a_mount_with_a_limit(self):
        self.machine.root.joinpath('proc/self/mounts').write_text(
            'hugetlbfs /dev/hugepages hugetlbfs rw 0 0\n'
        )
        kernel = pools.Kernel(
            self.machine.root,
            lambda path: type(
                'Statvfs',
                (),
                {'f_bsize': 2 << 20, 'f_blocks': 9, 'f_bavail': 8},
            ),
        )
        self.host.look_at(kernel)
        self.check = self.host.check
        self.spawn(self.guest(16))
        self.assertIn('needed 9, available 8', self.refused(self.guest(18)))

    def test_a_node_that_the_host_does_not_have(self):
        self.assertIn(
            'NUMA node 7: needed 1, available 0',
            self.refused(self.guest(2, node=7)),
        )

    def test_what_cannot_be_refused_is_not(self):
        """The guest is gone already, and Nova would lose its allocation."""
        self.spawn(self.guest(), excuse='it is gone')
        self.assert_logged(
            'WARNING',
            'Starting although the kernel lacks pages, because it is gone; '
            f'QEMU may fail: {SHORT}',
        )
        self.assertEqual([], self.events.written)

    def test_nor_warned_of_if_there_is_enough(self):
        self.spawn(self.guest(node=1), excuse='it is gone')
        self.assert_logged('WARNING')

    def test_what_nova_has_to_leave_to_others(self):
        """[DEFAULT] reserved_huge_pages."""
        self.machine.set_pool(0, 2048, total=64, free=64)
        self.config.config(
            reserved_huge_pages=[
                {'node': '0', 'size': '2048', 'count': '40'},
                {'node': '1', 'size': '1GB', 'count': '3'},
            ]
        )
        self.check.settle()
        self.assertIn('needed 32, available 24', self.refused(self.guest()))

    def test_that_is_not_what_it_should_be(self):
        self.config.config(reserved_huge_pages=[{'node': '0'}])
        self.assertRaises(
            exception.InvalidReservedMemoryPagesOption, self.check.settle
        )

    def test_how_long_it_waited(self):
        self.host.set(CONFIRM=1.0)
        self.machine.set_bound(2048, reserved=1)
        self.assertTrue(
            self.refused(self.guest(), patience=30).endswith('(after 1 s).')
        )
        self.assertIn('pages of 2048 KiB', self.log.at('WARNING')[0])


class RememberTest(PageCheckTestCase):
    """What the scheduler is told of a refusal."""

    def remembered(self, free=0, later=0):
        """The pools, by node and KiB, if each has so many free pages."""
        pools = {(node, 2048): free for node in (0, 1, 7)}
        return [
            (refusal.node, refusal.page_size)
            for refusal in self.refusals.current(time.time() + later, pools)
        ]

    def test_the_pool_that_is_short(self):
        self.refused(self.guest())
        self.assertEqual([(0, 2048)], self.remembered())

    def test_every_pool_that_is_short_and_no_other(self):
        self.refused(
            self.of(
                samples.guest_cell(64, page_size=2048, node=0),
                samples.guest_cell(2, page_size=2048, node=1),
                samples.guest_cell(2, page_size=2048, node=7),
            )
        )
        self.assertEqual([(0, 2048), (7, 2048)], self.remembered())

    def test_for_how_long(self):
        self.flags(refusal_ttl=60)
        self.refused(self.guest())
        self.assertEqual([(0, 2048)], self.remembered(later=50))
        self.assertEqual([], self.remembered(later=70))

    def test_not_at_all(self):
        self.flags(refusal_ttl=0)
        self.refused(self.guest())
        self.assertEqual([], self.remembered())

    def test_until_there_are_more_pages_than_at_the_refusal(self):
        self.refused(self.guest())
        self.assertEqual([(0, 2048)], self.remembered(free=16))
        self.assertEqual([], self.remembered(free=17))

    def test_a_pool_that_others_have_mapped(self):
        """Its free pages count, not those that were available of them."""
        self.machine.set_bound(2048, reserved=70)
        self.refused(self.guest())
        self.assertEqual([(0, 2048)], self.remembered(free=16))
        self.assertEqual([], self.remembered(free=17))

    def test_what_is_not_refused_is_not_remembered(self):
        self.spawn(self.guest(), excuse='it is gone')
        self.spawn(self.guest(32))
        self.flags(page_check='warn')
        self.spawn(self.guest())
        self.flags(page_check='enforce')
        self.machine.set_bound(2048, overcommit=1)
        self.spawn(self.guest())
        self.assertEqual([], self.remembered())


class OvercommitTest(PageCheckTestCase):
    def test_the_kernel_may_add_pages(self):
        self.machine.set_bound(2048, overcommit=1)
        self.spawn(self.guest())
        [warning] = self.log.at('WARNING')
        self.assertIn('nr_overcommit_hugepages', warning)
        self.assertIn(SHORT, warning)
        self.assertEqual([], self.events.written)

    def test_but_not_of_another_size(self):
        self.machine.set_pool(0, samples.GIANT, total=1, free=0)
        self.machine.set_bound(samples.GIANT)
        self.machine.set_bound(2048, overcommit=100)
        text = self.refused(
            self.of(
                samples.guest_cell(64, page_size=2048),
                samples.guest_cell(1024, page_size=samples.GIANT),
            )
        )
        self.assertIn('1048576 KiB', text)

    def test_nor_of_a_size_that_the_host_does_not_have(self):
        self.machine.set_bound(2048, overcommit=100)
        self.refused(self.guest(1024, page_size=samples.GIANT))


class WarnTest(PageCheckTestCase):
    def setUp(self):
        super().setUp()
        self.flags(page_check='warn')

    def test_a_shortage_is_logged_and_the_guest_started(self):
        found = self.spawn(self.guest())
        self.assertTrue(found.granted)
        self.assertEqual(SHORT, answers.lacking(found))
        [warning] = self.log.at('WARNING')
        self.assertIn('page_check is "warn"', warning)
        self.assertIn(SHORT, warning)
        self.assertEqual([], self.events.written)

    def test_restarts_have_an_option_of_their_own(self):
        self.refused(self.guest(), restart=True)
        self.flags(page_check='enforce', page_check_on_restart='warn')
        self.spawn(self.guest(), restart=True)
        [warning] = self.log.at('WARNING')[1:]
        self.assertIn('page_check_on_restart is "warn"', warning)

    def test_enough(self):
        self.spawn(self.guest(node=1))
        self.assert_logged('WARNING')


class UnreadableTest(PageCheckTestCase):
    """A guest is not refused for what the guard cannot read."""

    def assert_warned(self, name):
        self.spawn(self.guest())
        [warning] = self.log.at('WARNING')
        self.assertIn('Pages are not checked', warning)
        self.assertIn(str(self.machine.root / name), warning)
        self.assertEqual([], self.events.written)

    def test_a_pool(self):
        name = (
            'sys/devices/system/node/node0/hugepages/hugepages-2048kB/'
            'free_hugepages'
        )
        (self.machine.root / name).write_text('junk')
        self.assert_warned(name)

    def test_a_bound(self):
        name = 'sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages'
        (self.machine.root / name).unlink()
        self.assert_warned(name)

    def test_the_mounts(self):
        (self.machine.root / 'proc/self/mounts').unlink()
        self.assert_warned('proc/self/mounts')

    def test_a_mount_that_is_not_there_does_not_end_the_check(self):
        missing = self.machine.root / 'missing'
        (self.machine.root / 'proc/self/mounts').write_text(
            f'hugetlbfs {missing} hugetlbfs rw 0 0\n'
        )
        self.assertRaises(
            exception.ComputeResourcesUnavailable, self.spawn, self.guest()
        )

    def test_another_size_is_not_read(self):
        name = (
            'sys/devices/system/node/node0/hugepages/hugepages-1048576kB/'
            'free_hugepages'
        )
        self.machine.set_pool(0, samples.GIANT, total=1, free=1)
        (self.machine.root / name).write_text('junk')
        self.spawn(self.guest(node=1))
        self.assert_logged('WARNING')

    def test_a_node_without_memory_does_not_end_the_check(self):
        """It has no folder of huge pages on older kernels."""
        (self.machine.root / 'sys/devices/system/node/node5').mkdir()
        self.refused(self.guest())


class RunningTest(PageCheckTestCase):
    """Guests that run; what they have touched, the kernel tells."""

    def test_untouched_pages_are_not_for_others(self):
        self.running.add('other', 60)
        self.assertIn('available 4', self.refused(self.guest()))

    def test_libvirt_does_not_answer(self):
        """A build goes by what the kernel says."""
        self.running.add('other', 60)
        self.running.failure = claims.UnknownError('no answer')
        self.spawn(self.guest(32))
        [line] = self.log.at('INFO')
        self.assertIn('no answer', line)
        self.refused(self.guest())

    def test_nor_to_a_guest_that_is_to_restart(self):
        """What it has itself is not known, and it is not refused for that."""
        self.machine.set_pool(0, 2048, total=64, free=0)
        self.running.failure = claims.UnknownError('no answer')
        self.spawn(self.guest(), restart=True)
        self.assert_logged('WARNING')
        self.running.failure = None
        self.refused(self.guest(), restart=True)

    def test_its_own_pages_are_free_for_it(self):
        self.machine.set_pool(0, 2048, total=64, free=0)
        self.running.add(uuids.instance, 32, number=7)
        self.promise(self.guest(), restart=True)
        [promise] = self.check.reservations.promises
        self.assertEqual(7, promise.domain_id)

    def test_a_guest_that_is_built_has_no_domain_to_end(self):
        self.running.add(uuids.instance, 1, number=7)
        self.promise(self.guest(32))
        [promise] = self.check.reservations.promises
        self.assertIsNone(promise.domain_id)


class ExpectTest(PageCheckTestCase):
    """A guest that would be migrated here, live."""

    def setUp(self):
        super().setUp()
        self.host.set(CONFIRM=0.1)
        self.migration = objects.Migration(
            id=7,
            migration_type='live-migration',
            dest_compute='this',
            status='accepted',
        )
        self.host.records.migrations.append(self.migration)

    def look(self, instance):
        desk = self.check.reservations
        before = desk.promises
        try:
            self.check.expect(instance, self.request(instance), 7)
        finally:
            self.assertEqual(before, desk.promises)

    def expected(self):
        return [each.uuid for each in self.check.arrivals.expected]

    def test_its_pages_are_not_for_others(self):
        """Until libvirt has it: from then on it claims them."""
        self.look(self.guest(80, node=1))
        self.assertEqual([uuids.instance], self.expected())
        other = self.guest(node=1, uuid=uuids.other)
        self.assertIn('needed 32, available 24', self.refused(other))
        self.running.add(uuids.instance, 0, node=1)
        self.promise(other)

    def test_two_that_come_at_once(self):
        """Nova lets both claim what others hold."""
        self.look(self.guest(80, node=1))
        self.assertRaises(
            exception.ComputeResourcesUnavailable,
            self.look,
            self.guest(80, node=1, uuid=uuids.other),
        )
        self.assertEqual([uuids.instance], self.expected())

    def test_one_that_is_asked_for_again(self):
        """By another migration, while the first is not over."""
        self.look(self.guest(80, node=1))
        self.look(self.guest(80, node=1))

    def test_one_that_is_over_is_not_in_the_way(self):
        self.look(self.guest(80, node=1))
        self.migration.status = 'error'
        self.promise(self.guest(80, node=1, uuid=uuids.other))
        self.assertEqual([], self.expected())

    def test_nobody_gets_its_pages_before_it_is_expected(self):
        """A start that is judged while it is being checked."""
        promised = []
        give = self.check.answers.give

        def ask(*args):
            promised.extend(self.check.reservations.promises)
            give(*args)

        self.check.answers.give = ask
        self.look(self.guest(80, node=1))
        self.assertEqual([uuids.instance], [each.uuid for each in promised])

    def test_a_shortage(self):
        self.assertRaises(
            exception.ComputeResourcesUnavailable, self.look, self.guest()
        )
        self.assertEqual(1, len(self.events.written))
        self.flags(page_check='warn')
        self.look(self.guest())

    def test_in_doubt_it_may_come(self):
        other = guests.PageNeed(0, 2048, 16)
        desk = self.check.reservations
        desk.promise('other', [other], lambda _: None, 0)
        desk.launch('other')
        self.look(self.guest(32))
        self.assert_logged('WARNING')

    def test_a_shortage_that_lasts_but_a_moment(self):
        self.machine.set_bound(2048, reserved=1)

        def end():
            time.sleep(0.02)
            with self.host.desk._changed:  # nobody reads
                self.machine.set_pool(0, 2048, total=64, free=64)

        thread = threading.Thread(target=end)
        thread.start()
        self.look(self.guest())
        thread.join()


class BrokenTest(PageCheckTestCase):
    """Whatever goes wrong, nothing stays promised."""

    def test_a_thread_that_is_killed_while_it_logs(self):
        class KilledError(BaseException):
            pass

        def kill(*args, **kwargs):
            raise KilledError

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.virt.answers.LOG.warning', kill
            )
        )
        self.machine.set_bound(2048, overcommit=1)
        for case in (
            lambda: self.spawn(self.guest()),
            lambda: self.spawn(self.guest(), excuse='it is gone'),
        ):
            self.assertRaises(KilledError, case)
            self.assertEqual((), self.check.reservations.promises)

    def test_what_was_refused(self):
        """Nor is it promised while the database is told."""
        seen = []

        def start(context, values):
            seen.append(self.check.reservations.promises)
            raise RuntimeError('no database')

        self.useFixture(
            fixtures.MonkeyPatch('nova.db.main.api.action_event_start', start)
        )
        self.refused(self.guest())
        self.assertEqual([()], seen)
        self.assertEqual((), self.check.reservations.promises)
