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

"""Pools that lately were too small for a guest."""

from collections.abc import Mapping
import dataclasses
import threading


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """A pool for want of which a guest was refused.

    :param node: id of the host's NUMA node
    :param page_size: KiB
    :param expires: seconds since the epoch
    """

    node: int
    page_size: int
    expires: float


class Refusals:
    """What a compute remembers of them, one for each pool."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: dict[tuple[int, int], tuple[float, int]] = {}

    def add(
        self, pools: Mapping[tuple[int, int], int], now: float, ttl: float
    ) -> tuple[Refusal, ...]:
        """Remember refusals, or remember them for longer.

        :param pools: free pages, by node and page size in KiB
        :param now: seconds since the epoch
        :param ttl: seconds
        :returns: those that did not hold before, by node and page size
        """
        fresh = []
        with self._lock:
            for pool, free in sorted(pools.items()):
                before, _ = self._pools.get(pool, (now, free))
                self._pools[pool] = (now + ttl, free)
                if before <= now < now + ttl:
                    fresh.append(Refusal(*pool, now + ttl))
        return tuple(fresh)

    def current(
        self, now: float, free: Mapping[tuple[int, int], int]
    ) -> tuple[Refusal, ...]:
        """Those that hold, by node and page size.

        One is forgotten when it expires, or its pool has more free pages.

        :param now: seconds since the epoch
        :param free: pages, by node and page size in KiB
        """
        with self._lock:
            self._pools = {
                pool: (until, then)
                for pool, (until, then) in self._pools.items()
                if until > now and free.get(pool, then) <= then
            }
            return tuple(
                Refusal(node, size, until)
                for (node, size), (until, _) in sorted(self._pools.items())
            )
