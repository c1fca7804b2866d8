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

"""Who is on a host, at every step of Nova's own moves."""

import inspect
import json
from unittest import mock

from nova import exception, objects
from nova.compute import task_states, vm_states
from nova.db.main import api as db_api
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import census
from nova_numa_guard.virt import host_guests
from tests.unit import base, samples
from tests.unit.virt import records

SMALL = samples.flavor(1024, 2)
LARGE = samples.flavor(4096, 8)


class HostGuestsTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.records = self.useFixture(records.Records())

    def find(self, host):
        return host_guests.find('context', host, f'{host}-node')

    def assert_guests(self, host, *expected):
        """MiB and the node of its first cell, of each guest on a host.

        The node is None for a floating guest; a third entry, if there is one,
        says that the guest is arriving.
        """
        found = []
        for each in self.find(host):
            self.assertIs(each.guest.tied, each.topology is not None)
            node = each.topology.cells[0].id if each.topology else None
            arriving = ('arriving',) if each.guest.arriving else ()
            found.append((each.guest.memory, node, *arriving))
        self.assertEqual(sorted(expected, key=str), sorted(found, key=str))


class AtRestTest(HostGuestsTestCase):
    def test_nobody(self):
        self.assertEqual([], self.find('here'))

    def test_guests_of_this_host(self):
        self.records.add(host='here')
        self.records.add(samples.guest_cell(node=1), host='here', flavor=LARGE)
        self.records.add(host='there')
        self.records.add(host=None)
        self.assert_guests('here', (1024, None), (4096, 1))

    def test_those_that_are_stopped_or_broken_too(self):
        for state in (
            vm_states.STOPPED,
            vm_states.PAUSED,
            vm_states.SUSPENDED,
            vm_states.ERROR,
            vm_states.SHELVED,
        ):
            self.records.guests.clear()
            self.records.add(host='here', vm_state=state)
            self.assert_guests('here', (1024, None))

    def test_one_that_is_built(self):
        guest = self.records.add(
            host='here',
            vm_state=vm_states.BUILDING,
            task_state=task_states.SPAWNING,
        )
        self.assert_guests('here', (1024, None, 'arriving'))
        guest.vm_state, guest.task_state = vm_states.ACTIVE, None
        self.assert_guests('here', (1024, None))

    def test_one_that_is_unshelved(self):
        guest = self.records.add(
            samples.guest_cell(),
            host='here',
            vm_state=vm_states.SHELVED_OFFLOADED,
            task_state=task_states.SPAWNING,
        )
        self.assert_guests('here', (1024, 0, 'arriving'))
        guest.vm_state, guest.task_state = vm_states.ACTIVE, None
        self.assert_guests('here', (1024, 0))

    def test_one_that_is_rebuilt_in_place_stays(self):
        for state in task_states.rebuild_states:
            self.records.guests.clear()
            self.records.add(host='here', task_state=state)
            self.assert_guests('here', (1024, None))


class DescribeTest(base.TestCase):
    def describe(self, *cells, flavor=SMALL, **values):
        guest = samples.instance(*cells)
        return host_guests.describe(
            guest, flavor, guest.numa_topology, **values
        )

    def test_a_floating_guest(self):
        self.assertEqual(
            census.HostGuest(
                uuid=uuids.instance,
                tied=False,
                exempt=False,
                memory=4096,
                vcpus=8,
            ),
            self.describe(flavor=LARGE),
        )

    def test_small_pages_of_an_affined_guest_by_node(self):
        guest = self.describe(
            samples.guest_cell(100, node=0),
            samples.guest_cell(200, node=1, page_size=samples.HUGE),
            samples.guest_cell(300, node=16, page_size=samples.SMALL),
            samples.guest_cell(400, node=0, page_size=-1),
        )
        self.assertTrue(guest.tied)
        self.assertEqual(((0, 100), (16, 300), (0, 400)), guest.small_memory)

    def test_exempt_guests(self):
        for specs, exempt in (
            ({'isolation': 'exempt'}, True),
            ({'isolation': 'host'}, False),
            ({}, False),
        ):
            guest = self.describe(flavor=samples.flavor(**specs))
            self.assertIs(exempt, guest.exempt)

    def test_one_that_is_arriving(self):
        self.assertFalse(self.describe().arriving)
        self.assertTrue(self.describe(arriving=True).arriving)


