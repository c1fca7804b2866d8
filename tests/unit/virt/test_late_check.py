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

"""The late check, on Nova's own Instance and on records of its database."""

import contextlib
from unittest import mock

import fixtures
from nova import exception
from nova.compute import task_states, vm_states

from nova_numa_guard import guests, metrics
from nova_numa_guard.virt import late_check
from tests.unit import base, samples
from tests.unit.virt import records


class LateCheckTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.flags(isolation='host')
        self.records = self.useFixture(records.Records())
        self.events = self.useFixture(records.EventRecorder())
        self.placement = mock.Mock()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.scheduler.client.report.report_client_singleton',
                lambda: self.placement,
            )
        )
        self.metrics = metrics.Metrics()
        self.check = late_check.LateCheck(self.metrics)
        self.context = samples.context()

    def guest(self, *cells, **values):
        """One that Nova builds here."""
        return self.records.add(
            *cells,
            **{
                'host': 'this',
                'vm_state': vm_states.BUILDING,
                'task_state': task_states.SPAWNING,
                **values,
            },
        )

    def evacuated(self, *cells):
        guest = self.records.add(*cells, host='dead')
        self.records.move(guest, 'this', *cells, kind='evacuation').claim()
        guest.task_state = task_states.REBUILD_SPAWNING
        return guest

    def unshelved(self, *cells):
        return self.guest(*cells, vm_state=vm_states.SHELVED_OFFLOADED)

    def settled(self, *cells, **values):
        return self.records.add(*cells, host='this', **values)

    def spawn(self, guest, failure=None):
        """What the driver does; what is in the block is Nova's spawn()."""
        with self.check.admitted(self.context, guest, 'this', 'this-node'):
            if failure is not None:
                raise failure
            self.started = guest

    def assert_starts(self, guest):
        self.started = None
        self.spawn(guest)
        self.assertIs(guest, self.started)

    def assert_refused(self, error, guest):
        """Nova's own class, for others do not cross RPC."""
        self.started = None
        exc = self.assertRaises(error, self.spawn, guest)
        self.assertIs(error, type(exc))
        self.assertIsNone(self.started)
        return exc

    def assert_build_refused(self, guest):
        return self.assert_refused(exception.GroupAffinityViolation, guest)


CELL = samples.guest_cell


