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

from nova_numa_guard import conf, confinement, domain, pools, refusals
from nova_numa_guard.virt import (
    claims,
    delivery,
    floating_cells,
    late_check,
    migration,
    page_check,
    reporter,
)

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


class NUMAGuardDriver(driver.LibvirtDriver):
    """``compute_driver = numa_guard.NUMAGuardDriver``."""

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        super().__init__(virtapi, read_only)
        kernel, refused = pools.Kernel(), refusals.Refusals()
        self.page_check = page_check.PageCheck(kernel, refused)
        self.late_check = late_check.LateCheck()
        self.floating_cells = floating_cells.FloatingCells(kernel)
        self.claims = claims.Claims(self._host)
        self.reporter = reporter.Reporter(
            kernel,
            self.floating_cells,
            self.late_check,
            refused,
            self.claims,
        )
        self.delivery = delivery.Delivery(
            virtapi, refused, self.reporter.refreshed
        )
        self._guard_host = CONF.host

    def init_host(self, host: str) -> None:
        conf.validate(CONF)
        self._guard_host = host
        LOG.info(
            'NUMA guard: isolation is %s, numatune %s, small_page_policy %s, '
            'page_check %s',
            CONF.numa_guard.isolation,
            CONF.numa_guard.numatune,
            CONF.numa_guard.small_page_policy,
            self.page_check.mode,
        )
        super().init_host(host)
        self.floating_cells.settle(self._get_host_numa_topology())

    def spawn(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        host, [node] = self._guard_host, self.get_available_nodes()
        # Before a disk is made: super() begins with downloading the image.
        with self.late_check.admitted(context, instance, host, node):
            self.page_check.before_spawn(context, instance, host)
            super().spawn(context, instance, *args, **kwargs)

    def _create_guest(
        self, context: Any, xml: str, instance: Any, *args: Any, **kwargs: Any
    ) -> Any:
        guest = super()._create_guest(context, xml, instance, *args, **kwargs)
        self.floating_cells.verify(instance, guest)
        return guest

    def _get_guest_xml(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> str:
        xml: str = super()._get_guest_xml(context, instance, *args, **kwargs)
        try:
            if self.floating_cells.confinement:
                xml = confinement.apply(xml, self.floating_cells.confinement)
            if CONF.numa_guard.numatune == 'guard':
                xml = domain.apply(xml, _small_page_policy(instance))
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
        self.reporter.complete(resources, self._guard_host)
        return resources


def _small_page_policy(instance: Any) -> domain.SmallPagePolicy:
    """What the flavor says and, if it says nothing we know, the option."""
    text = instance.flavor.extra_specs.get('numa_guard:mem_policy')
    if text is not None:
        try:
            return domain.SmallPagePolicy(text)
        except ValueError:
            LOG.warning(
                'The flavor has numa_guard:mem_policy=%s, which is none of '
                '%s; small_page_policy is used instead',
                text,
                ', '.join(policy.value for policy in domain.SmallPagePolicy),
                instance=instance,
            )
    return domain.SmallPagePolicy(CONF.numa_guard.small_page_policy)
