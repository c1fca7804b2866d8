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

"""What the kernel says of the QEMU process of a guest.

The files are described in Documentation/filesystems/proc.rst of the kernel's
source. The system's own libvirt writes the process's id, for each domain.
"""

import re

from nova_numa_guard import files, sets

_THREAD = re.compile(r'([0-9]+)')
_ALLOWED = re.compile(r'^Mems_allowed_list:[ \t]*(.*)$', re.M)
_ON_NODE = re.compile(r'N([0-9]+)=([0-9]+)')
_PAGE_SIZE = re.compile(r'kernelpagesize_kB=([0-9]+)')


def allowed_nodes(root: str, name: str) -> frozenset[int]:
    """The nodes that a running guest's threads may take memory from.

    It is Mems_allowed_list in proc_pid_status(5), of any thread.

    :param root: the folder below which ``proc`` and ``run`` are
    :param name: of the libvirt domain
    :raises files.UnreadableError:
    """
    pid = _pid(root, name)
    tasks = f'{root}/proc/{pid}/task'
    allowed: frozenset[int] = frozenset()
    for task in files.numbers(tasks, _THREAD):
        path = f'{tasks}/{task}/status'
        try:
            status = files.read(path)
        except files.UnreadableError as exc:
            if task == pid or exc.path.parent.exists():
                raise
            continue  # a thread that has ended since
        match = _ALLOWED.search(status)
        if match is None:
            raise files.UnreadableError(path, 'it has no Mems_allowed_list')
        try:
            allowed |= sets.parse(match[1])
        except ValueError as exc:
            raise files.UnreadableError(path, str(exc)) from exc
    return allowed


def held(root: str, name: str) -> dict[tuple[int, int], int]:
    """The huge pages that a running guest's process has touched.

    Mappings of files of one name count once, by the one with the most pages
    on the node. Mostly they are the same memory, mapped twice. Where they are
    not, the result is too small, which makes a host look fuller than it is;
    too large a one would give a guest's own pages to another. QEMU gives each
    memory backend on a hugetlbfs mount a name of its own. All its memfds have
    the same, and there Nova's guests have each on a node of its own.

    :param root: the folder below which ``proc`` and ``run`` are
    :param name: of the libvirt domain
    :returns: pages, by the host's node and page size in KiB
    :raises files.UnreadableError:
    """
    path = f'{root}/proc/{_pid(root, name)}/numa_maps'
    text = files.read(path)
    if not text:
        raise files.UnreadableError(path, 'the process has no memory')
    most: dict[tuple[str, int, int], int] = {}
    # Not split() and splitlines(): the kernel escapes in the name of a file
    # only what separates words and lines here. A policy may be two words.
    for line in text.split('\n'):
        words = line.split(' ')
        if 'huge' not in words:
            continue
        touched = list(filter(None, map(_ON_NODE.fullmatch, words)))
        if not touched:
            continue  # and then the kernel does not say the page size
        sizes = list(filter(None, map(_PAGE_SIZE.fullmatch, words)))
        if not sizes:
            raise files.UnreadableError(
                path, f'{line[:200]!r} does not say the size of its pages'
            )
        size = int(sizes[0][1])
        of = next((word for word in words if word.startswith('file=')), line)
        for match in touched:
            key = (of, int(match[1]), size)
            most[key] = max(most.get(key, 0), int(match[2]))
    pages: dict[tuple[int, int], int] = {}
    for (_, node, size), count in most.items():
        pages[node, size] = pages.get((node, size), 0) + count
    return pages


def _pid(root: str, name: str) -> int:
    path = f'{root}/run/libvirt/qemu/{name}.pid'
    return files.number(path, files.read(path))
