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

"""What is known of a host's pages when a guest asks for some.

Pure: what the kernel and libvirt said, and what was promised to others.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_numa_guard import availability, guests

Key = availability.Key


@dataclasses.dataclass(frozen=True, slots=True)
class Promise:
    """Pages that a guest was promised, until its launch has returned.

    :param uuid: of the guest
    :param needs: at most one entry per pool
    :param launching: libvirt was asked, and QEMU may be touching them
    :param domain_id: of libvirt's domain that is to end before, and holds
        pages of the guest until then
    """

    uuid: str
    needs: tuple[guests.PageNeed, ...]
    launching: bool = False
    domain_id: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What kernel and libvirt say.

    They are exact if ``held`` is read first, then the bounds, the pools, and
    the claims: pages that change hands in between count as taken then.

    :param pools: every pool of the page sizes that are asked for
    :param bounds: by page size in KiB
    :param configured: pages that Nova must leave to others
        (``[DEFAULT] reserved_huge_pages``), by pool
    :param claims: of guests that run, those that are starting included
    :param held: pages that guests have touched, by uuid and pool, of those
        that were looked at
    :param reserved_before: pages that were reserved when last no guest was
        starting, by page size in KiB
    :param complete: libvirt said who runs; without it there are no claims
    :param claimed: the sums of the claims by pool, if they are known already
    :param expected: what guests need that will migrate here, live, and of
        which libvirt may know nothing yet
    """

    pools: tuple[availability.Pool, ...]
    bounds: Mapping[int, availability.Bound]
    configured: Mapping[Key, int] = dataclasses.field(default_factory=dict)
    claims: tuple[availability.Claim, ...] = ()
    held: Mapping[str, Mapping[Key, int]] = dataclasses.field(
        default_factory=dict
    )
    reserved_before: Mapping[int, int] = dataclasses.field(
        default_factory=dict
    )
    complete: bool = True
    claimed: Mapping[Key, int] | None = None
    expected: tuple[Promise, ...] = ()

    def sums(self) -> Mapping[Key, int]:
        """What guests that run claim, by pool."""
        if self.claimed is None:
            return availability.claimed(self.claims)
        return self.claimed


def others(
    uuid: str, promises: Iterable[Promise], figures: Figures
) -> list[Promise]:
    """What was promised to others than a guest, or is expected of them.

    One that libvirt has is no longer expected: it claims its pages.
    """
    some = [promise for promise in promises if promise.uuid != uuid]
    if figures.expected:
        known = {claim.uuid for claim in figures.claims}
        known.update((uuid, *(promise.uuid for promise in some)))
        some += [each for each in figures.expected if each.uuid not in known]
    return some


def starting_guests(
    promises: Iterable[Promise], claims: Iterable[availability.Claim]
) -> frozenset[str]:
    """The guests whose QEMU is touching its pages, or may be.

    A soft reboot starts a guest unannounced: it is another domain then.
    """
    promises = tuple(promises)
    if not promises:
        return frozenset()
    running = {claim.uuid: claim.domain_id for claim in claims}
    return frozenset(
        promise.uuid
        for promise in promises
        if promise.launching
        or running.get(promise.uuid, promise.domain_id) != promise.domain_id
    )


def returning_guests(
    promises: Iterable[Promise], figures: Figures
) -> frozenset[str]:
    """The guests whose domain has ended, and whose next is not asked for yet.

    What the last one had may be in use still: by its own process, which the
    kernel is taking down, or by one that shares its memory (vhost-user).
    """
    if not figures.complete:
        return frozenset()
    running = {claim.uuid for claim in figures.claims}
    return frozenset(
        promise.uuid
        for promise in promises
        if promise.domain_id is not None
        and not promise.launching
        and promise.uuid not in running
    )


def to_look_at(
    promises: Iterable[Promise], figures: Figures
) -> tuple[availability.Claim, ...]:
    """The guests whose held pages have to be known, for exact figures.

    QEMU touches huge pages when it starts, so that a guest at rest holds what
    it claims. Pages that it has not touched, or gave back since, show: as
    reserved ones, or by claims that are more than what is in use.

    :param figures: without what is held
    """
    starting = starting_guests(promises, figures.claims)
    claimed = figures.sums()
    anywhere: dict[int, int] = {}
    for claim in figures.claims:
        for size, pages in claim.anywhere:
            anywhere[size] = anywhere.get(size, 0) + pages
    unused = {
        (pool.node, pool.page_size): claimed.get(
            (pool.node, pool.page_size), 0
        )
        - (pool.total - pool.free)
        for pool in figures.pools
    }
    for (_, size), pages in unused.items():
        if size in anywhere:
            anywhere[size] += pages
    suspect = {
        key
        for key, pages in unused.items()
        if pages > 0
        or anywhere.get(key[1], 0) > 0
        or figures.bounds.get(key[1], availability.Bound()).reserved
    }
    if not (suspect or starting):
        return ()
    sizes = {size for _, size in suspect}
    return tuple(
        claim
        for claim in figures.claims
        if any(
            (need.node, need.page_size)
            in (unused if claim.uuid in starting else suspect)
            for need in claim.needs
        )
        or any(size in sizes for size, _ in claim.anywhere)
    )
