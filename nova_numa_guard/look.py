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

Pages change hands while they are read: they are reserved, then touched, then
free again. What is read first is what they cease to be, so that pages that do
it in between count twice, and never as nobody's. Hence in this order: what
guests have touched, what is reserved, what is free, and who runs.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
from typing import Protocol

from nova_numa_guard import availability, facts, guests, pools


class Kernel(Protocol):
    """What is asked of pools.Kernel."""

    def pools(self, page_size: int | None = None) -> list[availability.Pool]:
        """Pools of a page size in KiB."""

    def bound(self, page_size: int) -> availability.Bound:
        """What limits a page size in KiB."""

    def small_pool(self, node: int) -> availability.Pool:
        """The small pages of a node."""

    def held(self, name: str) -> Mapping[facts.Key, int]:
        """Pages that a domain has touched."""


class Lookout:
    """One compute host's figures.

    :param kernel: of the host
    :param running: tells the guests that run; None if that is not known
    :param configured: pages that Nova must leave to others, by pool
    :param small_page: the host's small page size in KiB
    """

    def __init__(
        self,
        kernel: Kernel,
        running: Callable[[], tuple[availability.Claim, ...] | None],
        configured: Mapping[facts.Key, int],
        small_page: int = pools.SMALL_PAGE,
    ) -> None:
        self.kernel = kernel
        self.running = running
        self.configured = configured
        self._small_page = small_page
        self._reserved_before: dict[int, int] = {}
        self._summed: tuple[
            tuple[availability.Claim, ...], dict[facts.Key, int]
        ] = ((), {})

    def figures(
        self,
        needs: Iterable[guests.PageNeed],
        promises: tuple[facts.Promise, ...] = (),
    ) -> facts.Figures:
        """The figures of the pools that are needed.

        :raises nova_numa_guard.pools.UnreadableError: of the kernel's files;
            what a guest has touched is left out instead
        """
        needs = tuple(needs)
        figures = self._read(needs)
        starting = facts.starting_guests(promises, figures.claims)
        if not starting:
            for size, bound in figures.bounds.items():
                self._reserved_before[size] = bound.reserved
        seen = facts.to_look_at(promises, figures)
        held = {claim.uuid: self._held(claim) for claim in seen}
        if any(pages is not None for pages in held.values()):
            figures = self._read(needs)
        running = {claim.uuid: claim.domain_id for claim in figures.claims}
        for claim in seen:
            if running.get(claim.uuid) != claim.domain_id:
                del held[claim.uuid]  # nor does its successor hold that
            elif (
                held[claim.uuid]
                and claim.uuid in starting
                and not self._held(claim)
            ):
                del held[claim.uuid]  # it has failed; libvirt will notice
        return dataclasses.replace(
            figures,
            held={
                uuid: pages
                for uuid, pages in held.items()
                if pages is not None
            },
            reserved_before=dict(self._reserved_before),
        )

    def _held(
        self, claim: availability.Claim
    ) -> Mapping[facts.Key, int] | None:
        try:
            return self.kernel.held(claim.name)
        except pools.UnreadableError:
            return None  # it has ended, or may not be looked at

    def _read(self, needs: tuple[guests.PageNeed, ...]) -> facts.Figures:
        small = {n.node for n in needs if n.page_size <= self._small_page}
        huge = {n.page_size for n in needs if n.page_size > self._small_page}
        bounds = {}
        for size in sorted(huge):
            try:
                bounds[size] = self.kernel.bound(size)
            except pools.UnreadableError:
                if self.kernel.pools(size):
                    raise  # else there are no such files
        found = [self.kernel.small_pool(node) for node in sorted(small)]
        for size in tuple(bounds):
            found_of_size = self.kernel.pools(size)
            if not found_of_size:
                del bounds[size]
            found += found_of_size
        claims = self.running()
        # Mostly they are those of the last time, by the hundred.
        summed, claimed = self._summed
        if claims is not None and claims is not summed:
            claimed = availability.claimed(claims)
            self._summed = claims, claimed
        return facts.Figures(
            pools=tuple(found),
            bounds=bounds,
            configured=self.configured,
            claims=claims or (),
            complete=claims is not None,
            claimed=claimed if claims is not None else {},
        )
