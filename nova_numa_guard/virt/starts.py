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
"""Every way in which a guest starts, and what the page check does there.

What was destroyed for a start cannot be brought back, so that a start is
refused before that, or not at all.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import time
from typing import Any
import weakref

from nova import exception
import nova.conf

from nova_numa_guard import guests, reservations
from nova_numa_guard.virt import needs, page_check

CONF = nova.conf.CONF


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """A way to start a guest.

    :param is_restart: of one that this host has already
    :param excuse: why it is not refused; empty if it may be
    :param rolls_back: whether Nova then sets the instance back to its state,
        and to ERROR otherwise
    :param insists: whether to wait as well for pages that are not there; the
        guest has just been stopped, or the host started
    """

    is_restart: bool = False
    excuse: str = ''
    rolls_back: bool = False
    insists: bool = False


BUILD = Path()
EVACUATION = Path()
REBUILD = Path(True, 'the rebuild has removed the guest already')
RESTART = Path(True)
RESUME = Path(True, rolls_back=True)
HOST_BOOT = Path(True, 'it ran when this host went down', insists=True)
RESCUE = Path(True, 'it was powered off for the rescue', insists=True)
ARRIVAL = Path(True, 'it has been moved already')


@dataclasses.dataclass(slots=True)
class _Start:
    """A start under way.

    :param settled: whether there is no point in waiting for its pages once
        its domain has ended
    """

    uuid: str
    path: Path
    context: Any
    host: str
    needs: tuple[guests.PageNeed, ...]
    terms: page_check.Terms
    reservation: reservations.Reservation
    settled: bool


class Starts:
    """The guests that are starting on one compute host."""

    def __init__(self, check: page_check.PageCheck) -> None:
        self._check = check
        self._under_way: dict[str, _Start] = {}
        self._stacks: dict[str, contextlib.ExitStack] = {}
        self._holds: dict[str, weakref.finalize[[_Start], Any]] = {}
        self._boot_patience: float | None = None

    @contextlib.contextmanager
    def of(
        self, path: Path, context: Any, instance: Any, host: str
    ) -> Iterator[None]:
        """Promise a guest its pages for as long as it takes to start it.

        :param host: the name of this compute host
        :raises nova.exception.ComputeResourcesUnavailable: it is refused
        :raises nova.exception.InstanceFaultRollback: it is refused, and the
            path rolls back
        """
        start = self._begin(path, context, instance, host)
        try:
            yield
        finally:
            if start is not None:
                self._end(start)
            self._drop_hold(instance.uuid)

    @contextlib.contextmanager
    def across(self, instance: Any) -> Iterator[None]:
        """End with this what begin() began."""
        with contextlib.ExitStack() as stack:
            self._stacks[instance.uuid] = stack
            try:
                yield
            finally:
                del self._stacks[instance.uuid]

    def begin(
        self, path: Path, context: Any, instance: Any, host: str
    ) -> None:
        """Promise a guest its pages until across() ends.

        :raises nova.exception.ComputeResourcesUnavailable: it is refused
        """
        self._stacks[instance.uuid].enter_context(
            self.of(path, context, instance, host)
        )

    def hold(self, path: Path, context: Any, instance: Any, host: str) -> None:
        """Promise a guest its pages until of() has started it.

        Or for as long as its object lives: Nova does not tell the driver of
        a rebuild that ends before that.

        :raises nova.exception.ComputeResourcesUnavailable: it is refused
        """
        start = self._begin(path, context, instance, host)
        if start is not None:
            # Nothing of this may keep the object alive.
            hold = weakref.finalize(instance, self._end, start)
            hold.atexit = False
            self._holds[instance.uuid] = hold

    def ended(self, instance: Any) -> None:
        """The guest's domain is gone; wait until its pages are back.

        :raises nova.exception.ComputeResourcesUnavailable: they are not
        """
        start = self._under_way.get(instance.uuid)
        if start is None or not start.path.is_restart or start.settled:
            return
        start.settled = True
        self._recover(instance, start, CONF.numa_guard.page_wait)

    @contextlib.contextmanager
    def launching(
        self, context: Any, instance: Any, host: str
    ) -> Iterator[None]:
        """Libvirt starts the guest while this lasts.

        :raises nova.exception.ComputeResourcesUnavailable: what was promised
            to a build was taken since, by somebody who does not ask
        """
        with contextlib.ExitStack() as stack:
            if instance.uuid not in self._under_way:
                stack.enter_context(self.of(ARRIVAL, context, instance, host))
            start = self._under_way.get(instance.uuid)
            if start is not None and not start.path.is_restart:
                self._recover(instance, start, reservations.CONFIRM)
            stack.enter_context(self._launch(instance.uuid))
            yield

    @contextlib.contextmanager
    def relaunching(self, instance: Any) -> Iterator[None]:
        """Libvirt starts a guest again, if it was stopped, while this lasts.

        :raises nova.exception.ComputeResourcesUnavailable: its pages are not
            back
        """
        if instance.uuid not in self._under_way:
            yield
            return
        self.ended(instance)
        with self._launch(instance.uuid):
            yield

    def check_arrival(
        self, context: Any, instance: Any, claim: Any, host: str
    ) -> None:
        """Refuse a guest that would migrate here, live, without its pages.

        Nothing is promised: it may be long until it comes, if at all.

        :param claim: nova.compute.claims.MoveClaim; aborted if it is refused
        :raises nova.exception.MigrationPreCheckError: Nova tries another host
        """
        needed = needs.pages(instance, claim.claimed_numa_topology)
        if not needed:
            return
        try:
            self._check.look_only(context, instance, host, needed)
        except exception.ComputeResourcesUnavailable as exc:
            claim.abort()
            raise exception.MigrationPreCheckError(
                reason=exc.format_message()
            ) from exc

    def _begin(
        self, path: Path, context: Any, instance: Any, host: str
    ) -> _Start | None:
        """Promise a guest its pages, if it needs any that are checked."""
        needed = needs.pages(instance, instance.numa_topology)
        if not needed:
            return None
        terms = self._check.terms(path.is_restart, path.excuse)
        try:
            reservation = self._check.promise(
                context,
                instance,
                host,
                needed,
                terms,
                self._patience(path),
                insist=path.insists,
            )
        except exception.ComputeResourcesUnavailable as exc:
            if path.rolls_back:
                raise exception.InstanceFaultRollback(
                    inner_exception=exc
                ) from exc
            raise
        start = _Start(
            instance.uuid,
            path,
            context,
            host,
            needed,
            terms,
            reservation,
            settled=reservation.is_short,
        )
        # One that is part of another leaves it to that.
        self._under_way.setdefault(start.uuid, start)
        return start

    def _end(self, start: _Start) -> None:
        if self._under_way.get(start.uuid) is start:
            del self._under_way[start.uuid]
        self._check.reservations.release(start.reservation)

    def _drop_hold(self, uuid: str) -> None:
        hold = self._holds.pop(uuid, None)
        if hold is not None:
            hold()

    @contextlib.contextmanager
    def _launch(self, uuid: str) -> Iterator[None]:
        promises = self._check.reservations
        promises.launch(uuid)
        try:
            yield
        except BaseException:
            promises.fail(uuid)
            raise
        promises.land(uuid)

    def _recover(self, instance: Any, start: _Start, patience: float) -> None:
        self._check.recover(
            start.context,
            instance,
            start.host,
            start.reservation,
            start.needs,
            start.terms,
            patience,
        )

    def _patience(self, path: Path) -> float:
        if path is not HOST_BOOT:
            return float(CONF.numa_guard.page_wait)
        # Nova starts one guest after the other; all of them share the time.
        now = time.monotonic()
        if self._boot_patience is None:
            self._boot_patience = now + CONF.numa_guard.host_boot_wait
        return max(0.0, self._boot_patience - now)