class BuildTest(LateCheckTestCase):
    def test_on_an_empty_host(self):
        for cells in ((), (CELL(),)):
            self.records.guests.clear()
            self.check = late_check.LateCheck(self.metrics)
            self.assert_starts(self.guest(*cells))
        self.assertEqual([], self.log.records)

    def test_beside_its_like(self):
        self.settled()
        self.assert_starts(self.guest())

    def test_beside_the_other_kind(self):
        for here, comes, kind, present in (
            ((), (CELL(),), 'affined', 'floating'),
            ((CELL(),), (), 'floating', 'affined'),
        ):
            self.records.guests.clear()
            self.log.records.clear()
            self.check = late_check.LateCheck(self.metrics)
            self.settled(*here)
            guest = self.guest(*comes)
            exc = self.assert_build_refused(guest)
            why = (
                f'isolation: {kind} guest on host this: '
                f'{present} guests present: 1, 1024 MiB'
            )
            self.assertEqual(why, str(exc))
            self.assert_logged('WARNING', f'Refused to start: {why}')

    def test_the_event(self):
        """The fault on the server says only that hosts were exhausted."""
        self.settled(flavor=samples.flavor(2048))
        self.settled(flavor=samples.flavor(512))
        guest = self.guest(CELL())
        self.assert_build_refused(guest)
        [event] = self.events.written
        self.assertEqual('compute_numa_guard_isolation_check', event['event'])
        self.assertEqual('this', event['host'])
        self.assertEqual(guest.uuid, event['instance_uuid'])
        self.assertEqual(self.context.request_id, event['request_id'])
        self.assertEqual('Error', event['result'])
        self.assertEqual(
            'isolation: affined guest on host this: '
            'floating guests present: 2, 2560 MiB',
            event['details'],
        )

    def test_its_allocation_is_returned(self):
        """Nova would keep that of one that it may build nowhere else."""
        self.settled()
        guest = self.guest(CELL())
        self.assert_build_refused(guest)
        self.placement.delete_allocation_for_instance.assert_called_once_with(
            self.context, guest.uuid, force=True
        )

    def test_an_allocation_that_cannot_be_returned(self):
        self.settled()
        self.placement.delete_allocation_for_instance.side_effect = (
            exception.AllocationDeleteFailed(consumer_uuid='x', error='why')
        )
        self.assert_build_refused(self.guest(CELL()))
        self.assertIn('could not be returned', self.log.at('WARNING')[-1])

    def test_an_event_that_cannot_be_written(self):
        self.events.failure = RuntimeError('no database')
        self.settled()
        self.assert_build_refused(self.guest(CELL()))
        self.assertEqual(2, len(self.log.at('WARNING')))

    def test_nova_is_asked_as_an_administrator(self):
        """A user may not see who else is on the host."""
        self.assert_starts(self.guest())
        [(context, host)] = self.records.asked
        self.assertTrue(context.is_admin)
        self.assertFalse(self.context.is_admin)
        self.assertEqual('this', host)

    def test_others_that_arrive_and_are_not_admitted_do_not_count(self):
        """Else two that are claimed at once refuse each other."""
        self.guest()
        self.unshelved()
        self.evacuated()
        self.assert_starts(self.guest(CELL()))

    def test_migrations_in_progress_do(self):
        guest = self.records.add(host='other')
        self.records.move(guest, 'this').claim()
        self.assert_build_refused(self.guest(CELL()))

    def test_guests_that_may_come_back_do(self):
        guest = self.settled()
        self.records.move(guest, 'other').claim().leave().start().verify()
        self.assert_build_refused(self.guest(CELL()))

    def test_a_mixed_host(self):
        self.settled(CELL(), flavor=samples.flavor(4096))
        self.settled()
        for word, refused in (
            ('dominant', True),
            ('closed', True),
            ('open', False),
        ):
            self.flags(mixed_hosts=word)
            guest = self.guest()
            if refused:
                self.assert_build_refused(guest)
            else:
                self.assert_starts(guest)
        self.flags(mixed_hosts='dominant')
        self.assert_starts(self.guest(CELL()))

    def test_near_the_middle_what_the_host_was_counts(self):
        self.settled(CELL(), flavor=samples.flavor(1100))
        self.settled(flavor=samples.flavor(1000))
        self.check.last = guests.Kind.FLOATING
        self.assert_build_refused(self.guest(CELL()))
        self.assert_starts(self.guest())


