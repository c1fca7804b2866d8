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

"""Admit guests to a host one by one: first admitted stays.

Two schedulers may choose the same empty host for guests of opposite kinds at
once. Nova has claimed both by the time that either is built, so claims cannot
tell who came first, and neither can creation times. What counts is who was
admitted first, by this host.
"""

from collections.abc import Callable, Iterable, Sequence
import threading

from nova_numa_guard import census, isolation


class Admissions:
    """Those whom a host has admitted, until Nova's records show them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._admitted: dict[str, census.HostGuest] = {}
        self._landed: set[str] = set()

    def admit(
        self,
        guest: census.HostGuest,
        look: Callable[[], Sequence[census.HostGuest]],
        policy: isolation.Policy,
        enforce: bool,
    ) -> isolation.Verdict:
        """Judge a guest that arrives, and admit it if it may stay.

        It is judged against the guests that have settled, the migrations in
        progress, and those admitted before it; those that are arriving too
        and have not been admitted do not count.

        :param look: Nova's records of this host, read under the lock
        :param enforce: if not, it is admitted whatever the verdict
        """
        with self._lock:
            found = look()
            self._drop(guest.uuid)  # what it was here before is over
            self._forget(found)
            present = [
                other
                for other in found
                if not other.arriving and other.uuid != guest.uuid
            ]
            present += self._admitted.values()
            verdict = isolation.judge(
                guest.kind, census.content(present), policy
            )
            if verdict.passes or not enforce:
                self._admitted[guest.uuid] = guest
            return verdict

    def remember(self, guest: census.HostGuest) -> None:
        """Count a guest that could not be judged as one that was admitted."""
        with self._lock:
            self._admitted[guest.uuid] = guest

    def withdraw(self, uuid: str) -> None:
        """A guest that was admitted has failed to start."""
        with self._lock:
            self._drop(uuid)

    def land(self, uuid: str) -> None:
        """A guest that was admitted has started."""
        with self._lock:
            if uuid in self._admitted:
                self._landed.add(uuid)

    def _forget(self, found: Iterable[census.HostGuest]) -> None:
        """Leave to Nova's records the guests that they show, or show gone.

        Between its start and Nova's record of it a guest is still arriving.
        """
        arriving = {guest.uuid for guest in found if guest.arriving}
        settled = {guest.uuid for guest in found if not guest.arriving}
        for uuid in list(self._admitted):
            if uuid in settled or (
                uuid in self._landed and uuid not in arriving
            ):
                self._drop(uuid)

    def _drop(self, uuid: str) -> None:
        self._admitted.pop(uuid, None)
        self._landed.discard(uuid)