class ColdMigrationTest(HostGuestsTestCase):
    """Between two hosts, with a change of kind: a resize."""

    def setUp(self):
        super().setUp()
        self.guest = self.records.add(host='source', flavor=SMALL)
        self.move = self.records.move(
            self.guest,
            'dest',
            samples.guest_cell(node=1),
            kind='resize',
            flavor=LARGE,
        )

    def test_before_it_is_claimed(self):
        self.assert_guests('source', (1024, None))
        self.assert_guests('dest')

    def test_while_it_is_copied(self):
        self.move.claim()
        for state in (task_states.RESIZE_PREP, task_states.RESIZE_MIGRATING):
            self.guest.task_state = state
            self.assert_guests('source', (1024, None))
            self.assert_guests('dest', (4096, 1))

    def test_when_it_has_left(self):
        """Nova's record of it has the new host, and the old flavor."""
        self.move.claim().leave()
        self.assert_guests('source', (1024, None))
        self.assert_guests('dest', (4096, 1))

    def test_while_it_is_started(self):
        self.move.claim().leave().start()
        self.assert_guests('source', (1024, None))
        self.assert_guests('dest', (4096, 1))

    def test_until_it_is_confirmed(self):
        """It may come back, and its place is kept."""
        self.move.claim().leave().start().verify()
        self.assert_guests('source', (1024, None))
        self.assert_guests('dest', (4096, 1))
        self.move.confirm()
        self.assert_guests('source')
        self.assert_guests('dest', (4096, 1))

    def test_while_it_is_reverted(self):
        self.move.claim().leave().start().verify().revert()
        self.assert_guests('source', (1024, None))
        self.assert_guests('dest', (4096, 1))
        self.move.revert_at_source()
        self.assert_guests('source', (1024, None))
        self.assert_guests('dest')

    def test_nobody_is_arriving(self):
        """They do not pass spawn(), which would admit them."""
        self.move.claim()
        for step in ('leave', 'start', 'verify', 'revert'):
            getattr(self.move, step)()
            for host in ('source', 'dest'):
                for each in self.find(host):
                    self.assertFalse(each.guest.arriving, step)

    def test_the_other_way_round(self):
        self.records.guests.clear()
        self.records.migrations.clear()
        guest = self.records.add(
            samples.guest_cell(node=1), host='source', flavor=LARGE
        )
        move = self.records.move(guest, 'dest', kind='resize', flavor=SMALL)
        for step in ('claim', 'leave', 'start', 'verify', 'revert'):
            getattr(move, step)()
            self.assert_guests('source', (4096, 1))
            self.assert_guests('dest', (1024, None))
        move.revert_at_source()
        self.assert_guests('source', (4096, 1))
        self.assert_guests('dest')

    def test_a_migration_to_another_node(self):
        """Without a new flavor; Nova notes the same one."""
        guest = self.records.add(
            samples.guest_cell(node=0), host='a', flavor=LARGE
        )
        move = self.records.move(guest, 'b', samples.guest_cell(node=1))
        for step in ('claim', 'leave', 'start', 'verify'):
            getattr(move, step)()
            self.assert_guests('a', (4096, 0))
            self.assert_guests('b', (4096, 1))

    def test_one_that_has_failed(self):
        """It stays in Nova's list of migrations."""
        self.move.claim().fail()
        self.assertEqual(
            1,
            len(
                objects.MigrationList.get_in_progress_and_error(
                    'context', 'dest', 'dest-node'
                )
            ),
        )
        self.assert_guests('source', (1024, None))
        self.assert_guests('dest')

    def test_one_that_has_failed_on_its_new_host(self):
        """Nova leaves it there, in error."""
        self.move.claim().leave().start()
        self.move.migration.status = 'error'
        self.guest.vm_state, self.guest.task_state = vm_states.ERROR, None
        self.assert_guests('dest', (4096, 1))
        self.assert_guests('source')

    def test_a_guest_that_was_deleted_meanwhile(self):
        self.move.claim()
        self.records.guests.clear()
        with mock.patch.object(
            objects.Migration,
            'instance',
            new_callable=mock.PropertyMock,
            side_effect=exception.InstanceNotFound(instance_id='x'),
        ):
            for host in ('source', 'dest'):
                self.assert_guests(host)


