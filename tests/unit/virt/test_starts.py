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

"""Every way in which a guest starts."""

import contextlib
import gc
import threading
import time

from nova import exception
from nova.compute import vm_states
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import facts, guests
from nova_numa_guard.virt import paths
from tests.unit import base, samples, waiting
from tests.unit.virt import hosts

LACKS = 'huge pages of 2048 KiB on host NUMA node 0: needed 32, available 16'
# What a test waits for something that does happen.
LONG = 30
PATHS = (
    paths.BUILD,
    paths.EVACUATION,
    paths.REBUILD,
    paths.RESTART,
    paths.RESUME,
    paths.HOST_BOOT,
    paths.RESCUE,
    paths.ARRIVAL,
)


class KilledError(BaseException):
    """What a thread is killed by."""


class StartsTestCase(base.TestCase):
    """A host with 64 pages a node, of which 16 are free on node 0."""

    def setUp(self):
        super().setUp()
        self.flags(page_wait=0, host_boot_wait=0)
        self.host = self.useFixture(hosts.Host())
        self.host.set(CONFIRM=0.02, RECOVER=0.01, LOOK_AGAIN=LONG)
        self.starts, self.desk = self.host.starts, self.host.desk
        self.machine, self.running = self.host.machine, self.host.running
        self.set_free(16)
        self.machine.set_pool(1, 2048, total=64, free=64)
        self.machine.set_bound(2048)
        self.context = samples.context()
        self.short = self.guest()
        self.fits = self.guest(node=1)

    def set_free(self, free):
        self.machine.set_pool(0, 2048, total=64, free=free)

    def guest(self, mib=64, node=0, **values):
        return samples.instance(
            samples.guest_cell(mib, page_size=2048, node=node),
            **{'vm_state': vm_states.ACTIVE, **values},
        )

    def of(self, path, guest):
        return self.starts.of(path, self.context, guest, 'this')

    def start(self, path, guest):
        with self.of(path, guest):
            return self.desk.promises

    def launching(self, guest):
        return self.starts.launching(self.context, guest, 'this')

    def later(self, function, *args):
        waiting.later(self, self.desk, function, *args)

    def waits(self):
        return self.host.metrics.registry.get_sample_value(
            'numa_guard_wait_seconds_count'
        )

    def assert_nothing_is_left(self):
        self.assertEqual((), self.desk.promises)
        self.assertEqual({}, self.starts._under_way)
        self.assertEqual(0, len(self.starts._holds))


