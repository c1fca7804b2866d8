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

"""Copies of /sys: of real machines, and of others made up.

The ones in trees/ were printed by trees/record: that with one node on a
virtual machine, those with two and with eight on Debian's kernel 6.1 under
QEMU (qemu64, which has no pages of 1 GiB). Huge pages were there for nodes 0,
1 and 7, of which a process had mapped five and touched two.
"""

import pathlib

from nova_numa_guard import fixture

_RECORDED = pathlib.Path(__file__).parent / 'trees'
KIB_64 = 64


def recorded(name, folder):
    """Write the files of a real machine, and return where.

    :param name: of a file in trees/
    :param folder: pathlib.Path
    """
    for entry in (_RECORDED / name).read_text().split('== ')[1:]:
        path, _, content = entry.partition('\n')
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return folder


class Sparse(fixture.KernelFixture):
    """Nodes 0 and 8 only, as POWER machines have; ``tree`` is /sys."""

    def _setUp(self):
        super()._setUp()
        self.tree = self.root / 'sys'
        for node in (0, 8):
            self.set_pool(node, 2048, total=100, free=100 - 10 * node)
            self.set_memory(node, total=1 << 20, free=1 << 18)
        self.set_bound(2048)


class BigPages(fixture.KernelFixture):
    """A machine with small pages of 64 KiB; ``tree`` is /sys."""

    def _setUp(self):
        super()._setUp()
        self.tree = self.root / 'sys'
        for node in (0, 1):
            self.set_memory(
                node,
                total=64 << 20,
                free=30 << 20,
                file_cache=1 << 20,
                reclaimable=1 << 19,
                small_page=KIB_64,
            )
        for size in (2048, 524288, 16777216):
            self.set_bound(size)
        self.set_pool(0, 2048, total=1024, free=1000)
        self.set_pool(0, 524288, total=20, free=12)
        self.set_pool(0, 16777216, total=1, free=1)
        self.set_pool(1, 2048, total=0, free=0)
        self.set_pool(1, 524288, total=8, free=8)
        self.set_pool(1, 16777216, total=1, free=0)
