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

"""Whether the kernel has the huge pages that a guest needs.

Pure: figures in, figures out.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_numa_guard import binding, guests

Key = tuple[int, int]  # of a pool: host node, page size in KiB


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """The huge pages of one size on one host node, as the kernel counts them.

    Documentation/admin-guide/mm/hugetlbpage.rst in the kernel's source says
    what each file means.

    :param node: id of the host's NUMA node
    :param page_size: KiB
    :param total: pages in the pool, surplus ones included
    :param free: pages that nobody has touched
    :param surplus: those of total that were added on demand; the kernel takes
        them back when they are freed
    :param small: the node's small pages, of which those that the kernel can
        reclaim count as free
    :param reclaimable: these
    """

    node: int
    page_size: int
    total: int
    free: int
    surplus: int = 0
    small: bool = False
    reclaimable: int = dataclasses.field(default=0, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Bound:
    """What limits one page size on the host as a whole.

    :param reserved: pages that processes mapped and have not touched yet; the
        kernel keeps them from everybody else, but not on which node
    :param overcommit: pages that the kernel may add to the pools on demand
    :param mount_free: pages that the hugetlbfs mount of that size may still
        give out, or None if the mount has no limit
    """

    reserved: int = 0
    overcommit: int = 0
    mount_free: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """Huge pages that a running guest may use, whether it has touched them.

    :param uuid: of the guest
    :param domain_id: of libvirt; a guest that is started anew has another
    :param name: of the libvirt domain
    :param needs: pages bound to a host node, at most one entry per pool
    :param anywhere: pages that no host node is named for, as (page size in
        KiB, pages)
    :param bound: how its memory is
    """

    uuid: str
    domain_id: int
    name: str
    needs: tuple[guests.PageNeed, ...] = ()
    anywhere: tuple[tuple[int, int], ...] = ()
    bound: binding.Binding = dataclasses.field(
        default=binding.NOT_BOUND, compare=False
    )

    @property
    def by_pool(self) -> dict[Key, int]:
        """How many pages it may use, by pool."""
        return {
            (need.node, need.page_size): need.pages
            for need in self.needs
            if need.pages
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """What a pool has for a guest.

    :param node: id of the host's NUMA node; guests.ANY_NODE for the host
    :param page_size: KiB
    :param needed: pages
    :param available: pages
    :param small: of small pages
    """

    node: int
    page_size: int
    needed: int
    available: int
    small: bool = False

    @property
    def short(self) -> int:
        """Pages that lack."""
        return max(0, self.needed - self.available)


@dataclasses.dataclass(frozen=True, slots=True)
class Shortage(Offer):
    """A pool that cannot hold what a guest needs from it."""

    def __str__(self) -> str:
        where = (
            'any host NUMA node'
            if self.node == guests.ANY_NODE
            else f'host NUMA node {self.node}'
        )
        return (
            f'{"small" if self.small else "huge"} pages of {self.page_size} '
            f'KiB on {where}: needed {self.needed}, '
            f'available {self.available}'
        )


def claimed(claims: Iterable[Claim]) -> dict[Key, int]:
    """The pages that guests may use, by pool; those of no certain node apart.

    This goes over every guest of a host, at every check.
    """
    sums: dict[Key, int] = {}
    for claim in claims:
        for need in claim.needs:
            key = (need.node, need.page_size)
            sums[key] = sums.get(key, 0) + need.pages
    return sums


def host_wide(pools: Iterable[Pool], page_size: int, bound: Bound) -> int:
    """How many pages of one size one more guest may take from the host.

    :param pools: the pools of that size, of every node
    :param page_size: KiB
    """
    free = sum(pool.free for pool in pools if pool.page_size == page_size)
    limits = [free - bound.reserved]
    if bound.mount_free is not None:
        limits.append(bound.mount_free)
    return max(0, min(limits))


def shortages(
    needs: Iterable[guests.PageNeed],
    pools: Iterable[Pool],
    bounds: Mapping[int, Bound],
) -> tuple[Shortage, ...]:
    """The pools that are too small for a guest; empty if it fits.

    The parameters are those of :func:`offers`.
    """
    return tuple(
        Shortage(
            each.node,
            each.page_size,
            each.needed,
            each.available,
            each.small,
        )
        for each in offers(needs, pools, bounds)
        if each.short
    )


def offers(
    needs: Iterable[guests.PageNeed],
    pools: Iterable[Pool],
    bounds: Mapping[int, Bound],
) -> tuple[Offer, ...]:
    """What each pool has for a guest, one for each need.

    A pool that is not in *pools* has no pages. The host-wide bound is given
    out in the order of the needs, so that of a guest with several cells the
    later ones are short of it.

    :param needs: at most one entry per pool; those of any node are last
    :param pools: every pool of the page sizes that are needed
    :param bounds: host-wide bounds by page size in KiB
    """
    pools = tuple(pools)
    known = {(pool.node, pool.page_size): pool for pool in pools}
    left: dict[int, int] = {}
    found = []
    for need in needs:
        size = need.page_size
        if size not in left:
            left[size] = host_wide(pools, size, bounds.get(size, Bound()))
        pool = known.get((need.node, size), Pool(need.node, size, 0, 0))
        available = left[size]
        if need.node != guests.ANY_NODE:
            available = min(pool.free, available)
        found.append(Offer(need.node, size, need.pages, available, pool.small))
        left[size] -= min(need.pages, available)
    return tuple(found)


def may_overcommit(bound: Bound | None) -> bool:
    """Whether the kernel may make up for a shortage with surplus pages."""
    return bound is not None and bound.overcommit > 0