class PathTest(StartsTestCase):
    def test_enough(self):
        for path in PATHS:
            [promise] = self.start(path, self.fits)
            self.assertEqual(
                (uuids.instance, (guests.PageNeed(1, 2048, 32),)),
                (promise.uuid, promise.needs),
            )
            self.assertFalse(promise.launching)
            with self.of(path, self.fits), self.launching(self.fits):
                pass
            self.assert_nothing_is_left()
        self.assert_logged('WARNING')
        self.assertEqual(0, self.waits())

    def test_a_shortage_is_refused_before_anything_is_touched(self):
        for path, refusal in (
            (paths.BUILD, exception.ComputeResourcesUnavailable),
            (paths.EVACUATION, exception.ComputeResourcesUnavailable),
            (paths.RESTART, exception.ComputeResourcesUnavailable),
            (paths.RESUME, exception.InstanceFaultRollback),
        ):
            exc = self.assertRaises(refusal, self.start, path, self.short)
            # What it was before, Nova sets it back to.
            inner = getattr(exc, 'inner_exception', exc)
            self.assertIs(exception.ComputeResourcesUnavailable, type(inner))
            self.assertIn(LACKS, str(inner))
            self.assert_nothing_is_left()

    def test_one_that_cannot_be_checked_counts_once(self):
        """It is looked at again when it is launched."""
        (self.machine.root / 'proc/self/mounts').unlink()
        with self.of(paths.BUILD, self.fits), self.launching(self.fits):
            pass
        self.assertEqual(
            1,
            self.host.counted('checks', result='unchecked', page_size='2048'),
        )

    def test_a_build_goes_to_the_next_host(self):
        self.short.vm_state = vm_states.BUILDING
        exc = self.assertRaises(
            exception.GroupAffinityViolation,
            self.start,
            paths.BUILD,
            self.short,
        )
        self.assertIn(LACKS, str(exc))
        self.assertEqual([uuids.instance], self.host.returned)
        self.assert_nothing_is_left()

    def test_what_cannot_be_undone_is_not_refused(self):
        for path, excuse in (
            (paths.REBUILD, 'the rebuild has removed the guest already'),
            (paths.HOST_BOOT, 'it ran when this host went down'),
            (paths.RESCUE, 'it was powered off for the rescue'),
            (paths.ARRIVAL, 'it has been moved already'),
        ):
            self.log.records.clear()
            self.assertEqual(1, len(self.start(path, self.short)))
            self.assert_logged(
                'WARNING',
                f'Starting although the kernel lacks pages, because {excuse}; '
                f'QEMU may fail: {LACKS}',
            )
            self.assert_nothing_is_left()

    def test_the_option_is_that_of_the_path(self):
        for path in PATHS:
            restart = path not in (paths.BUILD, paths.EVACUATION)
            self.flags(
                page_check='enforce' if restart else 'off',
                page_check_on_restart='off' if restart else 'enforce',
            )
            self.assertEqual((), self.start(path, self.short))
        self.assert_logged('WARNING')

    def test_the_domain_that_ends_before(self):
        self.running.add(uuids.other, 1, number=6)
        self.running.add(uuids.instance, 32, number=7, node=1)
        for path in PATHS:
            [promise] = self.start(path, self.fits)
            self.assertEqual(7 if path.is_restart else None, promise.domain_id)

    def test_of_the_same_pages_the_next_is_told(self):
        with self.of(paths.BUILD, self.fits):
            other = self.guest(66, node=1, uuid=uuids.other)
            exc = self.assertRaises(
                exception.ComputeResourcesUnavailable,
                self.start,
                paths.RESTART,
                other,
            )
            self.assertIn('needed 33, available 32', str(exc))

    def test_in_doubt_it_waits(self):
        other = self.guest(128, node=1, uuid=uuids.other)
        with (
            self.of(paths.BUILD, self.fits),
            self.launching(self.fits),
        ):
            self.machine.set_pool(1, 2048, total=99, free=64)
            self.flags(page_wait=0)
            exc = self.assertRaises(
                exception.ComputeResourcesUnavailable,
                self.start,
                paths.BUILD,
                other,
            )
            self.assertIn('while other guests are starting there', str(exc))
            self.flags(page_wait=LONG)
            self.later(self.desk.fail, uuids.instance)
            self.assertRaises(
                exception.ComputeResourcesUnavailable,
                self.start,
                paths.BUILD,
                other,
            )
        self.assertEqual(1, self.waits())


class NoMatterTest(StartsTestCase):
    """Guests that the page check has nothing to do with."""

    def setUp(self):
        super().setUp()
        # Whoever reads is told of.
        (self.machine.root / 'proc/self/mounts').unlink()

    def go_through(self, guest):
        for path in PATHS:
            self.assertEqual((), self.start(path, guest))
            with self.of(path, guest):
                self.starts.ended(guest)
                with self.launching(guest):
                    self.assertEqual((), self.desk.promises)
        with self.launching(guest):
            self.assertEqual((), self.desk.promises)
        self.starts.hold(paths.REBUILD, self.context, guest, 'this')
        with self.starts.across():
            self.starts.begin(paths.RESTART, self.context, guest, 'this')
            with self.starts.relaunching(guest):
                self.assertEqual((), self.desk.promises)

    def test_floating_guests(self):
        self.go_through(samples.instance())
        self.assertEqual(0, self.running.asked)
        self.assert_logged('WARNING')

    def test_small_pages_from_any_node(self):
        self.go_through(samples.instance(samples.guest_cell()))
        self.assertEqual(0, self.running.asked)
        self.assert_logged('WARNING')

    def test_off_is_stock(self):
        """Not even the instance is looked at."""

        class Instance:
            uuid = uuids.instance

        self.flags(page_check='off', page_check_on_restart='off')
        self.go_through(Instance())
        self.assertEqual(0, self.running.asked)
        self.assertEqual([], self.log.records)

    def test_this_proves_something(self):
        self.start(paths.RESTART, self.short)
        self.assertNotEqual(0, self.running.asked)
        self.assertEqual(1, len(self.log.at('WARNING')))


