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

"""Where the small pages of a running guest are.

A guest whose memory is ``preferred`` on a node spills to others when that one
is full, and the kernel does not move it back. numa_maps would say where it is,
but walks the guest's page tables; memory.numa_stat of its cgroup is a file of
counters. Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst of
the kernel's source describe it, and https://libvirt.org/cgroups.html the names
of the cgroups.
"""

from collections.abc import Collection, Mapping
import os
import pathlib
import re

from oslo_utils import units

from nova_numa_guard import pools

_NODES = r'((?: N\d+=\d+)+)$'
_NODE = re.compile(r'N(\d+)=(\d+)')
# Version 2 counts in bytes, and what is below a cgroup as well. Version 1
# counts in pages and, in a line of its own, what is below.
_BYTES = re.compile(rf'^anon{_NODES}', re.M)
_PAGES = (
    re.compile(rf'^hierarchical_anon=\d+{_NODES}', re.M),
    re.compile(rf'^anon=\d+{_NODES}', re.M),
)
# qemu-7-instance-00000007.libvirt-qemu, or what systemd makes of it:
# machine-qemu\x2d7\x2dinstance\x2d00000007.scope.
_MACHINE = re.compile(r'(?:^|-)qemu-\d+-')


def parse(
    text: str, page_size: int = pools.SMALL_PAGE * units.Ki
) -> dict[int, int]:
    """Bytes of anonymous memory by node, of a memory.numa_stat.

    :param page_size: bytes; the smallest of the host
    :raises ValueError: it is no memory.numa_stat
    """
    unit, match = 1, _BYTES.search(text)
    for pattern in _PAGES:
        if match is None:
            unit, match = page_size, pattern.search(text)
    if match is None:
        raise ValueError('it has no anonymous memory by node')
    return {
        int(node): int(count) * unit for node, count in _NODE.findall(match[1])
    }


def elsewhere(
    memory: Mapping[int, int], own: Collection[int]
) -> dict[int, int]:
    """What a guest has on nodes that are not its own.

    :param memory: bytes by node, of :func:`parse`
    :param own: ids of the host's nodes on which its cells with small pages are
    :returns: bytes by node; a node of which it has none counts 0
    """
    return {node: size for node, size in memory.items() if node not in own}


def anonymous(name: str, root: str | os.PathLike[str] = '/') -> dict[int, int]:
    """Bytes of anonymous memory that a running guest has, by node.

    Huge pages are not in it, nor is shared memory. QEMU's own memory is.

    :param name: of the libvirt domain, on the system's own libvirt
    :param root: the folder below which ``sys``, ``proc`` and ``run`` are
    :raises nova_numa_guard.pools.UnreadableError:
    """
    top = pathlib.Path(root)
    pid_file = top / f'run/libvirt/qemu/{name}.pid'
    pid = _read(pid_file).strip()
    if not (pid.isascii() and pid.isdigit()):
        raise pools.UnreadableError(pid_file, f'{pid[:40]!r} is no process')
    path = _cgroup(top, pid) / 'memory.numa_stat'
    try:
        return parse(_read(path))
    except ValueError as exc:
        raise pools.UnreadableError(path, str(exc)) from exc


def _cgroup(root: pathlib.Path, pid: str) -> pathlib.Path:
    """The folder of a QEMU process's domain, where its memory is counted.

    The process itself is in a cgroup below it, of the emulator's threads.
    """
    path = root / f'proc/{pid}/cgroup'
    places = {
        controller: place
        for line in _read(path).splitlines()
        if line.count(':') >= 2
        for _, controllers, place in (line.split(':', 2),)
        for controller in controllers.split(',')
    }
    # Where both versions are in use, the memory is with version 1.
    controller = 'memory' if 'memory' in places else ''
    parts = places.get(controller, '').strip('/').split('/')
    machines = [
        i
        for i, part in enumerate(parts)
        if _MACHINE.search(part.replace(r'\x2d', '-'))
    ]
    if not machines or '..' in parts:
        # Without a cgroup of its own it is in libvirtd's, whose figures are
        # those of others too; one outside of this container is not seen.
        raise pools.UnreadableError(path, 'it names no cgroup of a machine')
    return pathlib.Path(
        root, 'sys/fs/cgroup', controller, *parts[: machines[-1] + 1]
    )


def _read(path: pathlib.Path) -> str:
    try:
        return os.fsdecode(path.read_bytes())
    except OSError as exc:
        raise pools.UnreadableError(path, exc.strerror or str(exc)) from exc
