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

"""Which huge pages the domains that run on this host may use."""

from concurrent import futures
import threading
import time
from typing import Any

from nova.virt.libvirt import host as libvirt_host
from oslo_log import log as logging

from nova_numa_guard import availability, claims, pools

LOG = logging.getLogger(__name__)

# A domain: its uuid, and libvirt's id of it, which changes with each start.
_Key = tuple[str, int]


class UnknownError(Exception):
    """libvirt does not say which domains run, or not in time."""


class Claims:
    """The claims of the domains that run, Nova's and others.

    Only what is new is asked for its XML, so that a warm call is one listing.

    libvirt may answer late, or never. It is asked by a thread of its own, one
    at a time, that nobody has to wait for: neither a caller, after the
    time-out, nor the process when it ends.

    :param host: nova.virt.libvirt.host.Host
    :param timeout: seconds that a caller waits, for other callers included
    :param default_page: KiB of a huge page where a domain names no size
    """

    def __init__(
        self,
        host: Any,
        timeout: float = 2.0,
        default_page: int | None = None,
    ) -> None:
        self._host = host
        self._timeout = timeout
        self._default_page = default_page
        self._turn = threading.Lock()
        self._asked: futures.Future[tuple[availability.Claim, ...]] | None
        self._asked = None
        # The same one while nothing has changed.
        self._running: tuple[availability.Claim, ...] = ()
        # None for XML that cannot be read. Only the asking thread is here.
        self._known: dict[_Key, availability.Claim | None] = {}

    def running(self) -> tuple[availability.Claim, ...]:
        """The domains that were running at some moment of this call.

        Those without huge pages are among them, and claim nothing. One whose
        XML cannot be read is not.

        :raises UnknownError: libvirt failed, or did not answer in time; while
            it has not answered an earlier call, nothing is waited for
        """
        deadline = time.monotonic() + self._timeout
        # An answer to somebody else may be older than this call. So each
        # caller asks, one after the other.
        if not self._turn.acquire(timeout=self._timeout):
            raise UnknownError(f'no answer within {self._timeout} s')
        try:
            if self._asked is not None and not self._asked.done():
                raise UnknownError('no answer to an earlier question yet')
            self._asked = self._ask()
            return self._asked.result(max(0, deadline - time.monotonic()))
        except futures.TimeoutError as exc:
            raise UnknownError(f'no answer within {self._timeout} s') from exc
        except RuntimeError as exc:  # "can't start new thread"
            raise UnknownError(str(exc)) from exc
        finally:
            self._turn.release()

    def _ask(self) -> futures.Future[tuple[availability.Claim, ...]]:
        """Ask libvirt in a thread.

        Not in one of an executor: the interpreter waits for these at exit,
        and nova-compute could not be stopped while libvirt hangs.
        """
        answer: futures.Future[tuple[availability.Claim, ...]]
        answer = futures.Future()

        def ask() -> None:
            try:
                answer.set_result(self._list())
            except Exception as exc:
                # Of libvirt, of Nova's connection to it, of its proxies.
                error = UnknownError(str(exc) or repr(exc))
                error.__cause__ = exc
                answer.set_exception(error)

        threading.Thread(target=ask, name='numa-guard', daemon=True).start()
        return answer

    def _list(self) -> tuple[availability.Claim, ...]:
        known: dict[_Key, availability.Claim | None] = {}
        for guest in self._host.list_guests(only_running=True):
            key = guest.uuid, guest.id
            if key in self._known:
                known[key] = self._known[key]
                continue
            try:
                xml = guest.get_xml_desc()
            except libvirt_host.libvirt.libvirtError as exc:
                gone = libvirt_host.libvirt.VIR_ERR_NO_DOMAIN
                if exc.get_error_code() != gone:
                    raise
                continue  # it has ended since it was listed
            known[key] = self._read(xml, guest)
        if known != self._known or not self._running:
            self._running = tuple(filter(None, known.values()))
        self._known = known
        return self._running

    def _read(self, xml: str, guest: Any) -> availability.Claim | None:
        try:
            return claims.read(
                xml,
                guest.uuid,
                guest.id,
                guest.name,
                pools.SMALL_PAGE,
                self._default_page,
            )
        except Exception as exc:
            # Others make domains too, of whatever kind.
            LOG.warning(
                'What the domain %s (%s) may use of huge pages is not known, '
                'and left out: %s',
                guest.name,
                guest.uuid,
                exc,
            )
            return None