class LaunchingTest(StartsTestCase):
    def state(self):
        """Of the promises: whether each is launching."""
        return [promise.launching for promise in self.desk.promises]

    def test_a_promise_is_kept_until_the_launch_has_returned(self):
        for path in PATHS:
            with self.of(path, self.fits):
                self.assertEqual([False], self.state())
                with self.launching(self.fits):
                    self.assertEqual([True], self.state())
                self.assertEqual([], self.state())
            self.assert_nothing_is_left()

    def test_after_a_launch_that_failed_it_holds_for_another_try(self):
        with self.of(paths.RESTART, self.fits):
            for failure in (RuntimeError, KilledError):
                with (
                    contextlib.suppress(RuntimeError, KilledError),
                    self.launching(self.fits),
                ):
                    raise failure
                self.assertEqual([False], self.state())
        self.assert_nothing_is_left()

    def test_a_guest_that_arrives_is_promised_its_pages_at_last(self):
        with self.launching(self.short):
            self.assertEqual([True], self.state())
        self.assert_nothing_is_left()
        [warning] = self.log.at('WARNING')
        self.assertIn('it has been moved already', warning)

    def test_one_that_fails_to_arrive(self):
        with contextlib.suppress(KilledError), self.launching(self.fits):
            raise KilledError
        self.assert_nothing_is_left()

    def launch(self, guest):
        with self.launching(guest):
            self.fail('it is launched')

    def test_somebody_took_the_pages_of_a_build(self):
        """It is refused once more, while that costs nothing but the disk."""
        with self.of(paths.BUILD, self.fits):
            self.machine.steal(1, 2048, 33)
            exc = self.assertRaises(
                exception.ComputeResourcesUnavailable, self.launch, self.fits
            )
            self.assertIn('node 1: needed 32, available 31', str(exc))
            self.assertEqual([False], self.state())

    def test_for_a_moment(self):
        self.host.set(CONFIRM=LONG)
        with self.of(paths.BUILD, self.fits):
            self.machine.steal(1, 2048, 33)
            self.later(self.machine.steal, 1, 2048, -33)
            with self.launching(self.fits):
                self.assertEqual([True], self.state())

    def test_in_warn_mode_it_is_launched(self):
        self.flags(page_check='warn')
        with self.of(paths.BUILD, self.fits):
            self.machine.steal(1, 2048, 33)
            with self.launching(self.fits):
                self.assertEqual([True], self.state())
        self.assertEqual(1, len(self.log.at('WARNING')))
        self.assertIn('has started', self.log.at('INFO')[0])

    def test_a_restart_has_no_way_back(self):
        for path in PATHS[2:]:
            self.machine.set_pool(1, 2048, total=64, free=64)
            with self.of(path, self.fits):
                self.machine.steal(1, 2048, 33)
                with self.launching(self.fits):
                    self.assertEqual([True], self.state())


class PartTest(StartsTestCase):
    """A start that is part of another."""

    def test_a_hard_reboot_of_a_soft_one_that_got_no_answer(self):
        with self.of(paths.RESTART, self.fits):
            self.machine.steal(1, 2048, 64)
            self.assertEqual(1, len(self.start(paths.RESTART, self.fits)))
            self.assertEqual(1, len(self.desk.promises))
            self.assertEqual(1, len(self.starts._under_way))
        self.assert_nothing_is_left()

    def test_guests_are_told_apart(self):
        other = self.guest(node=1, uuid=uuids.other)
        with self.of(paths.BUILD, self.fits):
            with self.of(paths.BUILD, other):
                self.assertEqual(2, len(self.desk.promises))
            self.assertEqual(1, len(self.desk.promises))

    def test_host_boot_is_patient_also_for_the_reboot_within(self):
        with self.of(paths.HOST_BOOT, self.short):
            self.start(paths.RESTART, self.short)
        with (
            self.of(paths.HOST_BOOT, self.fits),
            self.of(paths.RESTART, self.fits),
        ):
            self.machine.steal(1, 2048, 64)
            self.starts.ended(self.fits)


