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

"""The one reader of the kernel's NUMA and huge-page files.

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

from nova_numa_guard import availability, sets

LOG = logging.getLogger(__name__)

# KiB, of this machine.
SMALL_PAGE = os.sysconf('SC_PAGESIZE') // units.Ki

_NODE = re.compile(r'node(\d+)')
_PAGES = re.compile(r'hugepages-(\d+)kB')
_MOUNT_SIZE = re.compile(r'(?:^|,)pagesize=(\d+[KMG])(?:,|$)')
_THREAD = re.compile(r'(\d+)')
_ALLOWED = re.compile(r'^Mems_allowed_list:[ \t]*(.*)$', re.M)
_ESCAPE = re.compile(r'\\([0-7]{3})')


class UnreadableError(Exception):
    """A file of the kernel is missing, or does not hold what it should.

    :param path: the file
    :param reason: in words
    """

    def __init__(self, path: pathlib.Path, reason: str) -> None:
        super().__init__(f'cannot read {path}: {reason}')
        self.path = path
        self.reason = reason


class Kernel:
    """The kernel's counts of huge pages, read anew at every call.

    :param root: the folder below which ``sys`` and ``proc`` are
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = '/',
        statvfs: Callable[[str], os.statvfs_result] = os.statvfs,
    ) -> None:
        self.root = pathlib.Path(root)
        self._statvfs = statvfs
        self._unasked: set[str] = set()

    def nodes(self) -> tuple[int, ...]:
        """The ids of the host's NUMA nodes, which may be sparse.

        :raises UnreadableError:
        """
        top = self.root / 'sys/devices/system/node'
        found = self._numbers(top, _NODE)
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
            top = self.root / f'sys/devices/system/node/node{node}/hugepages'
            # On older kernels only nodes with memory have this folder.
            for size in self._numbers(top, _PAGES, optional=True):
                if page_size not in (None, size):
                    continue
                pool = top / f'hugepages-{size}kB'
                found.append(
                    availability.Pool(
                        node=node,
                        page_size=size,
                        total=self._count(pool / 'nr_hugepages'),
                        free=self._count(pool / 'free_hugepages'),
                        surplus=self._count(pool / 'surplus_hugepages'),
                    )
                )
        return found

    def bound(self, page_size: int) -> availability.Bound:
        """What limits a page size that the host knows, on the whole host.

        :param page_size: KiB
        :raises UnreadableError:
        """
        top = self.root / f'sys/kernel/mm/hugepages/hugepages-{page_size}kB'
        return availability.Bound(
            reserved=self._count(top / 'resv_hugepages'),
            overcommit=self._count(top / 'nr_overcommit_hugepages'),
            mount_free=self._mount_free(page_size),
        )

    def swap(self) -> int:
        """KiB of swap that the host has, whether used or not.

        :raises UnreadableError:
        """
        path = self.root / 'proc/meminfo'
        match = re.search(r'^SwapTotal: +(\d+) kB$', self._read(path), re.M)
        if match is None:
            raise UnreadableError(path, 'it has no SwapTotal')
        return int(match[1])

    def allowed_nodes(self, name: str) -> frozenset[int]:
        """The nodes that a running guest's threads may take memory from.

        It is Mems_allowed_list in proc_pid_status(5), of any thread.

        :param name: of the libvirt domain, on the system's own libvirt
        :raises UnreadableError:
        """
        pid = self._count(self.root / f'run/libvirt/qemu/{name}.pid')
        tasks = self.root / f'proc/{pid}/task'
        allowed: frozenset[int] = frozenset()
        for task in self._numbers(tasks, _THREAD):
            path = tasks / f'{task}/status'
            try:
                status = self._read(path)
            except UnreadableError:
                if task == pid or path.parent.exists():
                    raise
                continue  # a thread that has ended since
            match = _ALLOWED.search(status)
            if match is None:
                raise UnreadableError(path, 'it has no Mems_allowed_list')
            try:
                allowed |= sets.parse(match[1])
            except ValueError as exc:
                raise UnreadableError(path, str(exc)) from exc
        return allowed

    def _mount_free(self, page_size: int) -> int | None:
        """Pages that hugetlbfs mounts may still give out; None: no limit.

        Of several mounts with limits the roomiest counts, because which of
        them libvirt takes is its own affair. One that may not be asked, such
        as another tool's in a folder of its own, limits nothing.
        """
        mounts = self.root / 'proc/self/mounts'
        options = {
            _ESCAPE.sub(lambda octal: chr(int(octal[1], 8)), path): option
            for line in self._read(mounts).split('\n')
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

    def _numbers(
        self,
        folder: pathlib.Path,
        name: re.Pattern[str],
        optional: bool = False,
    ) -> tuple[int, ...]:
        """The numbers in the names of a folder's entries, in order."""
        try:
            entries = os.listdir(folder)
        except OSError as exc:
            if optional and isinstance(exc, FileNotFoundError):
                return ()
            raise UnreadableError(folder, exc.strerror or str(exc)) from exc
        matches = map(name.fullmatch, entries)
        return tuple(sorted(int(match[1]) for match in matches if match))

    def _count(self, path: pathlib.Path) -> int:
        text = self._read(path).strip()
        if not (text.isascii() and text.isdigit()):
            raise UnreadableError(
                path, f'{text[:40]!r} is not a number of pages'
            )
        return int(text)

    @staticmethod
    def _read(path: pathlib.Path) -> str:
        try:
            return os.fsdecode(path.read_bytes())
        except OSError as exc:
            raise UnreadableError(path, exc.strerror or str(exc)) from exc


def _kib(text: str) -> int:
    """KiB of a size as the kernel writes it, such as 2M."""
    size = strutils.string_to_bytes(f'{text}iB', return_int=True)
    return int(size) // units.Ki
