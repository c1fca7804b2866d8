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

"""Pages promised to guests that are starting.

The only state of the page check, with its lock. Check and promise are one
step under it, so that of two guests that want the same pages one gets them.
"""

import collections
from collections.abc import Callable, Iterable
import dataclasses
import threading
import time

from nova_numa_guard import facts, guests, standing

Look = Callable[[tuple[facts.Promise, ...]], facts.Figures | None]

# A guest that wants more than there is empties its node for about 0.6 s.
CONFIRM = 1.0
# One that starts touches more and more, and nobody is told.
LOOK_AGAIN = 1.0
# A process that ends gives its pages back within about 0.1 s.
RECOVER = 0.1


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """The answer to a guest that asked for its pages.

    :param uuid: of the guest
    :param outcome: what was found; None if there were no figures
    :param granted: whether the pages are promised to it, until release()
    :param waited: seconds, if it had to wait for others or its own pages
    """

    uuid: str
    outcome: standing.Outcome | None
    granted: bool = True
    waited: float = 0.0


class Reservations:
    """The promises of one compute host.

    A guest has one promise. Where a start is part of another, as a hard
    reboot is of a soft one that got no answer, they share it, and it ends
    with the last.

    :param clock: seconds
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._promises: dict[str, facts.Promise] = {}
        self._users: dict[str, set[Reservation]] = {}
        self._abandoned: collections.deque[Reservation] = collections.deque()

    @property
    def promises(self) -> tuple[facts.Promise, ...]:
        """Those that hold."""
        with self._changed:
            self._collect()
            return tuple(self._promises.values())

    def launching(self) -> frozenset[str]:
        """The guests whose launch has begun, and has not returned."""
        return frozenset(
            promise.uuid for promise in self.promises if promise.launching
        )

    def promise(
        self,
        uuid: str,
        needs: Iterable[guests.PageNeed],
        look: Look,
        patience: float,
        domain_id: int | None = None,
        always: bool = False,
        insist: bool = False,
    ) -> Reservation:
        """Promise a guest its pages, if they are there.

        Waits for guests that are starting in the same pools, as long as it
        depends on them whether the pages are there; and for as long as it
        takes to be sure that they are not.

        :param look: tells the figures, or that there are none; it is called
            under the lock
        :param patience: seconds to wait at most for others
        :param domain_id: of the guest's domain that runs, and ends before
        :param always: promise them in any case
        :param insist: wait as well for pages that are not there
        """
        needs, begun = tuple(needs), self._clock()
        with self._changed:
            self._collect()
            if uuid in self._promises:
                return self._grant(Reservation(uuid, None))
            found = self._decide(uuid, needs, look, begun, patience, insist)
            # Another thread may have been promised them meanwhile.
            if not (found.granted or always or uuid in self._promises):
                return found
            self._promises.setdefault(
                uuid, facts.Promise(uuid, needs, domain_id=domain_id)
            )
            return self._grant(dataclasses.replace(found, granted=True))

    def recover(
        self, reservation: Reservation, look: Look, patience: float
    ) -> Reservation:
        """Wait until the pages that a guest was promised are there.

        They may not be when the guest's own, which counted for it, are held
        by another process beyond its end.

        :param patience: seconds to wait at most
        :returns: what lacks at last; the promise holds nevertheless
        """
        uuid, begun = reservation.uuid, self._clock()
        slept = False
        with self._changed:
            while True:
                promise = self._promises.get(uuid)
                needs = promise.needs if promise else ()
                outcome = self._judge(uuid, needs, look)
                waited = self._clock() - begun
                # Those on their way back take none of what is free now.
                if (
                    _is_good(outcome)
                    or not _may_change(outcome)
                    or waited >= patience
                ):
                    # In doubt they are there: nobody else was promised them.
                    there = not _is(outcome, standing.Verdict.SHORT)
                    return Reservation(
                        uuid,
                        None if there else outcome,
                        there,
                        waited if slept else 0.0,
                    )
                slept = True
                self._changed.wait(min(RECOVER, patience - waited))

    def launch(self, uuid: str) -> None:
        """Libvirt is about to be asked."""
        self._set_launching(uuid, True)

    def fail(self, uuid: str) -> None:
        """The launch has failed; the promise holds, for another try."""
        self._set_launching(uuid, False)

    def land(self, uuid: str) -> None:
        """The launch has returned: from now on the guest claims its pages."""
        with self._changed:
            if self._promises.pop(uuid, None):
                self._changed.notify_all()

    def release(self, reservation: Reservation) -> None:
        """Take back a promise, unless others use it, or it has landed.

        May be done more than once. It is done even if the thread ends while
        it waits for the lock.
        """
        self.abandon(reservation)
        with self._changed:
            self._collect()

    def abandon(self, reservation: Reservation) -> None:
        """The same, when next a guest is judged, and without the lock.

        For a finalizer: it may run wherever memory is allocated, while this
        lock is held or another that somebody waits for under it.
        """
        self._abandoned.append(reservation)

    def _collect(self) -> None:
        """Release what was abandoned."""
        while self._abandoned:
            reservation = self._abandoned.popleft()
            users = self._users.get(reservation.uuid, set())
            users.discard(reservation)
            if not users:
                self._users.pop(reservation.uuid, None)
                if self._promises.pop(reservation.uuid, None):
                    self._changed.notify_all()

    def _decide(
        self,
        uuid: str,
        needs: tuple[guests.PageNeed, ...],
        look: Look,
        begun: float,
        patience: float,
        insist: bool = False,
    ) -> Reservation:
        """Judge until it is decided; granted if the pages are there."""
        short_since, slept = None, False
        while True:
            outcome = self._judge(uuid, needs, look)
            now = self._clock()
            waited = now - begun
            if not _is(outcome, standing.Verdict.SHORT):
                short_since = None
            elif short_since is None:
                short_since = now
            short_for = 0.0 if short_since is None else now - short_since
            left = _left(outcome, patience - waited, short_for, insist)
            if left <= 0:
                return Reservation(
                    uuid, outcome, _is_good(outcome), waited if slept else 0.0
                )
            slept = True
            self._changed.wait(left)

    def _grant(self, reservation: Reservation) -> Reservation:
        self._users.setdefault(reservation.uuid, set()).add(reservation)
        return reservation

    def _judge(
        self, uuid: str, needs: tuple[guests.PageNeed, ...], look: Look
    ) -> standing.Outcome | None:
        self._collect()
        promises = tuple(self._promises.values())
        figures = look(promises)
        if figures is None:
            return None
        return standing.judge(uuid, needs, promises, figures)

    def _set_launching(self, uuid: str, launching: bool) -> None:
        with self._changed:
            if uuid in self._promises:
                self._promises[uuid] = dataclasses.replace(
                    self._promises[uuid], launching=launching, domain_id=None
                )
                if not launching:
                    self._changed.notify_all()


def _left(
    outcome: standing.Outcome | None,
    patience: float,
    short_for: float,
    insist: bool,
) -> float:
    """Seconds after which to look again; none if it is decided.

    :param patience: seconds that are left of it
    :param short_for: seconds since which the pages are not there
    """
    if outcome is None:
        return 0.0
    if outcome.verdict is standing.Verdict.UNCERTAIN:
        return min(LOOK_AGAIN, patience)
    if outcome.verdict is standing.Verdict.SHORT:
        if insist:
            return min(LOOK_AGAIN, patience)
        if outcome.doubtful:
            return min(CONFIRM - short_for, patience)
    return 0.0


def _is(outcome: standing.Outcome | None, *verdicts: standing.Verdict) -> bool:
    return outcome is not None and outcome.verdict in verdicts


def _may_change(outcome: standing.Outcome | None) -> bool:
    """Whether others touch pages now, or there are not enough at all."""
    return outcome is not None and (
        outcome.touching or outcome.verdict is standing.Verdict.SHORT
    )


def _is_good(outcome: standing.Outcome | None) -> bool:
    return outcome is None or _is(
        outcome, standing.Verdict.FITS, standing.Verdict.OVERCOMMITS
    )
