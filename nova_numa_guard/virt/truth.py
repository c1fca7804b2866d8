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

"""Tell Nova's tracker what the host has of pages, whoever took them."""

from collections.abc import Callable

from nova import objects
import nova.conf
from oslo_log import log as logging
from oslo_utils import units

from nova_numa_guard import accounting, availability, guests, metrics, pools
from nova_numa_guard.virt import claims, complaints, host_guests

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class Truth:
    """What one compute host tells Nova of its pages, from audit to audit.

    Only what Nova filters and claims by is changed. The topology that guests'
    XML is written by (_get_host_numa_topology) is another, and stays Nova's.

    :param running: what the domains that run may use; None: nothing is told
    :param launching: tells the uuids of guests whose launch has begun, and
        has not returned
    :param complained: who is told of what cannot be read

    ``figures`` are those of the last audit, by pool. It ``is_settled`` unless
    guests were starting then that may not be looked at: what they had touched
    Nova was told to be with others.
    """

    def __init__(
        self,
        running: claims.Claims | None,
        launching: Callable[[], frozenset[str]],
        complained: complaints.Complaints,
    ) -> None:
        self._running = running
        self._launching = launching
        self._complaints = complained
        self.figures: tuple[accounting.Figure, ...] = ()
        self.is_settled = True
        self._outsiders: dict[accounting.Key, int] = {}
        self._seen: frozenset[tuple[str, int]] = frozenset()

    def tell(
        self,
        text: str | None,
        kernel: pools.Kernel,
        found: list[host_guests.Found] | None,
    ) -> str | None:
        """The host's topology for Nova; never raises.

        While the guests are not known, to Nova's records or to libvirt,
        outsiders are believed to hold what they held when last they were.

        :param text: get_available_resource()['numa_topology']
        :param found: the guests that Nova counts here; None if they are not
            known
        """
        self.figures = ()
        if text is None or self._running is None:
            return text
        try:
            if not CONF.numa_guard.accounting:
                return text
            return self._told(text, kernel, found)
        except Exception as exc:
            # Else Nova's audit would end.
            unreadable = isinstance(exc, pools.UnreadableError)
            self._complaints.add(
                'Of pages Nova is told what it knows itself',
                exc,
                metrics.Source.KERNEL if unreadable else None,
            )
            return text

    def _told(
        self,
        text: str,
        kernel: pools.Kernel,
        found: list[host_guests.Found] | None,
    ) -> str:
        counted = None if found is None else _counted(found)
        ours, now = self._look(kernel, counted)
        topology = objects.NUMATopology.obj_from_db_obj(text)
        known, told = {}, {}
        for cell in topology.cells:
            known[cell.id] = [
                accounting.Pages(
                    page.size_kb,
                    page.total,
                    # As Nova itself asks (nova.virt.hardware).
                    page.reserved if 'reserved' in page else 0,
                )
                for page in cell.mempages
            ]
            told[cell.id] = accounting.correct(
                cell.id, known[cell.id], now, self._outsiders
            )
            cell.mempages = [
                objects.NUMAPagesTopology(
                    size_kb=page.page_size,
                    total=page.total,
                    used=0,
                    reserved=page.reserved,
                )
                for page in told[cell.id]
            ]
        self.figures = accounting.figures(
            ours, now, self._outsiders, known, told
        )
        corrected: str = topology._to_json()
        return corrected

    def _look(
        self,
        kernel: pools.Kernel,
        counted: dict[str, dict[accounting.Key, int]] | None,
    ) -> tuple[list[availability.Claim] | None, list[availability.Pool]]:
        """The guests that Nova counts and that run, and the pools.

        The guests are None if they are not known.

        The order makes outsiders rather too many than too few: who ends while
        this goes on holds nothing, and who starts holds what it did before
        the kernel said what is free.
        """
        before = self._list() if counted is not None else None
        if counted is None or before is None:
            return None, kernel.pools()
        ours = [claim for claim in before if claim.uuid in counted]
        # What libvirt lists, and whose launch has returned by now, has all its
        # pages. Of one that arrives running there is no launch to be seen.
        launching = self._launching()
        # As long as this takes, too: one may land meanwhile, and asks.
        self.is_settled = not launching
        arrived = {
            claim.uuid
            for claim in ours
            if (claim.uuid, claim.domain_id) not in self._seen
        }
        held = self._held(kernel, ours, launching | arrived)
        self.is_settled = all(
            claim.uuid in held or claim.uuid not in launching for claim in ours
        )
        now = kernel.pools()
        after = self._list()
        if after is None:
            return None, now
        remaining = frozenset(after)
        ours = [claim for claim in ours if claim in remaining]
        self._seen = frozenset((each.uuid, each.domain_id) for each in after)
        self._outsiders = accounting.outsiders(
            ours, counted, held, launching, now
        )
        return ours, now

    def _list(self) -> tuple[availability.Claim, ...] | None:
        assert self._running is not None
        try:
            return self._running.running()
        except claims.UnknownError as exc:
            self._complaints.add(
                'Which guests run is not known, and Nova is told that others '
                'hold as many pages as before',
                exc,
                metrics.Source.LIBVIRT,
            )
            return None

    def _held(
        self,
        kernel: pools.Kernel,
        ours: list[availability.Claim],
        starting: frozenset[str] | set[str],
    ) -> dict[str, dict[accounting.Key, int]]:
        """What guests hold, by uuid, where that is not what they claim."""
        now = kernel.pools()
        bounds = {
            size: kernel.bound(size)
            for size in {pool.page_size for pool in now}
        }
        wanted = accounting.to_look_at(ours, now, bounds, starting)
        held = {}
        for claim in ours:
            if claim.uuid not in wanted:
                continue
            try:
                held[claim.uuid] = kernel.held(claim.name)
            except pools.UnreadableError as exc:
                LOG.debug(
                    'What the domain %s holds of huge pages is not known: %s',
                    claim.name,
                    exc,
                )
        return held


def _counted(
    found: list[host_guests.Found],
) -> dict[str, dict[accounting.Key, int]]:
    """The huge pages that Nova's tracker counts, by uuid and pool.

    A guest that is resized on this host is found twice, and counted twice.
    """
    counted: dict[str, dict[accounting.Key, int]] = {}
    for each in found:
        pages = counted.setdefault(each.guest.uuid, {})
        for need in guests.page_needs(
            (
                guests.GuestCell(
                    node=cell.id,
                    memory=cell.memory * units.Ki,
                    page_size=cell.pagesize,
                )
                for cell in (each.topology.cells if each.topology else ())
            ),
            pools.SMALL_PAGE,
        ):
            key = need.node, need.page_size
            pages[key] = pages.get(key, 0) + need.pages
    return counted
