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

"""Nova's libvirt driver, with the guard's part of live migrations."""

from typing import Any

from nova.virt.libvirt import driver

from nova_numa_guard.virt import guest_xml, migration


class LiveMigration(driver.LibvirtDriver):
    """Both ends of a live migration; the rest of the driver derives from it.

    :ivar floating_cells: where the floating guests of this host run
    :ivar incoming: what it says to those that come
    :ivar _guard_host: the name of this compute host
    """

    def check_can_live_migrate_destination(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        # Before it leaves a file for the source to look at.
        self.incoming.rule_out(context, instance, self._guard_host)
        data = super().check_can_live_migrate_destination(
            context, instance, *args, **kwargs
        )
        confined = self.floating_cells.confinement
        if confined and instance.numa_topology is None:
            # A source without the guard knows of CPUs only.
            data.dst_cpu_shared_set_info = set(confined.cpus)
        return data

    def post_claim_migrate_data(
        self, context: Any, instance: Any, migrate_data: Any, claim: Any
    ) -> Any:
        self.incoming.check(context, instance, claim, self._guard_host)
        return super().post_claim_migrate_data(
            context, instance, migrate_data, claim
        )

    def post_live_migration_at_destination(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        super().post_live_migration_at_destination(
            context, instance, *args, **kwargs
        )
        self.floating_cells.verify_arrival(instance, self._host)

    def _live_migration_operation(
        self,
        context: Any,
        instance: Any,
        dest: str,
        block_migration: Any,
        migrate_data: Any,
        guest: Any,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        written = guest_xml.there(dest, instance)
        super()._live_migration_operation(
            context,
            instance,
            dest,
            block_migration,
            migrate_data,
            migration.MigratingGuest(guest, instance, written),
            *args,
            **kwargs,
        )