class EndedTest(StartsTestCase):
    """The guest's domain is gone, and its pages may not be back."""

    def setUp(self):
        super().setUp()
        self.flags(page_wait=LONG)

    def end(self):
        """It is destroyed, and somebody else maps its memory."""
        self.machine.set_pool(1, 2048, total=64, free=31)
        self.starts.ended(self.fits)

    def test_it_waits_until_they_are(self):
        with self.of(paths.RESTART, self.fits):
            self.later(self.machine.set_pool, 1, 2048, 64, 32)
            self.end()

    def test_no_longer_than_page_wait(self):
        with self.of(paths.RESTART, self.fits):
            self.flags(page_wait=0)
            exc = self.assertRaises(
                exception.ComputeResourcesUnavailable, self.end
            )
        self.assertIn('needed 32, available 31', str(exc))

    def test_what_cannot_be_refused_is_not(self):
        self.flags(page_wait=0)
        for path in (paths.RESCUE, paths.HOST_BOOT, paths.REBUILD):
            self.machine.set_pool(1, 2048, total=64, free=64)
            with self.of(path, self.fits):
                self.end()

    def test_nobody_waits_for_a_guest_that_is_stopped(self):
        self.end()

    def test_nor_for_a_build_that_is_cleaned_up(self):
        with self.of(paths.BUILD, self.fits):
            self.end()

    def test_it_waits_once(self):
        """Nova destroys a guest again that was started meanwhile."""
        self.flags(page_check_on_restart='warn', page_wait=0)
        with self.of(paths.RESTART, self.fits):
            self.end()
            self.assertEqual(1, len(self.log.at('WARNING')))
            self.end()
            self.assertEqual(1, len(self.log.at('WARNING')))

    def test_nor_for_what_lacked_before(self):
        with self.of(paths.HOST_BOOT, self.short):
            self.starts.ended(self.short)
        self.assertEqual(1, len(self.log.at('WARNING')))

    def test_nor_for_one_that_has_started(self):
        with self.of(paths.RESTART, self.fits):
            with self.launching(self.fits):
                pass
            self.end()


