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

"""Who is on this compute host, as Nova's records in its cell have it.

Nothing here needs the API database, which a compute must not ask.
"""

from collections.abc import Iterable, Iterator
import dataclasses
from typing import Any

from nova import exception, objects
from nova.compute import task_states, vm_states
from nova.objects import fields

from nova_numa_guard import census, guests, pools


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A guest, and the NUMA topology that it has or will have here.

    :param topology: nova.objects.InstanceNUMATopology, or None
    """

    guest: census.HostGuest
    topology: Any


def describe(
    instance: Any, flavor: Any, topology: Any, arriving: bool = False
) -> census.HostGuest:
    """Translate an instance, as it is with a flavor and a topology."""
    return census.HostGuest(
        uuid=instance.uuid,
        tied=topology is not None,
        exempt=guests.is_exempt(flavor.extra_specs or {}),
        memory=flavor.memory_mb,
        vcpus=flavor.vcpus,
        small_memory=tuple(
            (cell.id, cell.memory)
            for cell in (topology.cells if topology else ())
            if not cell.pagesize or cell.pagesize <= pools.SMALL_PAGE
        ),
        arriving=arriving,
    )


def is_rebuild_in_place(instance: Any, host: str) -> bool:
    """Whether Nova has destroyed the guest already to build it anew here.

    Nova takes it for granted that such a spawn does not lack resources, and
    would drop the allocation. An evacuation spawns in the same task state,
    while the instance still names the host that it comes from.
    """
    return bool(
        instance.task_state == task_states.REBUILD_SPAWNING
        and instance.host == host
    )


def find(context: Any, host: str, node: str) -> list[Found]:
    """The guests that a host has, will have, or may get back.

    InstanceList alone misses those: an instance names its host late in a
    migration, and early in a resize that may be reverted.

    :param host: the name of the compute host
    :param node: the name of its compute node
    """
    instances = objects.InstanceList.get_by_host(
        context,
        host,
        expected_attrs=['flavor', 'numa_topology', 'migration_context'],
    )
    migrations = _latest(
        objects.MigrationList.get_in_progress_and_error(context, host, node)
    )
    incoming = {
        migration.instance_uuid
        for migration in migrations
        if migration.dest_compute == host and migration.source_compute != host
    }
    found = []
    for instance in instances:
        flavor, topology = instance.flavor, instance.numa_topology
        if instance.uuid in incoming and instance.migration_context:
            # It is here, but Nova gives it its new topology later.
            flavor = instance.new_flavor or flavor
            topology = instance.migration_context.new_numa_topology
        guest = describe(instance, flavor, topology, _is_arriving(instance))
        found.append(Found(guest, topology))
    here = {each.guest.uuid for each in found}
    for migration in migrations:
        found += _of_migration(migration, host, here)
    return found


def _latest(migrations: Iterable[Any]) -> list[Any]:
    """The last migration of each guest.

    One that failed stays in Nova's list, with whatever hosts it had.
    """
    last = {}
    for migration in sorted(migrations, key=lambda each: int(each.id)):
        last[migration.instance_uuid] = migration
    return list(last.values())


def _of_migration(
    migration: Any, host: str, here: set[str]
) -> Iterator[Found]:
    """The guest of a migration, if InstanceList does not have it."""
    is_incoming = migration.dest_compute == host
    same_host = is_incoming and migration.source_compute == host
    if migration.instance_uuid in here and not same_host:
        return
    try:
        instance = migration.instance
    except exception.InstanceNotFound:
        return
    context = instance.migration_context
    if context is not None and context.migration_id != migration.id:
        return  # it failed, and the guest is in another one
    if _is_evacuation(migration):
        is_starting = instance.task_state in task_states.rebuild_states
        if is_incoming and is_starting:
            topology = instance.numa_topology
            if context is not None:
                topology = context.new_numa_topology
            guest = describe(instance, instance.flavor, topology, True)
            yield Found(guest, topology)
        return
    if not _is_moving(instance):
        return
    if same_host:
        # A resize: one of the two is counted already, and from RESIZE_FINISH
        # on it is the new one.
        is_incoming = instance.task_state in task_states.resizing_states and (
            instance.task_state != task_states.RESIZE_FINISH
        )
    if is_incoming:
        flavor = instance.new_flavor or instance.flavor
        topology = context.new_numa_topology if context else None
    else:
        flavor = instance.old_flavor or instance.flavor
        topology = context.old_numa_topology if context else None
    if context is None:
        topology = instance.numa_topology
    yield Found(describe(instance, flavor, topology), topology)


def _is_arriving(instance: Any) -> bool:
    """Whether spawn() has yet to admit it, or to end.

    An instance that is being unshelved is shelved until it has started.
    """
    return bool(
        instance.vm_state in (vm_states.BUILDING, vm_states.SHELVED_OFFLOADED)
    )


def _is_moving(instance: Any) -> bool:
    """Whether it is resizing or migrating, as Nova's tracker has it.

    It is not if the last migration has failed.
    """
    if instance.vm_state == vm_states.RESIZED:
        return True
    return bool(
        instance.task_state
        in (*task_states.resizing_states, task_states.MIGRATING)
    )


def _is_evacuation(migration: Any) -> bool:
    return bool(migration.migration_type == fields.MigrationType.EVACUATION)
