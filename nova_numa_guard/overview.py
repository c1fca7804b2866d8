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

"""What an operator is told of a guest, by the XML of its domain.

Pure: XML in, words and figures out.
"""

import dataclasses

from lxml import etree

from nova_numa_guard import binding, domain, guests, leaving, sets


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """A guest that runs.

    :param is_novas: whether Nova made the domain
    :param kind: by whether it has guest cells
    :param pinned: vCPUs that have a host CPU of their own
    :param cells: ids of the host's nodes, by guest cell; none for a cell that
        is bound to no node
    :param page_sizes: KiB, of the guest's memory
    :param numatune: whose it is that is in force
    :param modes: libvirt's, of guest cells
    :param needs_reboot: it was started with Nova's own numatune, which binds
        all of QEMU strictly; only a hard reboot gives it the guard's
    """

    is_novas: bool
    kind: guests.Kind
    pinned: int
    cells: dict[int, frozenset[int]]
    page_sizes: tuple[int, ...]
    numatune: binding.Numatune
    modes: tuple[str, ...]
    needs_reboot: bool


def of(root: etree._Element, small_page: int) -> Guest:
    """What there is to be told of a domain.

    :param root: of the XML that libvirt prints of it while it runs
    :param small_page: the host's small page size in KiB
    :raises ValueError: this is not the XML of a domain
    """
    layout = domain.read(root)
    is_novas = leaving.is_novas(root)
    numatune = binding.of(layout, small_page).numatune
    memnodes = layout.memnodes
    sizes = {
        layout.page_sizes.get(cell, small_page)
        for cell in layout.cells or (0,)
    }
    return Guest(
        is_novas=is_novas,
        kind=guests.kind_of(bool(layout.cells)),
        pinned=sum(
            len(sets.parse(pin.get('cpuset', ''))) == 1
            for pin in root.iterfind('./cputune/vcpupin')
        ),
        cells={
            cell: memnodes[cell].nodes if cell in memnodes else frozenset()
            for cell in layout.cells
        },
        page_sizes=tuple(sorted(sizes)),
        numatune=numatune,
        modes=tuple(sorted({each.mode for each in memnodes.values()})),
        # The guard leaves confidential guests, and other modes, as they are.
        needs_reboot=is_novas
        and numatune is binding.Numatune.STOCK
        and root.find('./numatune/memory[@mode="strict"]') is not None
        and root.find('./launchSecurity') is None,
    )
