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

"""Nova's database, as far as guests, migrations and events go."""

import copy

import fixtures
from nova import exception, objects
from nova.compute import task_states, vm_states
from oslo_utils import uuidutils

from tests.unit import samples

# Of these Nova's list of migrations knows nothing any more.
OVER = {
    'confirmed',
    'reverted',
    'failed',
    'completed',
    'cancelled',
    'done',
}


class EventRecorder(fixtures.Fixture):
    """Nova's database, as far as events of an instance action go."""

    def __init__(self):
        self.written = []
        self.failure = None

    def _setUp(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.db.main.api.action_event_start', self.start
            )
        )

    def start(self, context, values):
        if self.failure:
            raise self.failure
        self.written.append(values)
        return {
            'id': 1,
            'action_id': 2,
            'created_at': None,
            'updated_at': None,
            'deleted_at': None,
            'deleted': False,
            'traceback': None,
            **{
                name: values.get(name)
                for name in (
                    'event',
                    'start_time',
                    'finish_time',
                    'result',
                    'host',
                    'details',
                )
            },
        }


class Records(fixtures.Fixture):
    """The guests and migrations of a cell, as its computes ask for them."""

    def __init__(self):
        self.guests = []
        self.migrations = []
        self.failure = None
        self.asked = []

    def _setUp(self):
        for name, method in (
            ('InstanceList.get_by_host', self.by_host),
            ('Migration.get_by_id', self.by_id),
            ('MigrationList.get_in_progress_and_error', self.in_progress),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'nova.objects.{name}', method)
            )

    def by_host(self, cls, context, host, expected_attrs):
        """What Nova loads with them, and nothing else, is there to read."""
        self.asked.append((context, host))
        if self.failure:
            raise self.failure
        missing = {'flavor', 'numa_topology', 'migration_context'} - set(
            expected_attrs
        )
        if missing:
            raise exception.ObjectActionError(action='load', reason=missing)
        return objects.InstanceList(
            objects=[guest for guest in self.guests if guest.host == host]
        )

    def by_id(self, cls, context, migration_id):
        if self.failure:
            raise self.failure
        for migration in self.migrations:
            if migration.id == migration_id:
                return migration
        raise exception.MigrationNotFound(migration_id=migration_id)

    def in_progress(self, cls, context, host, node):
        if self.failure:
            raise self.failure
        found = [
            migration
            for migration in self.migrations
            if migration.status not in OVER
            and (host, node)
            in (
                (migration.source_compute, migration.source_node),
                (migration.dest_compute, migration.dest_node),
            )
        ]
        # Nova's query names no order.
        return objects.MigrationList(objects=found[::-1])

    def add(self, *cells, **values):
        """A guest that runs here; floating without cells."""
        values = {
            'uuid': uuidutils.generate_uuid(),
            'vm_state': vm_states.ACTIVE,
            'task_state': None,
            'flavor': samples.flavor(),
            **values,
        }
        guest = samples.instance(*cells, **values)
        self.guests.append(guest)
        return guest

    def move(self, guest, dest, *cells, kind='migration', flavor=None):
        """A guest begins to move."""
        move = Move(
            guest, dest, cells, kind, flavor, number=len(self.migrations) + 1
        )
        self.migrations.append(move.migration)
        return move


class Move:
    """A guest on its way, as Nova leaves its records at each step.

    :param cells: its new topology
    :param kind: of the migration
    :param flavor: its new one, if it has
    """

    def __init__(self, guest, dest, cells, kind, flavor, number):
        self.guest = guest
        self.topology = samples.topology(*cells)
        self.migration = objects.Migration(
            id=number,
            uuid=uuidutils.generate_uuid(),
            instance_uuid=guest.uuid,
            source_compute=guest.host,
            source_node=f'{guest.host}-node',
            dest_compute=None,
            dest_node=None,
            migration_type=kind,
            status='accepted',
        )
        self.migration.instance = guest
        self.dest = dest
        self.flavor = flavor
        self.prepare()

    def prepare(self):
        self.guest.task_state = {
            'live-migration': task_states.MIGRATING,
            'evacuation': task_states.REBUILDING,
        }.get(self.migration.migration_type, task_states.RESIZE_PREP)

    def claim(self, context=True):
        """The destination has claimed it."""
        self.migration.dest_compute = self.dest
        self.migration.dest_node = f'{self.dest}-node'
        self.migration.status = 'pre-migrating'
        if self.migration.migration_type in ('migration', 'resize'):
            self.guest.new_flavor = self.flavor or self.guest.flavor
        if context:
            self.guest.migration_context = objects.MigrationContext(
                instance_uuid=self.guest.uuid,
                migration_id=self.migration.id,
                old_numa_topology=copy.deepcopy(self.guest.numa_topology),
                new_numa_topology=self.topology,
            )
        return self

    def leave(self):
        """resize_instance() on the source has ended."""
        self.guest.old_flavor = self.guest.flavor
        self.guest.task_state = task_states.RESIZE_MIGRATED
        self.guest.host = self.dest
        self.migration.status = 'post-migrating'
        return self

    def start(self):
        """finish_resize() on the destination starts it."""
        self.guest.flavor = self.guest.new_flavor
        self.guest.apply_migration_context()
        self.guest.task_state = task_states.RESIZE_FINISH
        return self

    def verify(self):
        """It waits to be confirmed or reverted."""
        self.guest.vm_state = vm_states.RESIZED
        self.guest.task_state = None
        self.migration.status = 'finished'
        return self

    def confirm(self):
        self.migration.status = 'confirmed'
        self._end()

    def revert(self):
        """The destination has stopped it."""
        self.guest.task_state = task_states.RESIZE_REVERTING
        return self

    def revert_at_source(self):
        """finish_revert_resize() has ended."""
        self.migration.status = 'reverted'
        self.guest.revert_migration_context()
        self.guest.flavor = self.guest.old_flavor
        self.guest.host = self.migration.source_compute
        self._end()

    def arrive(self):
        """It has been moved live, or evacuated."""
        self.guest.apply_migration_context()
        self.guest.host = self.dest
        self.migration.status = (
            'done'
            if self.migration.migration_type == 'evacuation'
            else 'completed'
        )
        self._end()

    def fail(self, status='error'):
        """It stays where it is, and Nova gives up its claim."""
        self.migration.status = status
        self.guest.task_state = None
        self.guest.migration_context = None
        return self

    def _end(self):
        self.guest.vm_state = vm_states.ACTIVE
        self.guest.task_state = None
        self.guest.old_flavor = self.guest.new_flavor = None
        self.guest.migration_context = None
