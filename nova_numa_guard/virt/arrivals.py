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

"""Guests that Nova is about to migrate to this host, live.

One may queue on its source for hours, and nobody tells its destination when
it is given up. So nothing is held for it but what Nova's record of the
migration bears out, whenever another guest asks for pages.
"""

from collections.abc import Iterable
import threading
from typing import Any

from nova import context as nova_context
from nova import exception, objects
from nova.objects import fields

from nova_numa_guard import facts, guests, metrics
from nova_numa_guard.virt import complaints, needs

# As Nova has it in the list of those that are over
# (nova.db.main.api.migration_get_in_progress_by_host_and_node), and 'error'.
_OVER = (
    'confirmed',
    'reverted',
    'error',
    'failed',
    'completed',
    'cancelled',
    'done',
)


class Arrivals:
    """The live migrations to one compute host that may come yet.

    :param complained: who is told if Nova's records cannot be read
    """

    def __init__(self, complained: complaints.Complaints) -> None:
        self._complaints = complained
        self._lock = threading.Lock()
        self._expected: dict[int, facts.Promise] = {}

    @property
    def expected(self) -> tuple[facts.Promise, ...]:
        """What they need, as of the last review."""
        return tuple(self._expected.values())

    def settle(self, host: str, node: str) -> None:
        """Learn of those that were claimed before this service started.

        :param host: the name of this compute host
        :param node: the name of its compute node
        """
        try:
            migrations = objects.MigrationList.get_in_progress_and_error(
                nova_context.get_admin_context(), host, node
            )
            for migration in migrations:
                if self._is_coming(migration, host):
                    self._learn(migration)
        except Exception as exc:
            self._complain(exc)

    def expect(
        self,
        migration_id: int,
        uuid: str,
        needed: Iterable[guests.PageNeed],
    ) -> None:
        """A guest has been checked, and may come at any time."""
        with self._lock:
            self._expected = {
                **self._expected,
                migration_id: facts.Promise(uuid, tuple(needed)),
            }

    def review(self, host: str) -> None:
        """Forget those that are over, or go to another host.

        :param host: the name of this compute host
        """
        for migration_id in tuple(self._expected):
            try:
                migration = objects.Migration.get_by_id(
                    nova_context.get_admin_context(), migration_id
                )
            except exception.MigrationNotFound:
                self._forget(migration_id)
            except Exception as exc:
                self._complain(exc)
            else:
                if not self._is_coming(migration, host):
                    self._forget(migration_id)

    def _learn(self, migration: Any) -> None:
        try:
            instance = migration.instance
        except exception.InstanceNotFound:
            return
        moved = instance.migration_context
        if moved is not None and moved.migration_id == migration.id:
            needed = needs.pages(instance, moved.new_numa_topology)
            if needed:
                self.expect(migration.id, instance.uuid, needed)

    def _forget(self, migration_id: int) -> None:
        with self._lock:
            self._expected = {
                each: promise
                for each, promise in self._expected.items()
                if each != migration_id
            }

    def _complain(self, exc: Exception) -> None:
        self._complaints.add(
            'Which guests are about to migrate to this host is not known for '
            'sure',
            exc,
            metrics.Source.NOVA,
        )

    @staticmethod
    def _is_coming(migration: Any, host: str) -> bool:
        # Nova names the destination once it has found one.
        return bool(
            migration.migration_type == fields.MigrationType.LIVE_MIGRATION
            and migration.dest_compute in (None, host)
            and migration.status not in _OVER
        )
