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

"""Nova's libvirt driver, with the guard in it.

Each override translates, and calls the core; the rules are there.
"""

from typing import Any

import nova.conf
from nova.virt.libvirt import driver
from oslo_log import log as logging

from nova_numa_guard import conf, domain, pools, report
from nova_numa_guard.virt import migration, page_check

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


class NUMAGuardDriver(driver.LibvirtDriver):
    """``compute_driver = numa_guard.NUMAGuardDriver``."""

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        super().__init__(virtapi, read_only)
        self.page_check = page_check.PageCheck(pools.Kernel())
        self._guard_host = CONF.host

    def init_host(self, host: str) -> None:
        conf.validate(CONF)
        self._guard_host = host
        LOG.info(
            'NUMA guard: numatune is %s, small_page_policy %s, page_check %s',
            CONF.numa_guard.numatune,
            CONF.numa_guard.small_page_policy,
            self.page_check.mode,
        )
        super().init_host(host)

    def spawn(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        # Before a disk is made: super() begins with downloading the image.
        self.page_check.before_spawn(context, instance, self._guard_host)
        super().spawn(context, instance, *args, **kwargs)

    def _get_guest_xml(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> str:
        xml: str = super()._get_guest_xml(context, instance, *args, **kwargs)
        if CONF.numa_guard.numatune == 'stock':
            return xml
        policy = domain.SmallPagePolicy(CONF.numa_guard.small_page_policy)
        try:
            return domain.apply(xml, policy)
        except ValueError as exc:
            LOG.warning(
                'The <numatune> stays as Nova wrote it: %s',
                exc,
                instance=instance,
            )
            return xml

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
        topology = instance.numa_topology
        cells = topology.cells if topology else ()
        super()._live_migration_operation(
            context,
            instance,
            dest,
            block_migration,
            migrate_data,
            migration.StockGuest(
                guest, {i: cell.id for i, cell in enumerate(cells)}
            ),
            *args,
            **kwargs,
        )

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        resources: dict[str, Any] = super().get_available_resource(nodename)
        # Whatever is switched on here: the scheduler's part may be.
        resources.setdefault('stats', {})[report.STATS_KEY] = report.encode(
            report.Report(CONF.reserved_host_memory_mb)
        )
        return resources
