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

"""What a guest is, and which pages it needs from the host.

Pure: nothing here imports Nova or libvirt, or reads a file.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import enum


class Kind(enum.StrEnum):
    """The two kinds of guest.

    A guest is affined if and only if Nova gave it a NUMA topology; page size,
    CPU policy and vPMEM imply one, a PCI device alone does not
    (nova.virt.hardware.numa_get_constraints). Extra specs are never looked
    at: they say what was asked for, not what the guest has.
    """

    FLOATING = 'floating'
    AFFINED = 'affined'

    @property
    def other(self) -> 'Kind':
        return Kind.AFFINED if self is Kind.FLOATING else Kind.FLOATING


def kind_of(has_topology: bool) -> Kind:
    """The kind of a guest with, or without, a NUMA topology."""
    return Kind.AFFINED if has_topology else Kind.FLOATING


def is_exempt(extra_specs: Mapping[str, str]) -> bool:
    """Whether a flavor exempts its guests from isolation.

    Such a guest is of no kind: it may join any host, and does not keep any
    other guest from one.
    """
    return extra_specs.get('numa_guard:isolation') == 'exempt'


# Instead of a host node, where none is named.
ANY_NODE = -1


@dataclasses.dataclass(frozen=True, slots=True)
class GuestCell:
    """A guest's NUMA cell that was placed on a host.

    :param node: id of the host's NUMA node
    :param memory: KiB
    :param page_size: KiB, or None for the host's small pages
    """

    node: int
    memory: int
    page_size: int | None


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class PageNeed:
    """Huge pages that a guest needs from one pool.

    :param node: id of the host's NUMA node
    :param page_size: KiB
    :param pages: how many, at least 1
    """

    node: int
    page_size: int
    pages: int


def page_needs(
    cells: Iterable[GuestCell], small_page: int
) -> tuple[PageNeed, ...]:
    """The huge pages that a guest needs, by pool.

    Cells on the same host node are summed. Memory that does not fill its last
    page takes the whole page, as QEMU allocates it. A cell without a page
    size, or with the host's small one, needs none.

    :param cells: the guest's cells
    :param small_page: the host's small page size in KiB
    :returns: one entry per pool, by node and page size
    """
    pages: dict[tuple[int, int], int] = {}
    for cell in cells:
        if cell.page_size is None or cell.page_size <= small_page:
            continue
        pool = (cell.node, cell.page_size)
        pages[pool] = pages.get(pool, 0) - (-cell.memory // cell.page_size)
    return tuple(
        PageNeed(node, size, count)
        for (node, size), count in sorted(pages.items())
        if count
    )


def small_needs(
    cells: Iterable[GuestCell], small_page: int
) -> tuple[PageNeed, ...]:
    """The small pages that a guest needs, by host node.

    :param cells: the guest's cells that have them
    :param small_page: the host's small page size in KiB
    """
    return page_needs(
        (dataclasses.replace(cell, page_size=small_page) for cell in cells),
        0,
    )
