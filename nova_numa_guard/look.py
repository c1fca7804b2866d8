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

"""Read what the page check goes by, in the order that makes it exact.

Pages change hands while they are read. Whatever is in use or claimed is read
after what is free, and what guests have touched before it, so that pages in
between count as taken.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from nova_numa_guard import availability, guests, pools, standing


class Kernel(Protocol):
    """What is asked of pools.Kernel."""

    def pools(self, page_size: int | None = None) -> list[availability.Pool]:
        """Pools of a page size in KiB."""

    def bound(self, page_size: int) -> availability.Bound:
        """What limits a page size in KiB."""

    def small_pool(self, node: int) -> availability.Pool:
        """The small pages of a node."""

    def held(self, name: str) -> Mapping[standing.Key, int]:
        """Pages that a domain has touched."""


class Lookout:
    """One compute host's figures.

    :param kernel: of the host
    :param running: tells the guests that run
    :param configured: pages that Nova must leave to others, by pool
    """

    def __init__(
        self,
        kernel: Kernel,
        running: Callable[[], tuple[availability.Claim, ...]],
        configured: Mapping[standing.Key, int],
    ) -> None:
        self.kernel = kernel
        self.running = running
        self.configured = configured
        self._reserved_before: dict[int, int] = {}

    def figures(
        self,
        needs: Iterable[guests.PageNeed],
        promises: tuple[standing.Promise, ...] = (),
    ) -> standing.Figures:
        """The figures of the pools that are needed.

        :raises nova_numa_guard.pools.UnreadableError: of the kernel's files;
            what a guest has touched is left out instead
        """
        needs = tuple(needs)
        figures = self._read(needs, {})
        if not any(promise.launching for promise in promises):
            for size, bound in figures.bounds.items():
                self._reserved_before[size] = bound.reserved
        held = {}
        for claim in standing.to_look_at(promises, figures):
            try:
                held[claim.uuid] = self.kernel.held(claim.name)
            except pools.UnreadableError:
                continue  # it has ended, or may not be looked at
        return self._read(needs, held) if held else figures

    def _read(
        self,
        needs: tuple[guests.PageNeed, ...],
        held: Mapping[str, Mapping[standing.Key, int]],
    ) -> standing.Figures:
        sizes = {need.page_size for need in needs}
        small = {n.node for n in needs if n.page_size <= pools.SMALL_PAGE}
        found = [self.kernel.small_pool(node) for node in sorted(small)]
        for size in sorted(sizes):
            if size > pools.SMALL_PAGE:
                found += self.kernel.pools(size)
        bounds = {
            pool.page_size: self.kernel.bound(pool.page_size)
            for pool in {p.page_size: p for p in found if not p.small}.values()
        }
        return standing.Figures(
            pools=tuple(found),
            bounds=bounds,
            configured=self.configured,
            claims=self.running(),
            held=held,
            reserved_before=self._reserved_before,
        )
