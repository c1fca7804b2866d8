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

"""Floating guests on the host's floating cells only: a domain's XML.

Pure: text in, text out. Under ``isolation = cell`` a guest without a NUMA
topology gets the CPUs and the memory of some of the host's cells. Of libvirt's
memory modes only two do that: ``restrictive`` leaves it to the kernel's cpuset
of the process, and ``strict`` binds the guest's memory as well. Under pressure
``preferred`` and ``interleave`` leave the cells
(https://libvirt.org/formatdomain.html#numa-node-tuning).
"""

import dataclasses
import enum

from lxml import etree

from nova_numa_guard import domain, sets


class Mode(enum.StrEnum):
    """How the memory of floating guests is confined."""

    RESTRICTIVE = 'restrictive'
    STRICT = 'strict'


@dataclasses.dataclass(frozen=True, slots=True)
class Confinement:
    """Where a host's floating guests run.

    :param nodes: ids of the host's NUMA nodes, at least one
    :param cpus: ids of the host's CPUs that they share, at least one
    :param mode: of the memory
    """

    nodes: frozenset[int]
    cpus: frozenset[int]
    mode: Mode = Mode.RESTRICTIVE


def apply(xml: str, confinement: Confinement) -> str:
    """Confine a floating guest.

    The XML of an affined guest is returned as it is. Doing it twice is doing
    it once; another confinement replaces the one that is there.

    :raises ValueError: this is not the XML of a domain
    """
    root = domain.parse(xml)
    if not _is_floating(root):
        return xml
    vcpu = root.find('./vcpu')
    if vcpu is None:
        raise ValueError('not the XML of a domain: it has no <vcpu>')
    vcpu.set('cpuset', sets.text(confinement.cpus))
    _drop_numatune(root)
    numatune = etree.Element('numatune')
    numatune.tail = vcpu.tail
    vcpu.addnext(numatune)
    etree.SubElement(
        numatune,
        'memory',
        {
            'mode': confinement.mode.value,
            'nodeset': sets.text(confinement.nodes),
        },
    )
    return domain.to_text(root, xml)


def release(xml: str) -> str:
    """Take the confinement of the memory off a floating guest.

    Its CPUs stay as they are: Nova writes them anew itself where a guest
    arrives. The XML of an affined guest is returned as it is.

    :raises ValueError: this is not the XML of a domain
    """
    root = domain.parse(xml)
    if not _is_floating(root) or not _drop_numatune(root):
        return xml
    return domain.to_text(root, xml)


def _is_floating(root: etree._Element) -> bool:
    return (
        root.find('./cpu/numa') is None
        and root.find('./numatune/memnode') is None
    )


def _drop_numatune(root: etree._Element) -> bool:
    """Remove a floating guest's ``<numatune>``; False if it has none."""
    numatune = root.find('./numatune')
    if numatune is None:
        return False
    domain.remove(numatune)
    return True
