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

"""Ask the kernel for the huge pages of a guest that is about to be built."""

import time
from typing import Any, NoReturn

from nova import exception
import nova.conf
from oslo_log import log as logging
from oslo_utils import units

from nova_numa_guard import availability, conf, guests, pools, refusals
from nova_numa_guard.virt import host_guests, refusal

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

EVENT = 'compute_numa_guard_page_check'


class PageCheck:
    """The check of huge pages on one compute host.

    :param kernel: where the figures come from
    :param refused: where a refusal is remembered
    """

    def __init__(
        self, kernel: pools.Kernel, refused: refusals.Refusals
    ) -> None:
        self.kernel = kernel
        self._refused = refused
        self._mode = conf.LiveOption(CONF, 'page_check')

    @property
    def mode(self) -> str:
        """What [numa_guard] page_check says: enforce, warn or off."""
        return self._mode.value

    def before_spawn(self, context: Any, instance: Any, host: str) -> None:
        """Refuse a guest that the host has no pages for.

        :param host: the name of this compute host
        :raises nova.exception.ComputeResourcesUnavailable: the build goes to
            the next host
        """
        mode = self.mode
        if mode == 'off':
            return
        short = self._shortages(instance)
        if not short:
            return
        shortage = '; '.join(map(str, short))
        if mode == 'warn':
            LOG.warning(
                'Starting although the kernel lacks pages, because '
                '[numa_guard] page_check is "warn"; QEMU may fail: %s',
                shortage,
                instance=instance,
            )
        elif host_guests.is_rebuild_in_place(instance, host):
            LOG.warning(
                'Starting although the kernel lacks pages, because the '
                'rebuild has removed the guest already; QEMU may fail: %s',
                shortage,
                instance=instance,
            )
        else:
            # Told to the scheduler, until they have more.
            self._refused.add(
                {(s.node, s.page_size): s.free for s in short},
                time.time(),
                CONF.numa_guard.refusal_ttl,
            )
            refuse(context, instance, host, shortage)

    def _shortages(self, instance: Any) -> tuple[availability.Shortage, ...]:
        """The pools that are too small; empty if none is."""
        needs = page_needs(instance)
        if not needs:
            return ()
        sizes = {need.page_size for need in needs}
        try:
            found = [p for size in sizes for p in self.kernel.pools(size)]
            known = {pool.page_size for pool in found}
            bounds = {size: self.kernel.bound(size) for size in known}
        except pools.UnreadableError as exc:
            LOG.warning(
                'Huge pages are not checked, and the guest may fail to '
                'start: %s',
                exc,
                instance=instance,
            )
            return ()
        short = availability.shortages(needs, found, bounds)
        if short and all(
            availability.may_overcommit(bounds.get(s.page_size)) for s in short
        ):
            LOG.warning(
                'Starting although the pools are too small, because the '
                'kernel may add to them (nr_overcommit_hugepages): %s',
                '; '.join(map(str, short)),
                instance=instance,
            )
            return ()
        return short


def page_needs(instance: Any) -> tuple[guests.PageNeed, ...]:
    """The huge pages that a claimed instance needs, by pool."""
    topology = instance.numa_topology
    return guests.page_needs(
        (
            guests.GuestCell(
                node=cell.id,
                memory=cell.memory * units.Ki,
                page_size=cell.pagesize,
            )
            for cell in (topology.cells if topology else ())
        ),
        pools.SMALL_PAGE,
    )


def refuse(context: Any, instance: Any, host: str, shortage: str) -> NoReturn:
    """Log a refusal, make it an event of the instance action, and raise it.

    :raises nova.exception.ComputeResourcesUnavailable:
    """
    LOG.warning('Refused to start: %s', shortage, instance=instance)
    unavailable = exception.ComputeResourcesUnavailable(reason=shortage)
    refusal.record(
        context, instance, host, EVENT, unavailable.format_message()
    )
    raise unavailable
