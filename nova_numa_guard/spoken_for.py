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

"""What of a host's pages is spoken for when a guest asks for some.

Pure: figures in, figures out, pool by pool.
"""

from collections.abc import Iterable
import dataclasses

from nova_numa_guard import availability, facts, guests


@dataclasses.dataclass(slots=True)
class Spoken:
    """What of one pool is spoken for, in pages.

    :param claimed: by guests that run
    :param idle: of these, not touched
    :param held: touched by those that were looked at
    :param unread: claimed by those that were not
    :param promised: to guests that are about to start
    :param returning: to guests that are started anew, and whose domain has
        ended; they may be in use still, by a process that ends later
    :param starting: to guests that are starting
    :param touched: of these, in use by now
    :param own: in use by the guest that is judged
    """

    claimed: int = 0
    idle: int = 0
    held: int = 0
    unread: int = 0
    promised: int = 0
    returning: int = 0
    starting: int = 0
    touched: int = 0
    own: int = 0


Pools = dict[facts.Key, Spoken]


def of_pools(
    uuid: str,
    needs: Iterable[guests.PageNeed],
    others: Iterable[facts.Promise],
    figures: facts.Figures,
) -> Pools:
    """What is spoken for, of every pool.

    :param uuid: of the guest that asks
    :param needs: what for, at most one entry per pool
    :param others: what others than that guest were promised
    """
    spoken = {(pool.node, pool.page_size): Spoken() for pool in figures.pools}
    small = {(p.node, p.page_size) for p in figures.pools if p.small}
    running = {claim.uuid: claim for claim in figures.claims}
    own = running.pop(uuid, None)
    gone = _promise(spoken, small, tuple(others), running, figures)
    if own is not None:
        gone.append(own)
    _claim(spoken, running, gone, figures)
    if own is not None:
        _own(spoken, small, own, needs, figures)
    for pool in figures.pools:
        each = spoken[pool.node, pool.page_size]
        # Of those that were not looked at, what cannot be in use is idle.
        used = pool.total - pool.free - each.touched - each.held - each.own
        each.idle += max(0, each.unread - max(0, used))
    return spoken


def _promise(
    spoken: Pools,
    small: set[facts.Key],
    others: tuple[facts.Promise, ...],
    running: dict[str, availability.Claim],
    figures: facts.Figures,
) -> list[availability.Claim]:
    """Add what was promised.

    :param running: by uuid; those whose promise stands for them are taken out
    :returns: these
    """
    gone = []
    starting = facts.starting_guests(others, figures.claims)
    returning = facts.returning_guests(others, figures)
    for promise in others:
        claim = running.get(promise.uuid)
        ends_first = claim is not None and claim.domain_id == promise.domain_id
        if claim is not None and not ends_first:
            # libvirt lists it before it has started.
            gone.append(running.pop(promise.uuid))
        held = figures.held.get(promise.uuid, {})
        for need in promise.needs:
            key = (need.node, need.page_size)
            if key not in spoken:
                continue
            if promise.uuid in starting:
                spoken[key].starting += need.pages
                spoken[key].touched += min(need.pages, held.get(key, 0))
            elif claim is not None and ends_first:
                if key not in small:
                    more = need.pages - claim.by_pool.get(key, 0)
                    spoken[key].promised += max(0, more)
            elif promise.uuid in returning:
                spoken[key].returning += need.pages
            else:
                spoken[key].promised += need.pages
    return gone


def _claim(
    spoken: Pools,
    running: dict[str, availability.Claim],
    gone: list[availability.Claim],
    figures: facts.Figures,
) -> None:
    """Add what guests that run claim, and what of it they do not use.

    :param gone: claims that do not count
    """
    theirs = availability.claimed(gone)
    for key, pages in figures.sums().items():
        if key in spoken:
            pages -= theirs.get(key, 0)
            spoken[key].claimed = spoken[key].unread = pages
    for uuid, looked_at in figures.held.items():
        if uuid not in running:
            continue
        for need in running[uuid].needs:
            key = (need.node, need.page_size)
            if key in spoken:
                held = looked_at.get(key, 0)
                spoken[key].unread -= need.pages
                spoken[key].held += held
                spoken[key].idle += max(0, need.pages - held)


def _own(
    spoken: Pools,
    small: set[facts.Key],
    own: availability.Claim,
    needs: Iterable[guests.PageNeed],
    figures: facts.Figures,
) -> None:
    """Add what the guest has that asks, because it is to be started anew."""
    known = figures.held.get(own.uuid)
    for need in own.needs:
        key = (need.node, need.page_size)
        if key in spoken:
            spoken[key].own = (
                need.pages if known is None else known.get(key, 0)
            )
    for need in needs:
        key = (need.node, need.page_size)
        if key in small:
            spoken[key].own = need.pages
