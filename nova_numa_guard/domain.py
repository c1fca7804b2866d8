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

"""A libvirt domain's XML: how its memory is laid out.

Pure: text in, figures out. It is read as Nova is about to hand it to libvirt,
and as libvirt prints it of a domain that runs.
"""

from collections.abc import Iterable, Iterator, Mapping
import dataclasses
from typing import TypeAlias

from lxml import etree
from oslo_utils import units

from nova_numa_guard import guests, sets

Text: TypeAlias = str | etree._Element  # that is parsed

# Bytes, by libvirt's unit in lower case: k and KiB are 1024, kB is 1000.
_UNITS = {'b': 1, 'byte': 1, 'bytes': 1}
for _power, _prefix in enumerate('kmgtpe', start=1):
    _UNITS[_prefix] = _UNITS[f'{_prefix}ib'] = 1024**_power
    _UNITS[f'{_prefix}b'] = 1000**_power


# Modes in which memory comes from the named nodes, and from no other.
STRICT = ('strict', 'restrictive')


@dataclasses.dataclass(frozen=True, slots=True)
class Memnode:
    """What the memory of one guest cell is bound to.

    :param mode: libvirt's word
    :param nodes: ids of the host's nodes
    """

    mode: str
    nodes: frozenset[int]


@dataclasses.dataclass(frozen=True, slots=True)
class Layout:
    """The memory of a domain.

    :param memory: KiB of the whole, or None if it is not said
    :param cells: KiB of each guest cell
    :param has_huge_pages: ``<hugepages>`` is there
    :param page_sizes: KiB of a huge page, by guest cell, where one is named;
        a domain without guest cells counts as cell 0
    :param memnodes: by guest cell
    :param is_bound: ``<numatune><memory>`` is there, which binds all of QEMU
    """

    memory: int | None
    cells: Mapping[int, int]
    has_huge_pages: bool
    page_sizes: Mapping[int, int]
    memnodes: Mapping[int, Memnode]
    is_bound: bool


def read(xml: Text) -> Layout:
    """How the memory of a domain is laid out.

    :raises ValueError: this is not the XML of a domain
    """
    # All guests of a host are read at once when nova-compute starts. So each
    # part is looked for once, and not by a path.
    parts = {
        part.tag: part
        for part in parse(xml).iterchildren(
            'memory', 'memoryBacking', 'numatune', 'cpu'
        )
    }
    memory = parts.get('memory')
    cells = {
        _number(cell, 'id', index): _kib(cell.get('memory'), cell.get('unit'))
        for numa in _children(parts.get('cpu'), 'numa')
        for index, cell in enumerate(numa.iterchildren('cell'))
    }
    huge = next(_children(parts.get('memoryBacking'), 'hugepages'), None)
    return Layout(
        memory=None
        if memory is None
        else _kib(memory.text, memory.get('unit')),
        cells=cells,
        has_huge_pages=huge is not None,
        page_sizes=_page_sizes(_children(huge, 'page'), cells or (0,)),
        memnodes={
            _number(memnode, 'cellid'): Memnode(
                memnode.get('mode', 'strict'),
                sets.parse(memnode.get('nodeset', '')),
            )
            for memnode in _children(parts.get('numatune'), 'memnode')
        },
        is_bound=any(True for _ in _children(parts.get('numatune'), 'memory')),
    )


