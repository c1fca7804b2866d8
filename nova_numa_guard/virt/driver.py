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

import contextlib
from typing import Any

from nova import exception
from nova.compute import task_states
import nova.conf
from oslo_log import log as logging

from nova_numa_guard import (
    conf,
    installed,
    metrics,
    pools,
    refusals,
    reservations,
)
from nova_numa_guard.virt import (
    answers,
    claims,
    complaints,
    delivery,
    floating_cells,
    gauges,
    guest_xml,
    host_guests,
    incoming,
    late_check,
    live_migration,
    page_check,
    paths,
    refusal,
    reporter,
    starts,
)

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


class NUMAGuardDriver(live_migration.LiveMigration):
    """``compute_driver = numa_guard.NUMAGuardDriver``."""

    def __init__(self, virtapi: Any, read_only: bool = False) -> None:
        installed.check(CONF)
        super().__init__(virtapi, read_only)
        kernel, refused = pools.Kernel(), refusals.Refusals()
        running = claims.Claims(self._host)
        promises = reservations.Reservations()
        self.metrics = metrics.Metrics()
        complained = complaints.Complaints(self.metrics)
        self.late_check = late_check.LateCheck(self.metrics)
        self.floating_cells = floating_cells.FloatingCells(kernel)
        self.gauges = gauges.Gauges(running, self.metrics)
        self.reporter = reporter.Reporter(
            kernel,
            self.floating_cells,
            self.late_check,
            refused,
            complained,
            running,
            promises.launching,
        )
        self.delivery = delivery.Delivery(
            virtapi, refused, self.reporter.refreshed
        )
        self.page_check = page_check.PageCheck(
            kernel,
            running,
            promises,
            answers.Answers(self.metrics, self.delivery),
            complained,
        )
        self.starts = starts.Starts(self.page_check)
        self.incoming = incoming.Incoming(self.page_check)
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
        self.metrics.start(CONF)
        self.page_check.settle()
        super().init_host(host)
        self.floating_cells.settle(self._get_host_numa_topology())
        [node] = self.get_available_nodes()
        self.page_check.arrivals.settle(host, node)

    def cleanup_host(self, host: str) -> None:
        # Nova takes down what an audit needs, libvirt's connection first.
        self.delivery.stop()
        super().cleanup_host(host)

    def spawn(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        if instance.task_state == task_states.RESIZE_FINISH:
            # From another cell of Nova, where it is gone: one that arrives.
            super().spawn(context, instance, *args, **kwargs)
            return
        host, [node] = self._guard_host, self.get_available_nodes()
        in_place = host_guests.is_rebuild_in_place(instance, host)
        path = paths.REBUILD if in_place else paths.BUILD
        # Before a disk is made: super() begins with downloading the image.
        with (
            self.late_check.admitted(context, instance, host, node),
            self.starts.of(path, context, instance, host),
        ):
            super().spawn(context, instance, *args, **kwargs)

    def rebuild(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        # Before it is destroyed, or its volumes are taken from another host.
        host, starts = self._guard_host, self.starts
        if not kwargs.get('evacuate'):
            starts.hold(paths.REBUILD, context, instance, host)
        else:
            [node] = self.get_available_nodes()
            try:
                self.late_check.check_evacuation(context, instance, host, node)
                starts.hold(paths.EVACUATION, context, instance, host)
            except exception.ComputeResourcesUnavailable:
                refusal.return_ports(self.virtapi, context, instance)
                raise
        super().rebuild(context, instance, *args, **kwargs)

    def reboot(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        # A soft one that gets no answer goes on as a hard one.
        with self.starts.of(
            paths.RESTART, context, instance, self._guard_host
        ):
            super().reboot(context, instance, *args, **kwargs)

    def _hard_reboot(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        with self.starts.of(
            paths.RESTART, context, instance, self._guard_host
        ):
            super()._hard_reboot(context, instance, *args, **kwargs)

    def resume(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        with self.starts.of(paths.RESUME, context, instance, self._guard_host):
            super().resume(context, instance, *args, **kwargs)

    def resume_state_on_host_boot(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        with self.starts.of(
            paths.HOST_BOOT, context, instance, self._guard_host
        ):
            super().resume_state_on_host_boot(
                context, instance, *args, **kwargs
            )

    def rescue(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        with self.starts.of(paths.RESCUE, context, instance, self._guard_host):
            super().rescue(context, instance, *args, **kwargs)

    def unrescue(self, context: Any, instance: Any) -> None:
        with self.starts.of(
            paths.RESTART, context, instance, self._guard_host
        ):
            super().unrescue(context, instance)

    def snapshot(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        with self.starts.across():
            super().snapshot(context, instance, *args, **kwargs)

    def _suspend_guest_for_snapshot(
        self,
        context: Any,
        live_snapshot: bool,
        current_power_state: int,
        instance: Any,
    ) -> None:
        if self._needs_suspend_resume_for_snapshot(
            live_snapshot, current_power_state
        ):
            self.starts.begin(
                paths.RESTART, context, instance, self._guard_host
            )
        super()._suspend_guest_for_snapshot(
            context, live_snapshot, current_power_state, instance
        )

    def _resume_guest_after_snapshot(
        self,
        context: Any,
        live_snapshot: bool,
        original_power_state: int,
        instance: Any,
        guest: Any,
    ) -> None:
        with self.starts.relaunching(instance):
            super()._resume_guest_after_snapshot(
                context, live_snapshot, original_power_state, instance, guest
            )

    def _destroy(self, instance: Any) -> None:
        super()._destroy(instance)
        self.starts.ended(instance)

    def _create_guest(
        self,
        context: Any,
        xml: str,
        instance: Any,
        power_on: bool = True,
        pause: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        try:
            with contextlib.ExitStack() as stack:
                if power_on or pause:
                    stack.enter_context(
                        self.starts.launching(
                            context, instance, self._guard_host
                        )
                    )
                guest = super()._create_guest(
                    context, xml, instance, power_on, pause, *args, **kwargs
                )
        finally:
            if not self.reporter.truth.is_settled:
                self.delivery.request_audit()
        self.floating_cells.verify(instance, guest)
        return guest

    def _get_guest_xml(
        self, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> str:
        return guest_xml.write(
            super()._get_guest_xml(context, instance, *args, **kwargs),
            guest_xml.here(self.floating_cells.confinement),
            instance,
        )

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        resources: dict[str, Any] = super().get_available_resource(nodename)
        # Whatever is switched on here: the scheduler's part may be.
        self.reporter.complete(resources, self._guard_host)
        self.gauges.observe(self.reporter.truth.figures, self.reporter.kinds)
        return resources
