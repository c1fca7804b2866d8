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

"""A libvirt domain's XML: its page needs, and its ``<numatune>``.

Pure: text in, text out. Nova's configuration objects change from release to
release; the XML that they write does not.

``<memory>`` binds the whole QEMU process through its cpuset, ``<memnode>``
the memory of one guest cell through mbind(2)
(https://libvirt.org/formatdomain.html#numa-node-tuning). Nova writes both, in
mode strict. The guard drops the first, so that QEMU's own memory may come
from any node, and keeps the second strict where there are huge pages.
"""

from collections.abc import Callable, Mapping
import enum
from typing import TypeAlias, cast

from lxml import etree
from oslo_utils import units

from nova_numa_guard import guests, sets

Text: TypeAlias = str | etree._Element  # that is parsed

_Find: TypeAlias = Callable[[etree._Element], list[etree._Element]]
# What findall() does in half the time: all guests of a host are read at once.
_cells = cast(_Find, etree.XPath('./cpu/numa/cell'))
memnodes = cast(_Find, etree.XPath('./numatune/memnode'))
_hugepages = cast(_Find, etree.XPath('./memoryBacking/hugepages'))
_pages = cast(_Find, etree.XPath('./memoryBacking/hugepages/page'))

# Bytes, by libvirt's unit in lower case: k and KiB are 1024, kB is 1000.
_UNITS = {'b': 1, 'byte': 1, 'bytes': 1}
for _power, _prefix in enumerate('kmgtpe', start=1):
    _UNITS[_prefix] = _UNITS[f'{_prefix}ib'] = 1024**_power
    _UNITS[f'{_prefix}b'] = 1000**_power


class SmallPagePolicy(enum.Enum):
    """The memory policy of a guest cell with small pages.

    AUTO is STRICT for a guest that is preallocated, and PREFERRED otherwise.
    """

    AUTO = 'auto'
    PREFERRED = 'preferred'
    LOCAL = 'local'
    STRICT = 'strict'


def read_cells(xml: Text) -> tuple[guests.GuestCell, ...]:
    """The guest's NUMA cells that are bound to a host node.

    :param xml: the XML of a domain, as Nova writes it or libvirt prints it
    :raises ValueError: this is not the XML of a domain
    """
    root = parse(xml)
    sizes = page_sizes(root)
    memory = _cell_memory(root)
    return tuple(
        guests.GuestCell(
            node=int(memnode.get('nodeset', '')),
            memory=memory[int(memnode.get('cellid', ''))],
            page_size=sizes.get(int(memnode.get('cellid', ''))),
        )
        for memnode in memnodes(root)
        if int(memnode.get('cellid', '')) in memory
    )


def read_claim(
    xml: Text, small_page: int, default_page: int | None = None
) -> tuple[tuple[guests.PageNeed, ...], tuple[tuple[int, int], ...]]:
    """The huge pages that a running domain may use, Nova's or another.

    Those of a guest cell that is not bound to one host node, or of a domain
    without guest cells, may come from any node.

    :param xml: as libvirt prints it
    :param small_page: the host's small page size in KiB
    :param default_page: KiB of a page where ``<hugepages>`` names none, as it
        does in no domain of Nova's; None leaves these out
    :returns: pages by pool; and those of no certain node, as (page size in
        KiB, pages)
    :raises ValueError: this is not the XML of a domain
    """
    root = parse(xml)
    if not (found := _hugepages(root)):
        return (), ()
    backing = found[0]
    memory, sizes = _cell_memory(root), page_sizes(root)
    if not memory:
        whole, page = root.find('./memory'), backing.find('page')
        if whole is None:
            raise ValueError('the domain has no <memory>')
        memory = {0: _kib(whole.text, whole.get('unit'))}
        if page is not None:
            sizes = {0: _kib(page.get('size'), page.get('unit'))}
    if default_page and backing.find('page') is None:
        sizes = dict.fromkeys(memory, default_page)
    nodes = {
        int(memnode.get('cellid', '')): min(nodeset)
        for memnode in memnodes(root)
        if memnode.get('mode', 'strict') in ('strict', 'restrictive')
        and len(nodeset := sets.parse(memnode.get('nodeset', ''))) == 1
    }
    needs = guests.page_needs(
        (
            guests.GuestCell(nodes.get(cell, -1), kib, sizes.get(cell))
            for cell, kib in memory.items()
        ),
        small_page,
    )
    return (
        tuple(need for need in needs if need.node >= 0),
        tuple((n.page_size, n.pages) for n in needs if n.node < 0),
    )


