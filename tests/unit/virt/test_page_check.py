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

import time
from unittest import mock

from nova import exception
from nova.compute import task_states
import oslo_messaging
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import fixture, guests, pools, refusals
from nova_numa_guard.virt import host_guests, page_check
from tests.unit import base, samples
from tests.unit.virt import records

SHORT = 'huge pages of 2048 KiB on host NUMA node 0: needed 32, available 16'
SMALL = samples.SMALL


class PageCheckTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.events = self.useFixture(records.EventRecorder())
        self.machine = self.useFixture(fixture.KernelFixture())
        self.machine.set_pool(0, 2048, total=64, free=16)
        self.machine.set_pool(1, 2048, total=64, free=64)
        self.machine.set_bound(2048)
        self.refusals = refusals.Refusals()
        self.check = page_check.PageCheck(self.machine.kernel, self.refusals)
        self.context = samples.context()

    def guest(self, mib=64, page_size=2048, node=0, **values):
        return samples.instance(
            samples.guest_cell(mib, page_size=page_size, node=node), **values
        )

    def spawn(self, instance):
        self.check.before_spawn(self.context, instance, 'this')

    def refused(self, instance):
        """The text of the refusal."""
        exc = self.assertRaises(
            exception.ComputeResourcesUnavailable, self.spawn, instance
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
            samples.instance(
                samples.guest_cell(64, page_size=2048, node=0),
                samples.guest_cell(256, page_size=2048, node=1),
            )
        )
        self.assertIn(SHORT, text)
        self.assertIn('NUMA node 1: needed 128, available 6', text)
        self.assertEqual(1, len(self.log.at('WARNING')))

    def test_cells_on_one_node_are_summed(self):
        cells = [samples.guest_cell(18, page_size=2048) for _ in range(2)]
        self.assertIn('needed 18', self.refused(samples.instance(*cells)))

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
        self.check = page_check.PageCheck(kernel, self.refusals)
        self.spawn(self.guest(16))
        self.assertIn('needed 9, available 8', self.refused(self.guest(18)))

    def test_a_node_that_the_host_does_not_have(self):
        self.assertIn(
            'NUMA node 7: needed 1, available 0',
            self.refused(self.guest(2, node=7)),
        )

    def test_evacuation_is_refused(self):
        """Its instance still names the host that it comes from."""
        self.refused(
            self.guest(host='other', task_state=task_states.REBUILD_SPAWNING)
        )

    def test_unshelve_is_refused(self):
        self.refused(self.guest(task_state=task_states.SPAWNING))

    def test_rebuild_in_place_is_not(self):
        """The guest is gone already, and Nova would lose its allocation."""
        self.spawn(self.guest(task_state=task_states.REBUILD_SPAWNING))
        self.assert_logged(
            'WARNING',
            'Starting although the kernel lacks pages, because the rebuild '
            f'has removed the guest already; QEMU may fail: {SHORT}',
        )
        self.assertEqual([], self.events.written)

    def test_rebuild_in_place_with_enough_pages(self):
        self.spawn(self.guest(node=1, task_state=task_states.REBUILD_SPAWNING))
        self.assert_logged('WARNING')


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
            samples.instance(
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

    def test_pools_that_cannot_be_read_any_more(self):
        """The refusal stands, with what was read when it was made."""
        kernel = self.machine.kernel
        known = kernel.pools
        with mock.patch.object(
            kernel,
            'pools',
            side_effect=[
                known(2048),
                pools.UnreadableError(self.machine.root, 'gone'),
            ],
        ):
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
        self.spawn(self.guest(task_state=task_states.REBUILD_SPAWNING))
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
            samples.instance(
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
        for state in (task_states.SPAWNING, task_states.REBUILD_SPAWNING):
            self.log.records.clear()
            self.spawn(self.guest(task_state=state))
            [warning] = self.log.at('WARNING')
            self.assertIn('page_check is "warn"', warning)
            self.assertIn(SHORT, warning)
        self.assertEqual([], self.events.written)

    def test_enough(self):
        self.spawn(self.guest(node=1))
        self.assert_logged('WARNING')


class NothingIsReadTest(PageCheckTestCase):
    def setUp(self):
        super().setUp()
        self.check = page_check.PageCheck(
            pools.Kernel('/does/not/exist'), self.refusals
        )

    def test_floating_guests(self):
        self.spawn(samples.instance())
        self.assert_logged('WARNING')

    def test_small_pages(self):
        for size in (None, SMALL, -1):
            self.spawn(self.guest(page_size=size))
        self.assert_logged('WARNING')

    def test_off(self):
        self.flags(page_check='off')
        self.spawn(self.guest())
        self.assert_logged('WARNING')

    def test_this_proves_something(self):
        self.spawn(self.guest())
        self.assertEqual(1, len(self.log.at('WARNING')))


class UnreadableTest(PageCheckTestCase):
    """A guest is not refused for what the guard cannot read."""

    def assert_warned(self, name, instance=None):
        self.spawn(instance or self.guest())
        [warning] = self.log.at('WARNING')
        self.assertIn('Huge pages are not checked', warning)
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


class PageNeedsTest(base.TestCase):
    def test_mib_and_host_nodes(self):
        """Nova counts in MiB, and a claimed cell's id is its host node."""
        self.assertEqual(
            (
                guests.PageNeed(0, samples.GIANT, 2),
                guests.PageNeed(16, 2048, 3),
            ),
            page_check.page_needs(
                samples.instance(
                    samples.guest_cell(5, page_size=2048, node=16),
                    samples.guest_cell(2048, page_size=samples.GIANT),
                    samples.guest_cell(2048, page_size=None),
                )
            ),
        )

    def test_a_floating_guest(self):
        self.assertEqual((), page_check.page_needs(samples.instance()))

    def test_the_small_page_of_this_machine(self):
        self.assertIn(pools.SMALL_PAGE, (4, 16, 64))


class RebuildInPlaceTest(base.TestCase):
    def test_by_state_and_host(self):
        for state, host, expected in (
            (task_states.REBUILD_SPAWNING, 'this', True),
            (task_states.REBUILD_SPAWNING, 'other', False),
            (task_states.REBUILD_SPAWNING, None, False),
            (task_states.SPAWNING, 'this', False),
            (None, 'this', False),
        ):
            instance = samples.instance(task_state=state, host=host)
            self.assertIs(
                expected, host_guests.is_rebuild_in_place(instance, 'this')
            )
