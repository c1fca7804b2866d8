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

"""What the kernel tells of a process that is a guest."""

import pathlib

from tests.lab import memory


class Process:
    """A QEMU.

    :param pid: its process id
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._folder = pathlib.Path(f'/proc/{pid}')

    def allowed_nodes(self) -> frozenset[int]:
        """Where the kernel may take memory for it from."""
        return memory.allowed(self._folder, 'Mems')

    def vcpus(self) -> list[pathlib.Path]:
        """The folders of the threads that are its vCPUs."""
        return [
            thread
            for thread in (self._folder / 'task').iterdir()
            if (thread / 'comm').read_text().startswith('CPU ')
        ]

    def ram(self, size: int) -> memory.Mapping | None:
        """The guest's memory, or None as long as there is none.

        :param size: unlike that of any other mapping, in bytes
        """
        found = [one for one in memory.mappings(self.pid) if one.size == size]
        return found[0] if len(found) == 1 else None


def allowed_nodes(thread: pathlib.Path) -> frozenset[int]:
    """Where the kernel may take memory for a thread from."""
    return memory.allowed(thread, 'Mems')


def allowed_cpus(thread: pathlib.Path) -> frozenset[int]:
    """Where a thread may run."""
    return memory.allowed(thread, 'Cpus')


def last_cpu(thread: pathlib.Path) -> int:
    """Where a thread has run last."""
    # The second field is a name in parentheses, with anything in it.
    fields = (thread / 'stat').read_text().rpartition(')')[2].split()
    return int(fields[36])