def claim(
    layout: Layout, small_page: int, default_page: int | None = None
) -> tuple[tuple[guests.PageNeed, ...], tuple[tuple[int, int], ...]]:
    """The huge pages that a running domain may use, Nova's or another.

    Those of a guest cell that is not bound to one host node, or of a domain
    without guest cells, may come from any node.

    :param layout: of what libvirt prints
    :param small_page: the host's small page size in KiB
    :param default_page: KiB of a page where ``<hugepages>`` names none, as it
        does in no domain of Nova's; None leaves these out
    :returns: pages by pool; and those of no certain node, as (page size in
        KiB, pages)
    :raises ValueError: it is not said how much memory the domain has
    """
    if not layout.has_huge_pages:
        return (), ()
    memory, sizes = layout.cells, layout.page_sizes
    if not memory:
        if layout.memory is None:
            raise ValueError('the domain has no <memory>')
        memory = {0: layout.memory}
    if default_page and not sizes:
        sizes = dict.fromkeys(memory, default_page)
    nodes = {
        cell: min(memnode.nodes)
        for cell, memnode in layout.memnodes.items()
        if memnode.mode in STRICT and len(memnode.nodes) == 1
    }
    needs = guests.page_needs(
        (
            guests.GuestCell(
                nodes.get(cell, guests.ANY_NODE), kib, sizes.get(cell)
            )
            for cell, kib in memory.items()
        ),
        small_page,
    )
    return (
        tuple(need for need in needs if need.node >= 0),
        tuple((n.page_size, n.pages) for n in needs if n.node < 0),
    )


def is_preallocated(root: etree._Element) -> bool:
    """Whether the kernel allocates all of the guest's memory at its start.

    A passed-through device (VFIO, vhost-vdpa) has all of it pinned for DMA;
    locked memory is what Nova gives realtime guests and hw:locked_memory.
    """
    return any(
        root.find(path) is not None
        for path in (
            './memoryBacking/locked',
            './memoryBacking/allocation[@mode="immediate"]',
            './devices/hostdev[@type="pci"]',
            './devices/interface[@type="hostdev"]',
            './devices/interface[@type="vdpa"]',
        )
    )


def parse(xml: Text) -> etree._Element:
    """Read the XML of a domain, unless that is done.

    :raises ValueError: it is not that
    """
    try:
        root = etree.fromstring(xml.encode()) if isinstance(xml, str) else xml
    except etree.XMLSyntaxError as exc:
        # It names the line and the column.
        raise ValueError(f'not the XML of a domain: {exc.msg}') from exc
    if root.tag != 'domain':
        raise ValueError(f'not the XML of a domain, but of a {root.tag!r}')
    return root


def _children(
    parent: etree._Element | None, tag: str
) -> Iterator[etree._Element]:
    return iter(()) if parent is None else parent.iterchildren(tag)


def _page_sizes(
    pages: Iterable[etree._Element], cells: Iterable[int]
) -> dict[int, int]:
    """``<page nodeset=…>`` names guest cells; without it, it means the rest.

    :param cells: all guest cells
    """
    sizes: dict[int, int] = {}
    rest = None
    for page in pages:
        size = _kib(page.get('size'), page.get('unit'))
        nodeset = page.get('nodeset')
        if nodeset is None:
            rest = size
        else:
            sizes.update(dict.fromkeys(sets.parse(nodeset), size))
    if rest is not None:
        for cell in cells:
            sizes.setdefault(cell, rest)
    return sizes


def _number(
    element: etree._Element, name: str, default: int | None = None
) -> int:
    """The number in an attribute."""
    value = element.get(name)
    if value is None and default is not None:
        return default
    try:
        return int(value or '')
    except ValueError as exc:
        raise ValueError(
            f'line {element.sourceline}: <{element.tag}> has {name}={value!r},'
            f' which is not a number'
        ) from exc


def _kib(value: str | None, unit: str | None) -> int:
    """A size in KiB, rounded up as libvirt does.

    :param unit: KiB if it is None
    """
    try:
        size = int(value or '') * _UNITS[(unit or 'KiB').lower()]
    except (KeyError, ValueError) as exc:
        raise ValueError(f'not a size: {value!r} {unit!r}') from exc
    return -(-size // units.Ki)


def remove(element: etree._Element) -> None:
    """Remove an element, and the white space that indents it."""
    parent = element.getparent()
    assert parent is not None
    before = element.getprevious()
    if element.getnext() is None and before is not None:
        before.tail = element.tail  # it indents the end of the parent
    parent.remove(element)


def to_text(root: etree._Element, original: str) -> str:
    """Write it again, with the original's newline at the end, or none."""
    text = etree.tostring(root, encoding='unicode')
    return text + '\n' if original.endswith('\n') else text