class HoldTest(StartsTestCase):
    """A rebuild in place destroys the guest, and starts it much later."""

    def setUp(self):
        super().setUp()
        self.running.add(uuids.instance, 32, number=7, node=1)
        self.machine.set_pool(1, 2048, total=64, free=0)

    def hold(self, guest, path=paths.REBUILD):
        self.starts.hold(path, self.context, guest, 'this')

    def destroy(self):
        self.running.claims = ()
        self.machine.set_pool(1, 2048, total=64, free=32)

    def test_its_pages_are_kept_for_it(self):
        self.hold(self.fits)
        self.destroy()
        self.starts.ended(self.fits)
        self.assertRaises(
            exception.ComputeResourcesUnavailable,
            self.start,
            paths.BUILD,
            self.guest(2, node=1, uuid=uuids.other),
        )
        [promise] = self.start(paths.REBUILD, self.fits)
        self.assertEqual(7, promise.domain_id)
        self.assert_nothing_is_left()

    def test_they_end_with_a_rebuild_that_fails(self):
        self.hold(self.fits)

        def fail():
            with self.of(paths.REBUILD, self.fits):
                raise KilledError

        self.assertRaises(KilledError, fail)
        self.assert_nothing_is_left()

    def test_they_end_with_the_instance_of_a_rebuild_that_never_starts(self):
        """Nova does not tell the driver."""
        self.hold(self.fits)
        self.assertEqual(1, len(self.desk.promises))
        self.fits = None
        gc.collect()
        self.assert_nothing_is_left()

    def test_whatever_it_lacked(self):
        self.destroy()
        self.machine.steal(1, 2048, 32)
        self.hold(self.fits)
        self.assertEqual(1, len(self.log.at('WARNING')))
        self.fits = None
        gc.collect()
        self.assert_nothing_is_left()

    def test_one_rebuild_after_another(self):
        """The first has ended before it began to start."""
        for _ in range(2):
            self.hold(self.fits)
            self.assertEqual(1, len(self.desk.promises))
            self.fits = self.guest(node=1)
            gc.collect()
        self.hold(self.fits)
        self.start(paths.REBUILD, self.fits)
        self.assert_nothing_is_left()
        # The end of the instance ends nothing else.
        with self.of(paths.RESTART, self.guest(node=1)):
            self.fits = None
            gc.collect()
            self.assertEqual(1, len(self.desk.promises))

    def test_an_evacuation_is_refused_before_its_volumes_move(self):
        """And while Nova still goes by the host that it comes from."""
        self.destroy()
        self.hold(self.fits, paths.EVACUATION)
        self.start(paths.BUILD, self.fits)
        self.assert_nothing_is_left()
        self.machine.steal(1, 2048, 1)
        self.assertRaises(
            exception.ComputeResourcesUnavailable,
            self.hold,
            self.fits,
            paths.EVACUATION,
        )
        self.assert_nothing_is_left()

    def test_a_rebuild_that_nobody_announced(self):
        """nova-compute was restarted meanwhile."""
        self.destroy()
        self.assertEqual(1, len(self.start(paths.REBUILD, self.fits)))
        self.assert_nothing_is_left()

    def test_it_waits_until_the_pages_are_back(self):
        self.flags(page_wait=LONG)
        self.hold(self.fits)
        self.running.claims = ()
        gone = []
        self.later(lambda: gone.append(self.destroy()))
        self.starts.ended(self.fits)
        self.assertEqual(1, len(gone))

    def test_the_instance_ends_while_the_lock_is_held(self):
        """Wherever memory is allocated, and in whichever thread."""
        self.hold(self.fits)
        self.destroy()
        running = self.running.running

        def end():
            self.fits = None
            gc.collect()
            return running()

        self.running.running = end
        other = self.guest(node=1, uuid=uuids.other)
        self.assertRaises(
            exception.ComputeResourcesUnavailable,
            self.start,
            paths.BUILD,
            other,
        )
        self.assertEqual(1, len(self.start(paths.BUILD, other)))
        self.assert_nothing_is_left()