class FirstAdmittedStaysTest(LateCheckTestCase):
    def test_while_it_starts(self):
        first, second = self.guest(), self.guest(CELL())
        with self.check.admitted(self.context, first, 'this', 'this-node'):
            self.assert_build_refused(second)

    def test_when_it_has_started_and_nova_has_not_noted_it(self):
        first, second = self.guest(), self.guest(CELL())
        self.assert_starts(first)
        self.assert_build_refused(second)

    def test_when_nova_has_noted_it(self):
        first, second = self.guest(), self.guest(CELL())
        self.assert_starts(first)
        first.vm_state, first.task_state = vm_states.ACTIVE, None
        self.assert_build_refused(second)

    def test_until_it_is_deleted(self):
        first, second = self.guest(), self.guest(CELL())
        self.assert_starts(first)
        self.records.guests.remove(first)
        self.assert_starts(second)

    def test_its_like_is_admitted_meanwhile(self):
        first, second = self.guest(), self.guest()
        with self.check.admitted(self.context, first, 'this', 'this-node'):
            self.assert_starts(second)

    def test_one_that_is_refused_keeps_nobody_away(self):
        first, second = self.guest(), self.guest(CELL())
        with self.check.admitted(self.context, first, 'this', 'this-node'):
            self.assert_build_refused(second)
        self.records.guests.remove(first)
        self.assert_starts(self.guest())

    def test_one_that_fails_to_start_keeps_nobody_away(self):
        for failure in (
            exception.InstanceNotFound(instance_id='x'),
            RuntimeError('libvirt is gone'),
            KeyboardInterrupt(),
            SystemExit(1),
            GeneratorExit(),
        ):
            first, second = self.guest(), self.guest(CELL())
            with contextlib.suppress(BaseException):
                self.spawn(first, failure)
            self.assert_starts(second)
            self.records.guests.clear()
            self.check = late_check.LateCheck(self.metrics)

    def test_the_failure_is_novas_to_see(self):
        failure = exception.ComputeResourcesUnavailable(reason='pages')
        for error in (failure, KeyboardInterrupt()):
            found = self.assertRaises(
                type(error), self.spawn, self.guest(), error
            )
            self.assertIs(error, found)


class MoveTest(LateCheckTestCase):
    def test_unshelving_is_given_up(self):
        """It is not rescheduled, and the server stays shelved."""
        self.settled()
        exc = self.assert_refused(
            exception.ComputeResourcesUnavailable, self.unshelved(CELL())
        )
        self.assertEqual(
            'Insufficient compute resources: isolation: affined guest on '
            'host this: floating guests present: 1, 1024 MiB.',
            str(exc),
        )
        self.assertEqual(1, len(self.events.written))

    def test_unshelving_beside_its_like(self):
        self.settled(CELL())
        self.assert_starts(self.unshelved(CELL()))

    def test_evacuation_only_warns(self):
        """Every guest of a dead host comes back."""
        self.settled()
        self.assert_starts(self.evacuated(CELL()))
        self.assert_logged(
            'WARNING',
            'Starting although it breaks the isolation, because it was '
            'evacuated and [numa_guard] isolation_on_moves is "prefer": '
            'affined guest on host this: floating guests present: 1, '
            '1024 MiB',
        )
        self.assertEqual([], self.events.written)

    def test_and_counts_from_then_on(self):
        self.assert_starts(self.evacuated(CELL()))
        self.assert_build_refused(self.guest())

    def test_evacuation_that_is_enforced_is_given_up(self):
        self.flags(isolation_on_moves='enforce')
        self.settled()
        self.assert_refused(
            exception.ComputeResourcesUnavailable, self.evacuated(CELL())
        )
        self.assertEqual(1, len(self.events.written))

    def check_evacuation(self, *cells):
        guest = self.evacuated(*cells)
        self.check.check_evacuation(self.context, guest, 'this', 'this-node')
        return guest

    def test_it_is_given_up_before_anything_is_taken(self):
        self.flags(isolation_on_moves='enforce')
        self.settled()
        self.assertRaises(
            exception.ComputeResourcesUnavailable,
            self.check_evacuation,
            CELL(),
        )
        self.assertEqual(1, len(self.events.written))

    def test_one_that_does_not_get_further_is_not_counted(self):
        self.flags(isolation_on_moves='enforce')
        self.records.guests.remove(self.check_evacuation(CELL()))
        self.assert_starts(self.guest())

    def test_nothing_is_said_before_it_starts(self):
        for options in (
            {'isolation': 'none', 'isolation_on_moves': 'enforce'},
            {'isolation': 'cell', 'isolation_on_moves': 'enforce'},
            {'isolation': 'host', 'isolation_on_moves': 'prefer'},
            {
                'isolation': 'host',
                'isolation_on_moves': 'enforce',
                'isolation_mode': 'warn',
            },
        ):
            self.flags(**options)
            self.settled()
            self.check_evacuation(CELL())
        self.assertEqual([], self.log.records)
        self.assertEqual([], self.events.written)

    def test_prefer_is_not_for_builds_and_unshelving(self):
        self.flags(isolation_on_moves='prefer')
        self.settled()
        self.assert_build_refused(self.guest(CELL(), host=None))
        self.assert_refused(
            exception.ComputeResourcesUnavailable,
            self.unshelved(CELL()),
        )

    def test_a_rebuild_in_place_is_never_judged(self):
        """The guest is gone already, and Nova would lose its allocation."""
        self.settled()
        guest = self.settled(CELL(), task_state=task_states.REBUILD_SPAWNING)
        self.assert_starts(guest)
        self.assertEqual([], self.records.asked)
        self.assertEqual([], self.log.records)


