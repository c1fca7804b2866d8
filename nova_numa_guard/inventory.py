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

"""The pages of a host, for whoever looks at them.

Pure: figures in, rows out. They are what the page check goes by, and what
Nova is told.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_numa_guard import accounting, availability, facts, guests, standing

Key = availability.Key


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One pool, in pages; None for what is not known, or does not apply.

    :param node: id of the host's NUMA node
    :param page_size: KiB
    :param small: the node's small pages; of these none are claimed
    :param total: those that stay: neither surplus ones nor, of small pages,
        those that huge pages are made of
    :param free: as the kernel counts them
    :param reclaimable: small pages that the kernel can free
    :param reserved: that Nova must leave to others, by its configuration
    :param claimed: by running guests of Nova's
    :param unaccounted: in use, and by none of them
    :param available: that one more guest may have of this pool alone
    """

    node: int
    page_size: int
    small: bool
    total: int
    free: int
    reclaimable: int | None
    reserved: int | None
    claimed: int | None
    unaccounted: int | None
    available: int


def rows(
    figures: facts.Figures,
    ours: Iterable[availability.Claim],
    unaccounted: Mapping[Key, int],
) -> tuple[Row, ...]:
    """The pools, by node and page size.

    :param figures: of every pool, the small ones too
    :param ours: the claims of Nova's guests; of no use unless the figures are
        complete
    :param unaccounted: what accounting.outsiders() has found, likewise
    """
    told: dict[int, list[accounting.Pages]] = {}
    for (node, size), pages in figures.configured.items():
        told.setdefault(node, []).append(accounting.Pages(size, 0, pages))
    huge = accounting.figures(
        ours if figures.complete else None,
        (pool for pool in figures.pools if not pool.small),
        unaccounted,
        known=told,
        told=told,
    )
    found = [
        Row(
            node=each.node,
            page_size=each.page_size,
            small=False,
            total=each.total,
            free=each.free,
            reclaimable=None,
            reserved=each.configured,
            claimed=each.claimed,
            unaccounted=each.unaccounted,
            available=_available(each.node, each.page_size, figures),
        )
        for each in huge
    ]
    for pool in figures.pools:
        if not pool.small:
            continue
        # In KiB, because a small page may not divide a huge one's count.
        taken = sum(
            each.total * each.page_size
            for each in figures.pools
            if each.node == pool.node and not each.small
        )
        found.append(
            Row(
                node=pool.node,
                page_size=pool.page_size,
                small=True,
                total=max(0, pool.total - taken // pool.page_size),
                free=pool.free - pool.reclaimable,
                reclaimable=pool.reclaimable,
                reserved=None,
                claimed=None,
                unaccounted=None,
                available=_available(pool.node, pool.page_size, figures),
            )
        )
    return tuple(sorted(found, key=lambda row: (row.node, row.page_size)))


def _available(node: int, size: int, figures: facts.Figures) -> int:
    [offer] = standing.offers('', (guests.PageNeed(node, size, 1),), figures)
    return offer.available
