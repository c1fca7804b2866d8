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


def _pid(root: str, name: str) -> int:
    path = f'{root}/run/libvirt/qemu/{name}.pid'
    return files.number(path, files.read(path))