def apply(xml: str, policy: SmallPagePolicy) -> str:
    """Write the guard's ``<numatune>`` instead of Nova's.

    XML without ``<memnode>`` (floating guests) and that of confidential
    guests is returned as it is: the memory of SEV-SNP and TDX guests comes
    from guest_memfd, which has no such policy. Nothing but ``<numatune>`` is
    changed, and doing it twice is doing it once.

    :raises ValueError: this is not the XML of a domain
    """
    root = parse(xml)
    numatune = root.find('./numatune')
    if numatune is None or numatune.find('memnode') is None:
        return xml
    if root.find('./launchSecurity') is not None:
        return xml

    if policy is SmallPagePolicy.AUTO:
        policy = (
            SmallPagePolicy.STRICT
            if is_preallocated(root)
            else SmallPagePolicy.PREFERRED
        )
    sizes = page_sizes(root)
    for memory in numatune.findall('memory'):
        if memory.get('mode') == 'strict':
            remove(memory)
    for memnode in numatune.findall('memnode'):
        if int(memnode.get('cellid', '')) in sizes:
            continue
        if policy is SmallPagePolicy.LOCAL:
            remove(memnode)
        else:
            memnode.set('mode', policy.value)
    if len(numatune) == 0:
        remove(numatune)
    return to_text(root, xml)


def restore(xml: str, nodes: Mapping[int, int]) -> str:
    """Write Nova's ``<numatune>`` instead of the guard's.

    Nova's live migration looks for ``<memory>`` and for the ``<memnode>`` of
    every cell (nova.virt.libvirt.migration), and fails where one is missing.
    XML that has ``<memory>`` already is returned as it is.

    :param nodes: the host node of each guest cell, for the cells whose
        ``<memnode>`` is gone
    :raises ValueError: this is not the XML of a domain
    """
    root = parse(xml)
    numatune = root.find('./numatune')
    if numatune is not None and numatune.find('memory') is not None:
        return xml
    bound = {} if numatune is None else _nodesets(numatune)
    nodesets = {
        cell: bound.get(cell, str(nodes.get(cell, '')))
        for cell in range(len(_cells(root)))
    }
    if not nodesets or not all(nodesets.values()):
        return xml

    if numatune is None:
        numatune = etree.Element('numatune')
        numatune.tail = '\n'
        root.append(numatune)
    for child in list(numatune):
        numatune.remove(child)
    used = sorted(set().union(*map(sets.parse, nodesets.values())))
    etree.SubElement(
        numatune,
        'memory',
        {'mode': 'strict', 'nodeset': ','.join(map(str, used))},
    )
    for cell, nodeset in nodesets.items():
        etree.SubElement(
            numatune,
            'memnode',
            {'cellid': str(cell), 'mode': 'strict', 'nodeset': nodeset},
        )
    return to_text(root, xml)


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
        raise ValueError(f'not the XML of a domain: {exc}') from exc
    if root.tag != 'domain':
        raise ValueError(f'not the XML of a domain, but of a {root.tag!r}')
    return root


def _cell_memory(root: etree._Element) -> dict[int, int]:
    """KiB of each guest cell."""
    return {
        int(cell.get('id', index)): _kib(cell.get('memory'), cell.get('unit'))
        for index, cell in enumerate(_cells(root))
    }


def page_sizes(root: etree._Element) -> dict[int, int]:
    """The huge page size of each guest cell that has huge pages, in KiB.

    ``<page nodeset=…>`` names guest cells; without nodeset it means all that
    no other names.
    """
    sizes: dict[int, int] = {}
    rest = None
    for page in _pages(root):
        size = _kib(page.get('size'), page.get('unit'))
        nodeset = page.get('nodeset')
        if nodeset is None:
            rest = size
        else:
            sizes.update(dict.fromkeys(sets.parse(nodeset), size))
    if rest is not None:
        for index, cell in enumerate(_cells(root)):
            sizes.setdefault(int(cell.get('id', index)), rest)
    return sizes


def _nodesets(numatune: etree._Element) -> dict[int, str]:
    return {
        int(memnode.get('cellid', '')): memnode.get('nodeset', '')
        for memnode in numatune.iterfind('memnode')
    }


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