class SameHostTest(HostGuestsTestCase):
    """A resize that does not leave its host needs room for both."""

    BOTH = ((1024, None), (4096, 1))

    def resize(self):
        guest = self.records.add(host='here', flavor=SMALL)
        return self.records.move(
            guest,
            'here',
            samples.guest_cell(node=1),
            kind='resize',
            flavor=LARGE,
        )

    def test_before_it_is_claimed(self):
        self.resize()
        self.assert_guests('here', (1024, None))

    def test_both_kinds_from_claim_to_confirmation(self):
        move = self.resize()
        for step in ('claim', 'leave', 'start', 'verify', 'revert'):
            getattr(move, step)()
            self.assert_guests('here', *self.BOTH)

    def test_one_kind_when_it_is_confirmed(self):
        move = self.resize()
        move.claim().leave().start().verify().confirm()
        self.assert_guests('here', (4096, 1))

    def test_the_other_when_it_is_reverted(self):
        move = self.resize()
        move.claim().leave().start().verify().revert().revert_at_source()
        self.assert_guests('here', (1024, None))

    def test_one_that_has_failed(self):
        self.resize().claim().fail()
        self.assert_guests('here', (1024, None))


class LiveMigrationTest(HostGuestsTestCase):
    def move(self, *cells, to=(), context=True):
        guest = self.records.add(*cells, host='source', flavor=SMALL)
        return self.records.move(guest, 'dest', *to, kind='live-migration')

    def test_an_affined_guest(self):
        move = self.move(
            samples.guest_cell(node=0), to=[samples.guest_cell(node=1)]
        )
        self.assert_guests('source', (1024, 0))
        self.assert_guests('dest')
        move.claim()
        for status in ('preparing', 'running', 'queued'):
            move.migration.status = status
            self.assert_guests('source', (1024, 0))
            self.assert_guests('dest', (1024, 1))
        move.arrive()
        self.assert_guests('source')
        self.assert_guests('dest', (1024, 1))

    def test_a_floating_guest(self):
        """Nova makes no claim of it, and no migration context."""
        move = self.move().claim(context=False)
        self.assert_guests('source', (1024, None))
        self.assert_guests('dest', (1024, None))
        move.arrive()
        self.assert_guests('source')
        self.assert_guests('dest', (1024, None))

    def test_an_affined_guest_without_a_context(self):
        self.move(samples.guest_cell(node=0)).claim(context=False)
        self.assert_guests('dest', (1024, 0))

    def test_a_paused_guest(self):
        move = self.move().claim(context=False)
        move.guest.vm_state = vm_states.PAUSED
        self.assert_guests('dest', (1024, None))

    def test_it_is_here_and_nova_has_not_noted_it_all(self):
        """Its host changes before its migration is over."""
        move = self.move(
            samples.guest_cell(node=0), to=[samples.guest_cell(node=1)]
        ).claim()
        move.guest.host = 'dest'
        self.assert_guests('dest', (1024, 1))

    def test_one_that_has_failed(self):
        for status in ('error', 'failed', 'cancelled'):
            self.move().claim(context=False).fail(status)
        self.assert_guests('source', *[(1024, None)] * 3)
        self.assert_guests('dest')


class EvacuationTest(HostGuestsTestCase):
    def setUp(self):
        super().setUp()
        self.guest = self.records.add(host='dead', flavor=SMALL)
        self.move = self.records.move(
            self.guest, 'here', kind='evacuation'
        ).claim()

    def test_it_is_arriving(self):
        """spawn() has yet to admit it."""
        for state in task_states.rebuild_states:
            self.guest.task_state = state
            self.assert_guests('here', (1024, None, 'arriving'))
            self.assert_guests('dead', (1024, None))

    def test_an_affined_one(self):
        guest = self.records.add(samples.guest_cell(node=0), host='dead')
        self.records.move(
            guest, 'here', samples.guest_cell(node=1), kind='evacuation'
        ).claim()
        self.assert_guests(
            'here', (1024, None, 'arriving'), (1024, 1, 'arriving')
        )

    def test_without_a_migration_context(self):
        self.guest.migration_context = None
        self.assert_guests('here', (1024, None, 'arriving'))

    def test_it_has_arrived(self):
        self.move.arrive()
        self.assert_guests('here', (1024, None))
        self.assert_guests('dead')

    def test_it_is_here_and_its_migration_is_not_over(self):
        self.guest.host = 'here'
        self.assert_guests('here', (1024, None))

    def test_one_that_has_failed(self):
        self.move.fail('failed')
        self.assert_guests('here')

    def test_one_that_was_interrupted_and_given_up(self):
        """Nobody ends its migration when nova-compute dies."""
        self.guest.task_state = None
        self.guest.vm_state = vm_states.ERROR
        self.assert_guests('here')
        self.assert_guests('dead', (1024, None))