class AcrossTest(StartsTestCase):
    """A cold snapshot stops a guest, and starts it when it is done."""

    def begin(self, guest):
        self.starts.begin(paths.RESTART, self.context, guest, 'this')

    def test_from_the_stop_to_the_end(self):
        with self.starts.across():
            self.assertEqual((), self.desk.promises)
            self.begin(self.fits)
            self.assertEqual(1, len(self.desk.promises))
        self.assert_nothing_is_left()

    def test_it_fails(self):
        for failure in (RuntimeError, KilledError):
            with (
                contextlib.suppress(RuntimeError, KilledError),
                self.starts.across(),
            ):
                self.begin(self.fits)
                raise failure
            self.assert_nothing_is_left()

    def test_it_is_refused(self):
        with self.starts.across():
            self.assertRaises(
                exception.ComputeResourcesUnavailable, self.begin, self.short
            )
        self.assert_nothing_is_left()

    def relaunch(self):
        with self.starts.relaunching(self.fits):
            return [promise.launching for promise in self.desk.promises]

    def test_it_is_started_again(self):
        """libvirt is asked for that, and not by _create_guest()."""
        with self.starts.across():
            self.begin(self.fits)
            self.assertEqual([True], self.relaunch())
            self.assertEqual((), self.desk.promises)

    def test_it_fails_to(self):
        with self.starts.across():
            self.begin(self.fits)
            with (
                contextlib.suppress(KilledError),
                self.starts.relaunching(self.fits),
            ):
                raise KilledError
            [promise] = self.desk.promises
            self.assertFalse(promise.launching)

    def test_its_pages_are_not_back(self):
        with self.starts.across():
            self.begin(self.fits)
            self.machine.steal(1, 2048, 33)
            self.assertEqual([True], self.relaunch())
        self.assert_logged(
            'WARNING',
            'Starting although the kernel lacks pages, because it was stopped '
            'for the snapshot; QEMU may fail: huge pages of 2048 KiB on host '
            'NUMA node 1: needed 32, available 31',
        )

    def test_a_live_one_begins_nothing(self):
        with self.starts.across():
            pass
        self.assert_nothing_is_left()

    def test_two_at_once(self):
        """Of whichever instances: each ends with its own."""
        begun, ended = threading.Event(), threading.Event()

        def snapshot():
            with self.starts.across():
                self.begin(self.fits)
                begun.set()
                ended.wait(LONG)

        thread = threading.Thread(target=snapshot)
        with self.starts.across():
            thread.start()
            self.assertTrue(begun.wait(LONG))
            self.begin(self.fits)
            ended.set()
            thread.join(LONG)
            self.assertEqual(1, len(self.desk.promises))
        self.assert_nothing_is_left()


class HostBootTest(StartsTestCase):
    """Pools may be filled by a service that starts later."""

    def test_all_guests_share_the_time(self):
        self.flags(host_boot_wait=2, page_wait=LONG)
        begun = time.monotonic()
        for index in range(3):
            guest = self.guest(uuid=f'{index}' * 36)
            with self.of(paths.HOST_BOOT, guest):
                pass
        # Each by itself would be three times as long.
        self.assertGreaterEqual(time.monotonic() - begun, 2)
        self.assertLess(time.monotonic() - begun, 6)
        self.assertEqual(3, len(self.log.at('WARNING')))

    def test_the_pages_come(self):
        self.host.set(LOOK_AGAIN=0.01)
        self.flags(host_boot_wait=LONG)
        self.later(self.set_free, 64)
        self.start(paths.HOST_BOOT, self.short)
        self.assert_logged('WARNING')

    def test_nobody_else_waits_for_them(self):
        self.flags(host_boot_wait=LONG, page_wait=LONG)
        begun = time.monotonic()
        for path in PATHS:
            if not path.insists:
                with contextlib.suppress(
                    exception.ComputeResourcesUnavailable,
                    exception.InstanceFaultRollback,
                ):
                    self.start(path, self.short)
        self.assertLess(time.monotonic() - begun, LONG / 2)


