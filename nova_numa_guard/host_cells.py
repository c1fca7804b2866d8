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

"""The NUMA cells of a host by libvirt's word, with what Nova makes of them.

Pure: XML and CPU numbers in, cells out. Nova's driver does the same when
nova-compute starts (LibvirtDriver._get_host_numa_topology); this is for those
who want to know before.
"""

from collections.abc import Iterable
import dataclasses

from lxml import etree
from oslo_utils import units

from nova_numa_guard import cells


@dataclasses.dataclass(frozen=True, slots=True)
class CPUSets:
    """The CPUs of a configuration; None where the option is not set.

    :param shared: ``[compute] cpu_shared_set``
    :param dedicated: ``[compute] cpu_dedicated_set``
    """

    shared: frozenset[int] | None = None
    dedicated: frozenset[int] | None = None

    def shared_of(self, cpus: frozenset[int]) -> frozenset[int]:
        """Those of some CPUs that guests share.

        As Nova has it: all, if neither option is set, and none, if only the
        dedicated ones are.
        """
        if self.shared is not None:
            return cpus & self.shared
        return cpus if self.dedicated is None else frozenset()

    def dedicated_of(self, cpus: frozenset[int]) -> frozenset[int]:
        """Those of some CPUs that are given to guests for themselves."""
        return cpus & (self.dedicated or frozenset())


def read(capabilities: str, cpu_sets: CPUSets) -> tuple[cells.HostCell, ...]:
    """The cells of a host, by id.

    :param capabilities: what ``virsh capabilities`` prints
    :raises ValueError: it is not that
    """
    try:
        root = etree.fromstring(capabilities)
        return tuple(
            sorted(
                (
                    _cell(cell, cpu_sets)
                    for cell in root.iterfind('./host/topology/cells/cell')
                ),
                key=lambda cell: cell.id,
            )
        )
    except (etree.XMLSyntaxError, TypeError, ValueError) as exc:
        raise ValueError(f"not libvirt's capabilities: {exc}") from exc


def _cell(cell: etree._Element, cpu_sets: CPUSets) -> cells.HostCell:
    cpus = frozenset(
        int(cpu.get('id', '')) for cpu in cell.iterfind('./cpus/cpu')
    )
    return cells.HostCell(
        id=int(cell.get('id', '')),
        shared_cpus=cpu_sets.shared_of(cpus),
        dedicated_cpus=cpu_sets.dedicated_of(cpus),
        small_memory=_small_memory(
            cell.iterfind('./pages'), cell.findtext('./memory')
        ),
    )


def _small_memory(pages: Iterable[etree._Element], memory: str | None) -> int:
    """MiB of small pages; libvirt counts memory in KiB here."""
    sizes = {int(each.get('size', '')): int(each.text or 0) for each in pages}
    if not sizes:
        return int(memory or 0) // units.Ki
    small = min(sizes)
    return small * sizes[small] // units.Ki
