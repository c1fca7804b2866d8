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

"""A fixture for tests of any project: another machine's kernel files.

It needs the library ``fixtures``, which the guard itself does not.
"""

from collections.abc import Mapping
import pathlib

import fixtures

from nova_numa_guard import pools


class KernelFixture(fixtures.Fixture):
    """A folder with the kernel's huge-page files, and a reader of it.

    After setUp, ``root`` is the folder and ``kernel`` reads it. It begins
    without a NUMA node, and without a hugetlbfs mount.
    """

    root: pathlib.Path
    kernel: pools.Kernel

    def _setUp(self) -> None:
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.kernel = pools.Kernel(self.root)
        self.addCleanup(self.kernel.close)
        self._write('proc/self/mounts', '')

    def set_pool(
        self,
        node: int,
        page_size: int,
        total: int,
        free: int,
        surplus: int = 0,
    ) -> None:
        """Make a pool, or change it; sizes are in KiB, counts in pages."""
        pool = self._pool(node, page_size)
        self._write(f'{pool}/nr_hugepages', total)
        self._write(f'{pool}/free_hugepages', free)
        self._write(f'{pool}/surplus_hugepages', surplus)

    def set_bound(
        self, page_size: int, reserved: int = 0, overcommit: int = 0
    ) -> None:
        """Set the host-wide counts of a page size."""
        top = f'sys/kernel/mm/hugepages/hugepages-{page_size}kB'
        self._write(f'{top}/resv_hugepages', reserved)
        self._write(f'{top}/nr_overcommit_hugepages', overcommit)

    def steal(self, node: int, page_size: int, pages: int) -> None:
        """Take free pages, as a process that Nova does not know would."""
        name = f'{self._pool(node, page_size)}/free_hugepages'
        free = int((self.root / name).read_text())
        self._write(name, free - pages)

    def set_memory(
        self,
        node: int,
        total: int,
        free: int,
        file_cache: int = 0,
        shared: int = 0,
        reclaimable: int = 0,
        small_page: int = pools.SMALL_PAGE,
    ) -> None:
        """Set the memory of a node, in KiB.

        :param file_cache: of files, which the kernel can drop
        :param shared: tmpfs, which it cannot; beside file_cache, although
            the kernel's FilePages counts both
        :param reclaimable: what the kernel has in slabs and can drop
        :param small_page: the machine's small page size
        """
        lines = {
            'MemTotal': total,
            'MemFree': free,
            'MemUsed': total - free,
            'Active(file)': file_cache,
            'Inactive(anon)': shared,
            'FilePages': file_cache + shared,
            'Shmem': shared,
            'KReclaimable': reclaimable,
            'Slab': reclaimable,
            'SReclaimable': reclaimable,
        }
        text = [
            f'Node {node} {f"{name}:":<15} {kib:8} kB'
            for name, kib in lines.items()
        ]
        text.append(f'Node {node} HugePages_Total: {0:5}')
        top = f'sys/devices/system/node/node{node}'
        self._write(f'{top}/meminfo', '\n'.join(text))
        self._write(
            f'{top}/vmstat',
            f'nr_free_pages {free // small_page}\n'
            f'nr_file_pages {(file_cache + shared) // small_page}',
        )

    def set_process(
        self,
        name: str,
        pid: int,
        held: Mapping[tuple[int, int], int] | None = None,
    ) -> None:
        """Make the QEMU process of a running libvirt domain, or change it.

        :param name: of the domain
        :param held: huge pages that the process has touched, by host node and
            page size in KiB; a memory backend bound to the node for each
        """
        lines = [
            '55d0c8a00000 default file=/usr/bin/qemu-system-x86_64'
            ' mapped=812 active=0 N0=812 kernelpagesize_kB=4',
            '55d0ca3f1000 default heap'
            ' anon=2410 dirty=2410 N0=2410 kernelpagesize_kB=4',
            # A policy of two words, in transparent huge pages.
            '7ef000000000 prefer (many):0'
            ' anon=1024 dirty=1024 N0=1000 N1=24 kernelpagesize_kB=4',
        ]
        for index, ((node, size), pages) in enumerate((held or {}).items()):
            file = (
                f'/dev/hugepages{size}/libvirt/qemu/1-{name}'
                f'/qemu_back_mem.ram-node{index}.Ab{index:04}'
                r'\040(deleted)'
            )
            line = f'7f{index:04x}000000 bind:{node} file={file} huge'
            if pages:
                line += f' dirty={pages} N{node}={pages}'
                line += f' kernelpagesize_kB={size}'
            lines.append(line)
        lines += [
            '7fff8a000000 default file=/usr/lib/libc.so.6',
            '7fffc1000000 default stack'
            ' anon=9 dirty=9 N0=9 kernelpagesize_kB=4',
        ]
        self._write(f'run/libvirt/qemu/{name}.pid', pid)
        self._write(f'proc/{pid}/numa_maps', '\n'.join(lines))

    @staticmethod
    def _pool(node: int, page_size: int) -> str:
        return (
            f'sys/devices/system/node/node{node}/hugepages/'
            f'hugepages-{page_size}kB'
        )

    def _write(self, name: str, content: object) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{content}\n')
