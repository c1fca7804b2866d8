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

"""What Nova is told of a host's pages.

Pure: figures in, figures out. Nova subtracts the guests that it counts from
what it is told, so the rest is for the host to say: how large the pools are
now, and which of their pages no guest that Nova counts holds.
"""

from collections.abc import Collection, Iterable, Mapping
import dataclasses

from nova_numa_guard import availability

Key = availability.Key


@dataclasses.dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one size in one cell, as Nova knows them.

    :param page_size: KiB
    :param total: pages
    :param reserved: those that Nova gives to no guest
    """

    page_size: int
    total: int
    reserved: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """A pool, with what Nova was told of it; in pages.

    :param node: id of the host's NUMA node
    :param page_size: KiB
    :param total: those that stay; surplus ones are not among them
    :param free: as the kernel counts them
    :param configured: what [DEFAULT] reserved_huge_pages says
    :param reserved: what Nova was told to leave alone
    :param claimed: by running guests that Nova counts; None if these are not
        known
    :param unaccounted: in use, and by no guest that Nova counts; likewise
    """

    node: int
    page_size: int
    total: int
    free: int
    configured: int
    reserved: int
    claimed: int | None
    unaccounted: int | None


def to_look_at(
    claims: Iterable[availability.Claim],
    pools: Iterable[availability.Pool],
    bounds: Mapping[int, availability.Bound],
    starting: Collection[str],
) -> frozenset[str]:
    """The guests whose held pages have to be read, by uuid.

    QEMU touches all its huge pages when it starts, so that a guest at rest
    holds what it claims. One that starts does not yet. One that gave memory
    back (post-copy, a balloon) does not either, and shows by claims that are
    more than what is in use, or by pages that are reserved.

    :param claims: of the guests that Nova counts
    :param bounds: by page size in KiB
    :param starting: uuids of the guests that may not have all their pages
    """
    claims = tuple(claims)
    wanted = {
        claim.uuid
        for claim in claims
        if claim.anywhere
        or (claim.uuid in starting and (claim.needs or claim.anywhere))
    }
    users: dict[Key, set[str]] = {}
    at_rest: dict[Key, int] = {}
    for claim in claims:
        for key, pages in claim.by_pool.items():
            users.setdefault(key, set()).add(claim.uuid)
            if claim.uuid not in starting:
                at_rest[key] = at_rest.get(key, 0) + pages
    for pool in pools:
        key = pool.node, pool.page_size
        bound = bounds.get(pool.page_size, availability.Bound())
        if bound.reserved or at_rest.get(key, 0) > pool.total - pool.free:
            wanted |= users.get(key, set())
    return frozenset(wanted)


def outsiders(
    claims: Iterable[availability.Claim],
    counted: Mapping[str, Mapping[Key, int]],
    held: Mapping[str, Mapping[Key, int]],
    starting: Collection[str],
    pools: Iterable[availability.Pool],
) -> dict[Key, int]:
    """Pages in use that no guest holds whose pages Nova counts, by pool.

    What a guest holds beyond what Nova counts for it there is among them, so
    that Nova never believes in more free pages than the kernel has.

    ============================  =============  ==========  =============
    a guest that                  Nova counts    its domain  of its pages
    ============================  =============  ==========  =============
    runs, or is paused            its pages      runs        none
    is starting                   its pages      runs        those that it
                                                             was not seen
                                                             to hold
    arrives (live migration)      its new pages  runs        as starting
    is on its way out             its pages      runs        none
    is stopping, or being         its pages      has ended   those that the
    deleted                                                  kernel has not
                                                             got back yet
    is shut off, suspended or     its pages      none        none: it has
    waits to be confirmed                                    none
    is an orphan, or of another   nothing        runs        all
    tool
    has left, and still runs      nothing        runs        all
    here
    runs on another node than     other pages    runs        all that are
    Nova counts it on                                        not counted
    ============================  =============  ==========  =============

    Whatever is not known is taken so that outsiders are not too few, but for
    a guest at rest whose held pages cannot be read: that is believed to hold
    what it claims, as far as that is in use.

    :param claims: of guests that ran before *pools* were read, and after
    :param counted: what Nova's tracker counts, by uuid and pool
    :param held: what was read, before *pools*, by uuid and pool
    :param starting: uuids of the guests that may not have all their pages
    :param pools: as the kernel has them
    """
    found = {
        (pool.node, pool.page_size): pool.total - pool.free for pool in pools
    }
    for claim in claims:
        holds: Mapping[Key, int] = {}
        if claim.uuid in held:
            holds = held[claim.uuid]
        elif claim.uuid not in starting:
            holds = claim.by_pool
        for key, pages in counted.get(claim.uuid, {}).items():
            if key in found:
                found[key] -= min(holds.get(key, 0), pages)
    return {key: max(0, pages) for key, pages in found.items()}


def correct(
    node: int,
    pages: Iterable[Pages],
    pools: Iterable[availability.Pool],
    unaccounted: Mapping[Key, int],
) -> tuple[Pages, ...]:
    """What Nova is told of a cell, instead of what it knows.

    libvirt's word for the size of a pool is that of the moment when
    nova-compute asked, for as long as it runs. What the pools have grown
    since, small pages have lost.

    A size that Nova does not know is added. One that the kernel does not
    know, or has no pages of, stays with none: Nova takes guests of an absent
    size for an error of theirs.

    :param node: of the cell
    :param pages: what Nova knows, with what [DEFAULT] reserved_huge_pages
        says; without any it does not account for pages
    :param pools: of every node
    :param unaccounted: what outsiders() has found, now or some time ago
    :returns: by size
    """
    known = {each.page_size: each for each in pages}
    if not known:
        return ()
    small = known.pop(min(known))
    live = {
        pool.page_size: pool
        for pool in pools
        if pool.node == node and pool.page_size > small.page_size
    }
    grown = 0  # KiB
    told = []
    for size in sorted(known.keys() | live.keys()):
        was = known.get(size, Pages(size, 0))
        now = live.get(size, availability.Pool(node, size, 0, 0))
        total = max(0, now.total - now.surplus)
        others = min(
            unaccounted.get((node, size), 0), now.total - now.free, total
        )
        told.append(Pages(size, total, max(was.reserved, others)))
        grown += (now.total - was.total) * size
    left = small.total - -(-grown // small.page_size)
    return (dataclasses.replace(small, total=max(0, left)), *told)


def figures(
    claims: Iterable[availability.Claim] | None,
    pools: Iterable[availability.Pool],
    unaccounted: Mapping[Key, int],
    known: Mapping[int, Iterable[Pages]],
    told: Mapping[int, Iterable[Pages]],
) -> tuple[Figure, ...]:
    """The pools, for whoever watches them.

    :param claims: of the guests that Nova counts; None if they are not known
    :param pools: as the kernel has them
    :param unaccounted: what outsiders() has found, of these guests
    :param known: what Nova knew of each cell before it was told
    :param told: what Nova is told of each cell
    """
    claimed = None if claims is None else availability.claimed(claims)
    configured, reserved = _reserved(known), _reserved(told)
    return tuple(
        Figure(
            node=pool.node,
            page_size=pool.page_size,
            total=pool.total - pool.surplus,
            free=pool.free,
            configured=configured.get((pool.node, pool.page_size), 0),
            reserved=reserved.get((pool.node, pool.page_size), 0),
            claimed=None
            if claimed is None
            else claimed.get((pool.node, pool.page_size), 0),
            unaccounted=None
            if claimed is None
            else unaccounted.get((pool.node, pool.page_size), 0),
        )
        for pool in pools
    )


def _reserved(cells: Mapping[int, Iterable[Pages]]) -> dict[Key, int]:
    return {
        (node, each.page_size): each.reserved
        for node, pages in cells.items()
        for each in pages
    }
