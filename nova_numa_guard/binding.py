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

"""How the memory of a domain is bound, by its ``<numatune>``.

Pure. It is what is in force for a running guest, which may have been started
by Nova's own driver, or by the guard with other options.
"""

import dataclasses
import enum

from nova_numa_guard import domain


class Numatune(enum.StrEnum):
    """Who wrote the ``<numatune>`` of a domain, by the look of it."""

    STOCK = 'stock'  # all of QEMU is bound, and each cell
    GUARD = 'guard'  # each cell is bound, and nothing else
    CONFINED = 'confined'  # all of QEMU is bound, and has no cells
    NONE = 'none'


@dataclasses.dataclass(frozen=True, slots=True)
class Binding:
    """The look of a domain's ``<numatune>``.

    :param numatune: whose it is
    :param small_nodes: the host nodes of its cells that have small pages
    """

    numatune: Numatune
    small_nodes: frozenset[int]


# By whether all of QEMU is bound, and whether cells are.
_LOOKS = {
    (True, True): Numatune.STOCK,
    (False, True): Numatune.GUARD,
    (True, False): Numatune.CONFINED,
    (False, False): Numatune.NONE,
}

NOT_BOUND = Binding(Numatune.NONE, frozenset())


def of(layout: domain.Layout, small_page: int) -> Binding:
    """How the memory of a domain is bound.

    :param small_page: the host's small page size in KiB
    """
    return Binding(
        _LOOKS[layout.is_bound, bool(layout.memnodes)],
        frozenset(
            node
            for cell, memnode in layout.memnodes.items()
            if layout.page_sizes.get(cell, 0) <= small_page
            for node in memnode.nodes
        ),
    )
