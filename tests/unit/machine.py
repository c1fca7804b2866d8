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

"""A host whose guests start, run and end in threads of their own."""

import random
import threading
import time

from nova_numa_guard import availability, pools

SIZE = 2048


class NoPagesError(Exception):
    """What QEMU dies of."""


class Machine:
    """Pools of one page size, and the domains that take pages from them.

    It stands for the kernel and for libvirt: look.Lookout asks it.

    :param totals: pages, by host node
    :param opaque: what a process has touched may not be looked at
    """

    def __init__(self, totals, seed=0, opaque=False):
        self.random = random.Random(seed)
        self.totals = dict(totals)
        self.free = dict(totals)
        self.reserved = 0
        self.opaque = opaque
        self._lock = threading.Lock()
        self._ids = 0
        self._domains = {}
        self._held = {}

    # What Lookout asks.

    def pools(self, page_size):
        with self._lock:
            return [
                availability.Pool(node, page_size, total, self.free[node])
                for node, total in self.totals.items()
            ]

    def bound(self, page_size):
        return availability.Bound(reserved=self.reserved)

    def running(self):
        with self._lock:
            return tuple(self._domains.values())

    def held(self, name):
        with self._lock:
            if self.opaque or name not in self._held:
                raise pools.UnreadableError(name, 'no such process')
            return dict(self._held[name])

    # What happens on it.

    def give(self, node, pages):
        with self._lock:
            self.free[node] += pages

    def reserve(self, pages):
        """Map pages of any node, as the kernel lets a process do.

        :raises NoPagesError: more are mapped already than there are
        """
        with self._lock:
            if self.reserved + pages > sum(self.free.values()):
                raise NoPagesError(pages)
            self.reserved += pages

    def touch(self, node, pages):
        """Touch pages that were mapped: how many of the node there were."""
        with self._lock:
            taken = min(pages, self.free[node])
            self.free[node] -= taken
            self.reserved -= taken
            return taken

    def start(self, uuid, needs, step=1, fails=False, pause=0.0):
        """Start a guest's domain, as QEMU does: it touches page after page.

        :param step: how many pages at once
        :param fails: it ends half way, for a reason of its own
        :raises NoPagesError: there was no page left
        """
        with self._lock:
            self._ids += 1
            self._domains[uuid] = availability.Claim(
                uuid, self._ids, uuid, tuple(needs)
            )
            held = self._held[uuid] = {}
        time.sleep(pause)
        try:
            for need in needs:
                self._back(held, need, step, fails, pause)
        except Exception:
            self.stop(uuid)
            raise

    def _back(self, held, need, step, fails, pause):
        """One memory backend: map it as a whole, then touch it."""
        self.reserve(need.pages)
        key = (need.node, need.page_size)
        held[key] = 0
        while held[key] < need.pages:
            pages = min(step, need.pages - held[key])
            with self._lock:
                taken = min(pages, self.free[need.node])
                self.free[need.node] -= taken
                self.reserved -= taken
                held[key] += taken
            if taken < pages or (fails and held[key] >= need.pages // 2):
                with self._lock:
                    self.reserved -= need.pages - held[key]
                if taken < pages:
                    raise NoPagesError(need)
                raise RuntimeError('it could not start')
            time.sleep(pause)

    def stop(self, uuid):
        """The process ends, and libvirt notices a little later."""
        with self._lock:
            for (node, _), pages in self._held.pop(uuid).items():
                self.free[node] += pages
        time.sleep(0)
        with self._lock:
            del self._domains[uuid]
