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

"""The host's NUMA nodes and huge pages, as the kernel's files have them.

The files are described in Documentation/admin-guide/mm/hugetlbpage.rst and
Documentation/ABI/stable/sysfs-devices-node of the kernel's source. Everything
is read below a root folder, so that a test or a container can show another
machine's files.
"""

from collections.abc import Callable
import os
import pathlib
import re

from oslo_log import log as logging
from oslo_utils import strutils, units

from nova_numa_guard import availability, files, processes

LOG = logging.getLogger(__name__)

# KiB, of this machine.
SMALL_PAGE = os.sysconf('SC_PAGESIZE') // units.Ki

_NODE = re.compile(r'node(\d+)')
_PAGES = re.compile(r'hugepages-(\d+)kB')
_MOUNT_SIZE = re.compile(r'(?:^|,)pagesize=(\d+[KMG])(?:,|$)')
_MEMORY = re.compile(r'^Node [0-9]+ (\w+): +([0-9]+) kB$', re.M)
_ESCAPE = re.compile(r'\\([0-7]{3})')

UnreadableError = files.UnreadableError


class Kernel:
    """The kernel's counts of pages, read anew at every call.

    The files of sysfs stay open, see :class:`nova_numa_guard.files.KeptFiles`.
    Folders are listed anew, which is cheap: a NUMA node or a page size that
    comes or goes is seen at the next call. Threads may share a kernel.

    :param root: the folder below which ``sys``, ``proc`` and ``run`` are

    ``small_page`` is the size of the machine's small pages, in KiB.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = '/',
        statvfs: Callable[[str], os.statvfs_result] = os.statvfs,
    ) -> None:
        self.root = pathlib.Path(root)
        # As a string, because making paths would take most of the time.
        self._root = str(self.root).rstrip('/')
        self._sys = f'{self._root}/sys'
        self.small_page = SMALL_PAGE
        self._files = files.KeptFiles()
        self._statvfs = statvfs
        self._unasked: set[str] = set()

    def close(self) -> None:
        """Let go of the files; the next call opens what it needs again."""
        self._files.close()

    def nodes(self) -> tuple[int, ...]:
        """The ids of the host's NUMA nodes, which may be sparse.

        :raises UnreadableError:
        """
        top = f'{self._sys}/devices/system/node'
        found = files.numbers(top, _NODE)
        if not found:
            raise UnreadableError(top, 'it lists no NUMA node')
        return found

    def pools(self, page_size: int | None = None) -> list[availability.Pool]:
        """The pools of every node, by node and size.

        A node that does not know a page size has no pool of it.

        :param page_size: KiB; every size if it is None
        :raises UnreadableError:
        """
        found = []
        for node in self.nodes():
            top = f'{self._sys}/devices/system/node/node{node}/hugepages'
            if page_size is None:
                # On older kernels only nodes with memory have this folder.
                sizes = files.numbers(top, _PAGES, optional=True)
                found += [self._pool(top, node, size) for size in sizes]
                continue
            try:
                found.append(self._pool(top, node, page_size))
            except UnreadableError:
                # Looked for only now: of a pool that is there all is read.
                if page_size in files.numbers(top, _PAGES, optional=True):
                    raise
        return found

    def _pool(self, top: str, node: int, size: int) -> availability.Pool:
        pool = f'{top}/hugepages-{size}kB'
        return availability.Pool(
            node=node,
            page_size=size,
            total=self._count(f'{pool}/nr_hugepages'),
            free=self._count(f'{pool}/free_hugepages'),
            surplus=self._count(f'{pool}/surplus_hugepages'),
        )

    def small_pool(self, node: int) -> availability.Pool:
        """The small pages of a node, for a guest that is bound to it.

        Free is what the kernel can give without swapping: what MemAvailable
        in Documentation/filesystems/proc.rst begins with, but of one node,
        and without the little that the kernel keeps for itself. FilePages
        has tmpfs in it (Shmem), which cannot be dropped. Total has the pools
        of huge pages in it.

        :param node: id of the host's NUMA node
        :raises UnreadableError:
        """
        path = f'{self._sys}/devices/system/node/node{node}/meminfo'
        memory = dict(_MEMORY.findall(self._read(path)))
        try:
            total, free, cache, shared, slab = (
                int(memory[line])
                for line in (
                    'MemTotal',
                    'MemFree',
                    'FilePages',
                    'Shmem',
                    'SReclaimable',
                )
            )
        except KeyError as exc:
            raise UnreadableError(path, f'it has no {exc.args[0]}') from exc
        reclaimable = cache - shared + slab
        return availability.Pool(
            node=node,
            page_size=self.small_page,
            total=total // self.small_page,
            free=max(0, free + reclaimable) // self.small_page,
            small=True,
            reclaimable=max(0, reclaimable) // self.small_page,
        )

    def bound(self, page_size: int) -> availability.Bound:
        """What limits a page size that the host knows, on the whole host.

        :param page_size: KiB
        :raises UnreadableError:
        """
        top = f'{self._sys}/kernel/mm/hugepages/hugepages-{page_size}kB'
        return availability.Bound(
            reserved=self._count(f'{top}/resv_hugepages'),
            overcommit=self._count(f'{top}/nr_overcommit_hugepages'),
            mount_free=self._mount_free(page_size),
        )

    def swap(self) -> int:
        """KiB of swap that the host has, whether used or not.

        :raises UnreadableError:
        """
        path = f'{self._root}/proc/meminfo'
        match = re.search(r'^SwapTotal: +(\d+) kB$', files.read(path), re.M)
        if match is None:
            raise UnreadableError(path, 'it has no SwapTotal')
        return int(match[1])

    def allowed_nodes(self, name: str) -> frozenset[int]:
        """The nodes that a running guest's threads may take memory from.

        It is Mems_allowed_list in proc_pid_status(5), of any thread.

        :param name: of the libvirt domain, on the system's own libvirt
        :raises UnreadableError:
        """
        return processes.allowed_nodes(self._root, name)

    def held(self, name: str) -> dict[tuple[int, int], int]:
        """The huge pages that a running guest's process has touched.

        The kernel walks the page tables of the whole process for it: with
        small pages in them that takes long, and is not for every start. It
        takes the right to trace the process.

        :param name: of the libvirt domain, on the system's own libvirt
        :returns: pages, by the host's node and page size in KiB
        :raises UnreadableError:
        """
        return processes.held(self._root, name)

    def _mount_free(self, page_size: int) -> int | None:
        """Pages that hugetlbfs mounts may still give out; None: no limit.

        Of several mounts with limits the roomiest counts, because which of
        them libvirt takes is its own affair. One that may not be asked, such
        as another tool's in a folder of its own, limits nothing.
        """
        mounts = f'{self._root}/proc/self/mounts'
        options = {
            _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), path): option
            for line in files.read(mounts).split('\n')
            if line.count(' ') >= 3
            for _, path, kind, option, *_ in (line.split(' '),)
            if kind == 'hugetlbfs'
        }
        limits = []
        for path, option in options.items():
            size = _MOUNT_SIZE.search(option)
            if size and _kib(size[1]) != page_size:
                continue  # which need not be ours to look at
            try:
                stat = self._statvfs(path)
            except OSError as exc:
                if path not in self._unasked:
                    self._unasked.add(path)
                    LOG.warning(
                        'The limit of the hugetlbfs mount %s is not known, '
                        'and taken for none: %s',
                        path,
                        exc,
                    )
                return None
            if stat.f_bsize != page_size * units.Ki:
                continue
            if stat.f_blocks <= 0:  # hugetlbfs says 0 or -1 for "no limit"
                return None
            limits.append(stat.f_bavail)
        return max(limits, default=None)

    def _count(self, path: str) -> int:
        return files.number(path, self._read(path))

    def _read(self, path: str) -> str:
        try:
            return self._files.read(path)
        except OSError as exc:
            raise files.unreadable(path, exc) from exc


def _kib(text: str) -> int:
    """KiB of a size as the kernel writes it, such as 2M."""
    size = strutils.string_to_bytes(f'{text}iB', return_int=True)
    return int(size) // units.Ki
