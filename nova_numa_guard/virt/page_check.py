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

"""Ask the kernel for the pages of a guest that is about to start."""

from collections.abc import Iterable
import dataclasses
import time
from typing import Any

import nova.conf
from nova.virt import hardware
from oslo_log import log as logging

from nova_numa_guard import (
    anywhere,
    availability,
    conf,
    facts,
    guests,
    look,
    metrics,
    pools,
    reservations,
    standing,
)
from nova_numa_guard.virt import answers, arrivals, claims, complaints

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class PageCheck:
    """The check of pages on one compute host, and its promises.

    :param kernel: where the figures come from
    :param running: where they come from of guests that run
    :param promises: the promises
    :param answered: who gives the answers
    :param complained: who is told of what cannot be read
    """

    def __init__(
        self,
        kernel: look.Kernel,
        running: claims.Claims,
        promises: reservations.Reservations,
        answered: answers.Answers,
        complained: complaints.Complaints,
    ) -> None:
        self.reservations = promises
        self.arrivals = arrivals.Arrivals(complained)
        self.lookout = look.Lookout(kernel, self._running, {})
        self._claims = running
        self.answers = answered
        self._complaints = complained
        self._mode = conf.LiveOption(CONF, 'page_check')
        self._on_restart = conf.LiveOption(CONF, 'page_check_on_restart')

    @property
    def mode(self) -> str:
        """What [numa_guard] page_check says: enforce, warn or off."""
        return self._mode.value

    def settle(self) -> None:
        """Read what Nova has to leave to others.

        :raises nova.exception.InvalidReservedMemoryPagesOption: it is not
            what it should be; Nova would find that out later
        """
        self.lookout.configured = {
            (node, int(size)): pages
            for node, sizes in hardware.numa_get_reserved_huge_pages().items()
            for size, pages in sizes.items()
        }

    def terms(self, is_restart: bool, excuse: str = '') -> answers.Terms:
        """What the options say now."""
        if is_restart:
            return answers.Terms(
                self._on_restart.value, 'page_check_on_restart', True, excuse
            )
        return answers.Terms(self._mode.value, 'page_check', False, excuse)

    def promise(
        self,
        instance: Any,
        request: answers.Request,
        patience: float,
        insist: bool = False,
    ) -> reservations.Reservation:
        """Promise an instance its pages until they are released.

        :param patience: seconds to wait at most
        :param insist: wait as well for pages that are not there
        :raises nova.exception.ComputeResourcesUnavailable: they are not there
        """
        needs, terms = request.needs, request.terms
        self.arrivals.review(request.host)
        asked = _Question(self, needs, terms.is_restart)
        found = self.reservations.promise(
            instance.uuid,
            needs,
            asked,
            patience,
            domain_id=(
                self._domain_id(instance.uuid) if terms.is_restart else None
            ),
            always=not terms.refuses,
            insist=insist,
        )
        try:
            self.answers.give(instance, request, asked.check(found))
        except BaseException:  # that of a thread which is killed, too
            self.reservations.release(found)
            raise
        return found

    def recover(
        self,
        instance: Any,
        request: answers.Request,
        reservation: reservations.Reservation,
        patience: float,
    ) -> reservations.Reservation:
        """See that what was promised is there, and wait for it if it is not.

        :returns: what was found at last
        :raises nova.exception.ComputeResourcesUnavailable: it is not
        """
        asked = _Question(self, request.needs)
        found = self.reservations.recover(reservation, asked, patience)
        check = asked.check(found)
        if not check.is_blind:  # which promise() has counted
            self.answers.give(instance, request, check)
        return found

    def expect(
        self, instance: Any, request: answers.Request, migration_id: int
    ) -> None:
        """Check an instance that is to migrate here, and expect it.

        It may come as well if its pages are in doubt.

        :raises nova.exception.ComputeResourcesUnavailable: they are not there
        """
        self.arrivals.review(request.host)
        asked = _Question(self, request.needs)
        # Until it is expected, so that nobody can be promised them meanwhile.
        found = self.reservations.promise(
            instance.uuid,
            request.needs,
            asked,
            reservations.CONFIRM,
            always=True,
        )
        try:
            outcome = found.outcome
            if (
                not outcome
                or outcome.verdict is not standing.Verdict.UNCERTAIN
            ):
                self.answers.give(instance, request, asked.check(found))
            self.arrivals.expect(migration_id, instance.uuid, request.needs)
        finally:
            self.reservations.release(found)

    def rule_out(self, instance: Any, request: answers.Request) -> None:
        """Refuse an instance for which no node has the pages.

        :param request: what each of its cells needs, of whatever node
        :raises nova.exception.ComputeResourcesUnavailable: it cannot come
        """
        self.arrivals.review(request.host)
        asked = _Question(self, request.needs)
        promises = self.reservations.promises
        figures = asked(promises)
        if figures is None:
            return
        short = anywhere.shortages(
            instance.uuid, request.needs, promises, figures
        )
        if short:
            outcome = standing.Outcome(standing.Verdict.SHORT, short)
            found = reservations.Reservation(instance.uuid, outcome, False)
            self.answers.give(instance, request, asked.check(found))

    def figures(
        self,
        needs: Iterable[guests.PageNeed],
        promises: tuple[facts.Promise, ...],
    ) -> facts.Figures | None:
        """What the kernel and libvirt say; None if they cannot be read."""
        try:
            return dataclasses.replace(
                self.lookout.figures(needs, promises),
                expected=self.arrivals.expected,
            )
        except pools.UnreadableError as exc:
            self._complaints.add(
                'Pages are not checked, and guests may fail to start',
                exc,
                metrics.Source.KERNEL,
            )
            return None

    def _running(self) -> tuple[availability.Claim, ...] | None:
        """The guests that run; None if libvirt does not say.

        What they have in use, the kernel tells.
        """
        try:
            return self._claims.running()
        except claims.UnknownError as exc:
            # It is late where many guests start at once.
            self.answers.metrics.unreadable(metrics.Source.LIBVIRT)
            LOG.info(
                'What running guests have not touched of their pages is not '
                'known, and may be promised to others: %s',
                exc,
            )
            return None

    def _domain_id(self, uuid: str) -> int | None:
        for claim in self._running() or ():
            if claim.uuid == uuid:
                return claim.domain_id
        return None


class _Question:
    """What reservations.Reservations asks, and the last answer to it.

    :param of_a_running: of a guest that may run, so that it has to be known
        what it has itself
    """

    def __init__(
        self,
        check: PageCheck,
        needs: tuple[guests.PageNeed, ...],
        of_a_running: bool = False,
    ) -> None:
        self.needs = needs
        self.seconds = 0.0
        self._check = check
        self._of_a_running = of_a_running
        self._last: facts.Figures | None = None

    def __call__(
        self, promises: tuple[facts.Promise, ...]
    ) -> facts.Figures | None:
        begun = time.perf_counter()
        figures = self._check.figures(self.needs, promises)
        if figures and self._of_a_running and not figures.complete:
            figures = None
        self._last = figures
        self.seconds += time.perf_counter() - begun
        return figures

    def check(self, found: reservations.Reservation) -> answers.Check:
        """The check that this was."""
        asked = self.seconds > 0
        pools = self._last.pools if self._last else ()
        return answers.Check(
            seconds=self.seconds,
            found=found,
            is_blind=asked and self._last is None,
            free={(pool.node, pool.page_size): pool.free for pool in pools},
        )
