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

"""What stands between the pages that the kernel has free and a guest.

Pure: figures in, verdict out. Free pages may be spoken for: by guests that
run and have not touched all that is theirs, by guests that are about to start,
and by processes that mapped pages, on whichever node. A guest that is starting
has touched some of its pages, and nobody knows how many; with it there are two
answers, one that is sure and one that is the most there can be.
"""

from collections.abc import Iterable
import dataclasses
import enum
from typing import Any

from nova_numa_guard import availability, facts, guests, spoken_for


class Verdict(enum.Enum):
    """Whether a guest's pages are there.

    OVERCOMMITS: they are not, but the kernel may add them when it is asked.
    UNCERTAIN: they are if guests that are starting have touched theirs, and
    if pages are still on their way back from a domain that has ended.
    """

    FITS = 'fits'
    OVERCOMMITS = 'overcommits'
    UNCERTAIN = 'uncertain'
    SHORT = 'short'


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, and its figures.

    :param shortages: what lacks, for every verdict but FITS; for UNCERTAIN,
        at the worst
    :param awaited: an UNCERTAIN guest may be told more when one of these has
        started
    :param touching: some of these are taking pages now
    :param doubtful: a start that fails, of whomever, may have emptied the
        pools for a moment
    """

    verdict: Verdict
    shortages: tuple[availability.Shortage, ...] = ()
    awaited: frozenset[str] = frozenset()
    touching: bool = False
    doubtful: bool = False


def judge(
    uuid: str,
    needs: Iterable[guests.PageNeed],
    promises: Iterable[facts.Promise],
    figures: facts.Figures,
) -> Outcome:
    """Whether a guest's pages are there.

    Pages that the guest itself has in use, because it is to be started anew,
    count as free.

    :param uuid: of the guest; what it was promised before does not count
    :param needs: at most one entry per pool
    """
    needs = tuple(needs)
    others = facts.others(uuid, promises, figures)
    spoken = spoken_for.of_pools(uuid, needs, others, figures)
    at_worst = availability.shortages(
        needs, *_left(spoken, figures, at_best=False)
    )
    if not at_worst:
        return Outcome(Verdict.FITS)
    at_best = availability.shortages(
        needs, *_left(spoken, figures, at_best=True)
    )
    starting = _of_same(
        needs, others, figures, facts.starting_guests(others, figures.claims)
    )
    awaited = starting | _of_same(
        needs, others, figures, facts.returning_guests(others, figures)
    )
    if not at_best:
        # Without any to wait for, only what is reserved is in doubt, and it
        # is taken for that of guests that are starting in other pools.
        if not awaited:
            return Outcome(Verdict.FITS)
        return Outcome(Verdict.UNCERTAIN, at_worst, awaited, bool(starting))
    bounds = [
        figures.bounds.get(each.page_size, availability.Bound())
        for each in at_best
    ]
    return Outcome(
        Verdict.OVERCOMMITS
        if all(map(availability.may_overcommit, bounds))
        else Verdict.SHORT,
        at_best,
        awaited,
        bool(starting),
        doubtful=bool(awaited)
        or not figures.complete
        or any(bound.reserved for bound in bounds),
    )


def offers(
    uuid: str,
    needs: Iterable[guests.PageNeed],
    figures: facts.Figures,
) -> tuple[availability.Offer, ...]:
    """What there is for a guest while no other one starts, need by need.

    These are the figures that :func:`judge` goes by then.

    :param uuid: of the guest
    :param needs: as for :func:`availability.offers`
    """
    needs = tuple(needs)
    others = facts.others(uuid, (), figures)
    spoken = spoken_for.of_pools(uuid, needs, others, figures)
    return availability.offers(needs, *_left(spoken, figures, at_best=False))


def _left(
    spoken: spoken_for.Pools, figures: facts.Figures, at_best: bool
) -> tuple[list[availability.Pool], dict[int, availability.Bound]]:
    """Pools and bounds, less what is spoken for.

    :param at_best: as if guests that are starting had touched all of theirs,
        and those that return to theirs had none of it in what is free
    """
    pools = []
    idle: dict[int, int] = {}
    starting: dict[int, int] = {}
    gone: dict[int, int] = {}
    own: dict[int, int] = {}
    left: dict[int, int] = {}
    for pool in figures.pools:
        key = (pool.node, pool.page_size)
        each = spoken[key]
        yet_to_touch = each.starting - each.touched
        away = each.promised
        if not at_best:
            away += yet_to_touch + each.returning
        free = pool.free + each.own - each.idle - away
        if not pool.small:
            configured = figures.configured.get(key, 0)
            theirs = (
                each.claimed + each.promised + each.returning + each.starting
            )
            free = min(free, pool.total - pool.surplus - configured - theirs)
        # What the guest has itself, nobody else can be promised.
        pools.append(dataclasses.replace(pool, free=max(each.own, free)))
        _add(idle, pool.page_size, each.idle)
        _add(starting, pool.page_size, yet_to_touch)
        _add(gone, pool.page_size, away - each.own)
        _add(own, pool.page_size, each.own)
        _add(left, pool.page_size, pools[-1].free)
    anywhere = _idle_anywhere(figures)
    bounds = {}
    for size, bound in figures.bounds.items():
        floating = anywhere.get(size, 0)
        # What is reserved may be that of guests that have not touched it.
        idle_pages = idle.get(size, 0) + floating
        others = bound.reserved - idle_pages
        others_at_least = max(0, others - starting.get(size, 0))
        before = figures.reserved_before.get(size, 0) - idle_pages
        reserved = floating + (
            others_at_least
            if at_best
            else max(others_at_least, min(others, before))
        )
        own_pages, limit = own.get(size, 0), bound.mount_free
        bounds[size] = dataclasses.replace(
            bound,
            reserved=min(reserved, left.get(size, 0) - own_pages),
            mount_free=None
            if limit is None
            else max(own_pages, limit - gone.get(size, 0)),
        )
    return pools, bounds


def _idle_anywhere(figures: facts.Figures) -> dict[int, int]:
    """Pages not touched by guests that may take them from any node."""
    idle: dict[int, int] = {}
    if not figures.held:
        return idle
    for claim in figures.claims:
        held = figures.held.get(claim.uuid)
        if held is None:
            continue
        for size, pages in claim.anywhere:
            touched = sum(n for (_, each), n in held.items() if each == size)
            _add(idle, size, max(0, pages - touched))
    return idle


def _of_same(
    needs: Iterable[guests.PageNeed],
    others: Iterable[facts.Promise],
    figures: facts.Figures,
    some: frozenset[str],
) -> frozenset[str]:
    """Those of some guests that are in pools, or a mount, that are needed."""
    keys = {(need.node, need.page_size) for need in needs}
    shared = {
        size
        for _, size in keys
        if size in figures.bounds
        and figures.bounds[size].mount_free is not None
    }
    return frozenset(
        promise.uuid
        for promise in others
        if promise.uuid in some
        and any(
            (need.node, need.page_size) in keys or need.page_size in shared
            for need in promise.needs
        )
    )


def _add(sums: dict[Any, int], key: Any, more: int) -> None:
    sums[key] = sums.get(key, 0) + more
