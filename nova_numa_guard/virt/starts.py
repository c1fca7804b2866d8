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
import threading
import time
from typing import Any
import weakref

from nova import exception
import nova.conf
from oslo_log import log as logging

from nova_numa_guard import metrics, reservations
from nova_numa_guard.virt import answers, needs, page_check, paths

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class _Start:
    """A start under way.

    It must not lead to the instance, whose end may be that of a hold.

    :param lacking: what it lacked when it was let through
    :param is_settled: there is no point in waiting for its pages once its
        domain has ended
    """

    path: paths.Path
    request: answers.Request
    reservation: reservations.Reservation
    lacking: str = ''
    is_settled: bool = False


class Starts:
    """The guests that are starting on one compute host."""

    def __init__(self, check: page_check.PageCheck) -> None:
        self._check = check
        self._under_way: dict[str, _Start | None] = {}
        self._holds: weakref.WeakKeyDictionary[Any, _Start]
        self._holds = weakref.WeakKeyDictionary()
        self._thread = threading.local()
        self._boot_deadline: float | None = None

    @contextlib.contextmanager
    def of(
        self, path: paths.Path, context: Any, instance: Any, host: str
    ) -> Iterator[None]:
        """Promise a guest its pages for as long as it takes to start it.

        :param host: the name of this compute host
        :raises nova.exception.ComputeResourcesUnavailable: it is refused
        :raises nova.exception.InstanceFaultRollback: it is refused, and the
            path rolls back
        """
        start = self._holds.pop(instance, None)
        if start is None:
            start = self._begin(path, context, instance, host)
        # One that is part of another leaves it to that. One that is not
        # checked is known here too, or it would look unannounced.
        is_first = instance.uuid not in self._under_way
        try:
            if is_first:
                self._under_way[instance.uuid] = start
            yield
        except Exception as exc:
            self._tell(start, instance, exc)
            raise
        else:
            self._tell(start, instance)
        finally:
            if is_first:
                self._under_way.pop(instance.uuid, None)
            if start is not None:
                self._check.reservations.release(start.reservation)

    @contextlib.contextmanager
    def across(self) -> Iterator[None]:
        """End with this what begin() begins in the same thread."""
        with contextlib.ExitStack() as stack:
            self._thread.stack = stack
            try:
                yield
            finally:
                del self._thread.stack

    def begin(
        self, path: paths.Path, context: Any, instance: Any, host: str
    ) -> None:
        """Promise a guest its pages until across() ends.

        :raises nova.exception.ComputeResourcesUnavailable: it is refused
        """
        self._thread.stack.enter_context(
            self.of(path, context, instance, host)
        )

    def hold(
        self, path: paths.Path, context: Any, instance: Any, host: str
    ) -> None:
        """Promise a guest its pages until of() has started it.

        Or for as long as its object lives: Nova does not tell the driver of
        a rebuild that ends before that.

        :raises nova.exception.ComputeResourcesUnavailable: it is refused
        """
        start = self._begin(path, context, instance, host)
        if start is not None:
            weakref.finalize(
                instance,
                self._check.reservations.abandon,
                start.reservation,
            ).atexit = False
            self._holds[instance] = start

    def ended(self, instance: Any, excuse: str = '') -> None:
        """The guest's domain is gone; wait until its pages are back.

        :param excuse: why it is not refused
        :raises nova.exception.ComputeResourcesUnavailable: they are not
        """
        start = self._under_way.get(instance.uuid) or self._holds.get(instance)
        if start is None or not start.path.is_restart or start.is_settled:
            return
        start.is_settled = True
        self._recover(instance, start, CONF.numa_guard.page_wait, excuse)

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
                stack.enter_context(
                    self.of(paths.ARRIVAL, context, instance, host)
                )
            start = self._under_way.get(instance.uuid)
            if start is None:
                yield
                return
            if not (start.path.is_restart or start.is_settled):
                self._recover(instance, start, reservations.CONFIRM)
            stack.enter_context(self._launch(instance.uuid))
            yield

    @contextlib.contextmanager
    def relaunching(self, instance: Any) -> Iterator[None]:
        """Libvirt starts a guest again, if it was stopped, while this lasts.

        Its memory is in a file until then, which its next start would delete.
        """
        if self._under_way.get(instance.uuid) is None:
            yield
            return
        self.ended(instance, 'it was stopped for the snapshot')
        with self._launch(instance.uuid):
            yield

    def _begin(
        self, path: paths.Path, context: Any, instance: Any, host: str
    ) -> _Start | None:
        """Promise; None if it is no matter of the page check."""
        terms = self._check.terms(path.is_restart, path.excuse)
        if terms.is_off:
            return None
        needed = needs.pages(instance, instance.numa_topology)
        if not needed:
            return None
        request = answers.Request(context, host, needed, terms)
        try:
            reservation = self._check.promise(
                instance, request, self._patience(path), insist=path.insists
            )
        except exception.ComputeResourcesUnavailable as exc:
            if path.rolls_back:
                raise exception.InstanceFaultRollback(
                    inner_exception=exc
                ) from exc
            raise
        return _Start(
            path,
            request,
            reservation,
            answers.lacking(reservation),
            is_settled=bool(answers.lacking(reservation)),
        )

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

    def _recover(
        self,
        instance: Any,
        start: _Start,
        patience: float,
        excuse: str = '',
    ) -> None:
        request = start.request
        if excuse:
            terms = dataclasses.replace(request.terms, excuse=excuse)
            request = dataclasses.replace(request, terms=terms)
        found = self._check.recover(
            instance, request, start.reservation, patience
        )
        start.lacking = answers.lacking(found) or start.lacking

    def _tell(
        self,
        start: _Start | None,
        instance: Any,
        failure: Exception | None = None,
    ) -> None:
        """Tell what became of a guest that was let through."""
        if start is None or not start.lacking:
            return
        if failure is None:
            self._check.answers.metrics.warned_then(metrics.Outcome.STARTED)
            LOG.info(
                'The guest that seemed to lack pages has started: %s',
                start.lacking,
                instance=instance,
            )
        else:
            self._check.answers.metrics.warned_then(metrics.Outcome.FAILED)
            LOG.warning(
                'The guest that seemed to lack pages has not started (%s): %s',
                start.lacking,
                failure,
                instance=instance,
            )

    def _patience(self, path: paths.Path) -> float:
        if not path.at_boot:
            return float(CONF.numa_guard.page_wait)
        # Nova starts one guest after the other; all of them share the time.
        now = time.monotonic()
        if self._boot_deadline is None:
            self._boot_deadline = now + CONF.numa_guard.host_boot_wait
        return max(0.0, self._boot_deadline - now)