class WhoIsJudgedTest(LateCheckTestCase):
    def test_under_isolation_by_host_only(self):
        self.settled()
        for word in ('none', 'cell'):
            self.flags(isolation=word)
            self.assert_starts(self.guest(CELL()))
        self.assertEqual([], self.records.asked)
        self.assertEqual([], self.log.records)

    def test_exempt_guests_are_not(self):
        self.settled()
        exempt = samples.flavor(isolation='exempt')
        self.assert_starts(self.guest(CELL(), flavor=exempt))
        self.assertEqual([], self.log.records)

    def test_and_keep_nobody_away(self):
        exempt = samples.flavor(isolation='exempt')
        self.settled(flavor=exempt)
        self.assert_starts(self.guest(flavor=exempt))
        self.assert_starts(self.guest(CELL()))

    def test_a_guest_that_is_listed_here_already_does_not_count_itself(self):
        guest = self.guest(CELL())
        self.assert_starts(guest)
        guest.vm_state = vm_states.ACTIVE
        self.assert_starts(guest)


class WarnTest(LateCheckTestCase):
    def setUp(self):
        super().setUp()
        self.flags(isolation_mode='warn')
        self.settled()

    def test_it_starts_and_says_so(self):
        self.assertFalse(self.check.enforce)
        for guest in (
            self.guest(CELL()),
            self.unshelved(CELL()),
            self.evacuated(CELL()),
        ):
            self.log.records.clear()
            self.assert_starts(guest)
            self.records.guests.remove(guest)
            [warning] = self.log.at('WARNING')
            self.assertIn('isolation_mode is "warn"', warning)
            self.assertIn('floating guests present: 1, 1024 MiB', warning)
        self.assertEqual([], self.events.written)

    def test_the_mode_changes_while_the_service_runs(self):
        self.flags(isolation_mode='enforce')
        self.assertTrue(self.check.enforce)
        self.assert_build_refused(self.guest(CELL()))


class UnreadableTest(LateCheckTestCase):
    """A guest is not refused for what the guard cannot read."""

    def test_a_database_that_does_not_answer(self):
        self.settled()
        for failure in (
            exception.DBNotAllowed(binary='nova-compute'),
            RuntimeError('no database'),
        ):
            self.records.failure = failure
            self.log.records.clear()
            self.assert_starts(self.guest(CELL()))
            [warning] = self.log.at('WARNING')
            self.assertIn('isolation is not checked', warning)
            self.assertIn(str(failure), warning)
        self.assertEqual([], self.events.written)

    def test_one_that_was_not_judged_is_there_for_the_next(self):
        self.records.failure = RuntimeError('no database')
        self.assert_starts(self.guest())
        self.records.failure = None
        self.assert_build_refused(self.guest(CELL()))

    def test_a_bad_mode_does_not_stop_it(self):
        self.settled()
        self.raw(
            isolation_mode='perhaps',
            mixed_hosts='perhaps',
            isolation_on_moves='perhaps',
        )
        self.assertTrue(self.check.enforce)
        self.assert_build_refused(self.guest(CELL()))
        self.assert_starts(self.evacuated(CELL()))
        self.assertEqual(3, len(self.log.at('ERROR')))
