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

"""A copy of a machine's /sys: what it says of nodes and pages.

Somebody has collected it, on a machine that need not be this one. The files
are described in Documentation/ABI/stable/sysfs-devices-node of the kernel's
source.
"""

import math
import os
import re

from nova_numa_guard import files, pools

_FREE = re.compile(r'^Node [0-9]+ (?:MemFree|FilePages): +([0-9]+) kB$', re.M)
_FREE_PAGES = re.compile(r'^(?:nr_free_pages|nr_file_pages) ([0-9]+)$', re.M)


class Kernel(pools.Kernel):
    """The counts of pages in a folder that mirrors /sys.

    Processes and mounts are not in it: nothing is known of what guests hold,
    and no mount is known to limit them.

    :param folder: the one that has ``devices`` and ``kernel`` in it
    :raises nova_numa_guard.pools.UnreadableError: it lists no NUMA node
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        super().__init__(folder)
        self._sys = self._root
        self.small_page = next(
            filter(None, map(self._small_page_of, self.nodes())),
            pools.SMALL_PAGE,
        )

    def allowed_nodes(self, name: str) -> frozenset[int]:
        raise self._unknown(name)

    def held(self, name: str) -> dict[tuple[int, int], int]:
        raise self._unknown(name)

    def _unknown(self, name: str) -> files.UnreadableError:
        return files.UnreadableError(
            self.root, f'the process of {name} is not in it'
        )

    def _mount_free(self, page_size: int) -> int | None:
        return None

    def _small_page_of(self, node: int) -> int:
        """KiB of a small page; 0 if it cannot be told from this node's files.

        The kernel does not write it anywhere in /sys, but counts the same
        memory in KiB in one file and in pages in another. They may be of two
        moments, hence the nearest power of two.
        """
        top = f'{self._sys}/devices/system/node/node{node}'
        try:
            kib, pages = (
                sum(map(int, pattern.findall(files.read(f'{top}/{name}'))))
                for name, pattern in (
                    ('meminfo', _FREE),
                    ('vmstat', _FREE_PAGES),
                )
            )
        except files.UnreadableError:
            return 0
        if not (kib and pages):
            return 0  # it has no memory
        return 1 << max(0, round(math.log2(kib / pages)))
