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

"""Write a domain's ``<numatune>``: the guard's, or Nova's again.

Pure: text in, text out. Nova's configuration objects change from release to
release; the XML that they write does not.

``<memory>`` binds the whole QEMU process through its cpuset, ``<memnode>``
the memory of one guest cell through mbind(2)
(https://libvirt.org/formatdomain.html#numa-node-tuning). Nova writes both, in
mode strict. The guard drops the first, so that QEMU's own memory may come
from any node, and keeps the second strict where there are huge pages.
"""

from collections.abc import Mapping
import enum

from lxml import etree

from nova_numa_guard import domain, sets


class SmallPagePolicy(enum.Enum):
    """The memory policy of a guest cell with small pages.

    AUTO is STRICT for a guest that is preallocated, and PREFERRED otherwise.
    """

    AUTO = 'auto'
    PREFERRED = 'preferred'
    LOCAL = 'local'
    STRICT = 'strict'


def apply(xml: str, policy: SmallPagePolicy) -> str:
    """Write the guard's ``<numatune>`` instead of Nova's.

    XML without ``<memnode>`` (floating guests) and that of confidential
    guests is returned as it is: the memory of SEV-SNP and TDX guests comes
    from guest_memfd, which has no such policy. Nothing but ``<numatune>`` is
    changed, and doing it twice is doing it once.

    :raises ValueError: this is not the XML of a domain
    """
    root = domain.parse(xml)
    numatune = root.find('./numatune')
    if numatune is None or numatune.find('memnode') is None:
        return xml
    if root.find('./launchSecurity') is not None:
        return xml

    if policy is SmallPagePolicy.AUTO:
        policy = (
            SmallPagePolicy.STRICT
            if domain.is_preallocated(root)
            else SmallPagePolicy.PREFERRED
        )
    sizes = domain.read(root).page_sizes
    for memory in numatune.findall('memory'):
        if memory.get('mode') == 'strict':
            domain.remove(memory)
    for memnode in numatune.findall('memnode'):
        if int(memnode.get('cellid', '')) in sizes:
            continue
        if policy is SmallPagePolicy.LOCAL:
            domain.remove(memnode)
        else:
            memnode.set('mode', policy.value)
    if len(numatune) == 0:
        domain.remove(numatune)
    return domain.to_text(root, xml)


def restore(xml: str, nodes: Mapping[int, int]) -> str:
    """Write Nova's ``<numatune>`` instead of the guard's.

    Nova's live migration looks for ``<memory>`` and for the ``<memnode>`` of
    every cell (nova.virt.libvirt.migration), and fails where one is missing.
    XML that has ``<memory>`` already is returned as it is.

    :param nodes: the host node of each guest cell, for the cells whose
        ``<memnode>`` is gone
    :raises ValueError: this is not the XML of a domain
    """
    root = domain.parse(xml)
    numatune = root.find('./numatune')
    if numatune is not None and numatune.find('memory') is not None:
        return xml
    bound = {} if numatune is None else _nodesets(numatune)
    nodesets = {
        cell: bound.get(cell, str(nodes.get(cell, '')))
        for cell in range(len(domain.read(root).cells))
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
    return domain.to_text(root, xml)


def _nodesets(numatune: etree._Element) -> dict[int, str]:
    return {
        int(memnode.get('cellid', '')): memnode.get('nodeset', '')
        for memnode in numatune.iterfind('memnode')
    }