class LetThroughTest(StartsTestCase):
    """What became of guests that would have been refused."""

    started = f'The guest that seemed to lack pages has started: {LACKS}'

    def setUp(self):
        super().setUp()
        self.flags(page_check='warn', page_check_on_restart='warn')

    def counted(self):
        return tuple(
            self.host.counted('warned_starts', outcome=outcome)
            for outcome in ('started', 'failed')
        )

    def test_it_has_started(self):
        for count, path in enumerate(PATHS, 1):
            self.log.records.clear()
            self.start(path, self.short)
            self.assert_logged('INFO', self.started)
            self.assertEqual(1, len(self.log.at('WARNING')))
            self.assertEqual((count, 0), self.counted())

    def test_it_has_not(self):
        def fail():
            with self.of(paths.BUILD, self.short):
                raise RuntimeError('unable to map backing store')

        self.assertRaises(RuntimeError, fail)
        self.assert_logged('INFO')
        self.assertEqual(
            f'The guest that seemed to lack pages has not started ({LACKS}): '
            'unable to map backing store',
            self.log.at('WARNING')[1],
        )
        self.assertEqual((0, 1), self.counted())

    def test_also_where_the_mode_is_to_enforce(self):
        """A rebuild is let through all the same."""
        self.flags(page_check_on_restart='enforce')
        self.start(paths.REBUILD, self.short)
        self.assert_logged('INFO', self.started)

    def test_it_was_in_doubt(self):
        other = guests.PageNeed(0, 2048, 16)
        self.desk.promise('other', [other], lambda _: None, 0)
        self.desk.launch('other')
        self.start(paths.BUILD, self.guest(32))
        [line] = self.log.at('INFO')
        self.assertIn('needed 16, available 0', line)

    def test_it_lacked_them_until_it_was_launched(self):
        with self.of(paths.BUILD, self.short):
            self.set_free(64)
            with self.launching(self.short):
                pass
        self.assert_logged('INFO', self.started)

    def test_it_lacked_them_when_its_domain_had_ended(self):
        with self.of(paths.RESTART, self.fits):
            self.machine.steal(1, 2048, 33)
            self.starts.ended(self.fits)
        [line] = self.log.at('INFO')
        self.assertIn('node 1: needed 32, available 31', line)

    def test_it_lacked_them_when_it_was_held(self):
        self.starts.hold(paths.REBUILD, self.context, self.short, 'this')
        self.set_free(64)
        self.starts.ended(self.short)
        self.start(paths.REBUILD, self.short)
        self.assert_logged('INFO', self.started)
        self.assertEqual((1, 0), self.counted())

    def test_of_a_part_nothing_is_told(self):
        with self.of(paths.RESTART, self.short):
            self.start(paths.RESTART, self.short)
            self.assert_logged('INFO')
        self.assert_logged('INFO', self.started)

    def test_there_was_enough(self):
        def fail():
            with self.of(paths.BUILD, self.fits):
                raise RuntimeError

        self.start(paths.BUILD, self.fits)
        self.assertRaises(RuntimeError, fail)
        self.machine.set_bound(2048, overcommit=1)
        self.start(paths.BUILD, self.short)
        self.assert_logged('INFO')
        self.assertEqual((0, 0), self.counted())

    def test_what_was_refused_has_not_been_let_through(self):
        self.flags(page_check='enforce')
        self.assertRaises(
            exception.ComputeResourcesUnavailable,
            self.start,
            paths.BUILD,
            self.short,
        )
        self.assert_logged('INFO')
        self.assertEqual((0, 0), self.counted())


class BrokenTest(StartsTestCase):
    """However a start ends, nothing is left of it."""

    def test_every_kind_of_failure(self):
        for failure in (
            RuntimeError,
            exception.NovaException,
            KeyboardInterrupt,
            SystemExit,
            GeneratorExit,
            KilledError,
        ):
            for path in PATHS:
                with (
                    contextlib.suppress(failure),
                    self.of(path, self.fits),
                    self.launching(self.fits),
                ):
                    raise failure
                self.assert_nothing_is_left()

    def test_a_thread_that_ends(self):
        def start():
            with self.of(paths.BUILD, self.fits):
                raise SystemExit

        thread = threading.Thread(target=start)
        thread.start()
        thread.join(LONG)
        self.assert_nothing_is_left()

    def test_a_listing_that_fails_as_nobody_thought(self):
        self.running.failure = KilledError()
        for path in PATHS:
            self.assertRaises(KilledError, self.start, path, self.fits)
            self.assert_nothing_is_left()

    def test_two_threads_start_one_guest(self):
        """The promise ends with the last of them."""
        begun, ended = threading.Event(), threading.Event()

        def start():
            with self.of(paths.RESTART, self.fits):
                begun.set()
                ended.wait(LONG)

        thread = threading.Thread(target=start)
        thread.start()
        self.assertTrue(begun.wait(LONG))
        with self.of(paths.RESTART, self.fits):
            ended.set()
            thread.join(LONG)
            self.assertEqual(1, len(self.desk.promises))
            with self.launching(self.fits):
                self.assertEqual(
                    facts.Promise(
                        uuids.instance,
                        (guests.PageNeed(1, 2048, 32),),
                        launching=True,
                    ),
                    self.desk.promises[0],
                )
        self.assert_nothing_is_left()