class SeveralMigrationsTest(HostGuestsTestCase):
    """A migration that failed stays in Nova's list with its hosts."""

    def setUp(self):
        super().setUp()
        self.guest = self.records.add(
            samples.guest_cell(node=0), host='a', flavor=SMALL
        )

    def move(self, dest, node, kind='live-migration'):
        return self.records.move(
            self.guest, dest, samples.guest_cell(node=node), kind=kind
        ).claim()

    def test_a_host_that_it_failed_to_reach_before(self):
        self.move('b', 1).fail()
        self.move('c', 1)
        self.assert_guests('a', (1024, 0))
        self.assert_guests('b')
        self.assert_guests('c', (1024, 1))

    def test_a_second_time_to_the_same_host(self):
        self.move('b', 1).fail()
        self.move('b', 2)
        self.assert_guests('b', (1024, 2))

    def test_a_second_time_without_a_context(self):
        for _ in range(2):
            move = self.records.move(
                self.guest, 'b', kind='live-migration'
            ).claim(context=False)
            self.assert_guests('b', (1024, 0))
            if self.records.migrations == [move.migration]:
                move.fail()

    def test_it_came_here_by_one_that_failed(self):
        """And leaves by another: it is what it was until it is gone."""
        move = self.move('b', 1, 'migration').leave().start()
        move.migration.status = 'error'
        self.guest.vm_state, self.guest.task_state = vm_states.ERROR, None
        self.guest.migration_context = None
        self.assert_guests('b', (1024, 1))
        self.records.move(self.guest, 'c', kind='resize', flavor=LARGE).claim()
        self.assert_guests('b', (1024, 1))
        self.assert_guests('c', (4096, None))

    def test_an_evacuation_after_another(self):
        self.move('b', 1, 'evacuation')
        self.move('c', 1, 'evacuation')
        self.assert_guests('b')
        self.assert_guests('c', (1024, 1, 'arriving'))


class NovaTest(base.TestCase):
    """What the fake database of these tests takes for granted."""

    def test_how_novas_lists_are_asked(self):
        for function, names in (
            (
                objects.InstanceList.get_by_host,
                ['context', 'host', 'expected_attrs'],
            ),
            (
                objects.MigrationList.get_in_progress_and_error,
                ['context', 'host', 'node'],
            ),
        ):
            parameters = inspect.signature(function).parameters
            self.assertLessEqual(set(names), set(parameters))

    def test_which_migrations_nova_leaves_out(self):
        source = inspect.getsource(
            db_api.migration_get_in_progress_and_error_by_host_and_node
        )
        for status in records.OVER:
            self.assertIn(f"'{status}'", source)
        for status in ('error', 'finished', 'accepted'):
            self.assertNotIn(f"'{status}'", source)

    def test_which_flavors_nova_loads_with_an_instance(self):
        """All three are read from one column."""
        flavors = {
            'cur': SMALL.obj_to_primitive(),
            'old': None,
            'new': LARGE.obj_to_primitive(),
        }
        instance = objects.Instance()
        instance._flavor_from_db(json.dumps(flavors))
        self.assertEqual(1024, instance.flavor.memory_mb)
        self.assertEqual(4096, instance.new_flavor.memory_mb)
        self.assertIsNone(instance.old_flavor)

    def test_the_states_of_a_resize(self):
        """From the last one on, the instance has its new flavor."""
        self.assertEqual(
            task_states.RESIZE_FINISH, task_states.resizing_states[-1]
        )
        self.assertEqual(4, len(task_states.resizing_states))
