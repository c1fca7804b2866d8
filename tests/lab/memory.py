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

"""Where the kernel has put the memory of a process."""

import dataclasses
import pathlib

from nova_numa_guard import sets


@dataclasses.dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping of a process.

    :param size: bytes
    :param policy: such as default, bind:0 or prefer:0
    :param file: empty if there is none
    :param huge: whether it consists of huge pages
    :param pages: by node, those that have been touched
    """

    size: int
    policy: str
    file: str
    huge: bool
    pages: dict[int, int]


def mappings(pid: int) -> list[Mapping]:
    """All mappings of a process.

    Documentation/filesystems/proc.rst of the kernel's source describes maps,
    and numa(7) numa_maps. The latter has no sizes.
    """
    folder = pathlib.Path(f'/proc/{pid}')
    ends = {}
    for line in (folder / 'maps').read_text().splitlines():
        start, _, end = line.split()[0].partition('-')
        ends[start] = int(end, 16)
    return [
        _parse(line, ends)
        for line in (folder / 'numa_maps').read_text().splitlines()
        if line.split()[0] in ends
    ]


def allowed_nodes(pid: int) -> set[frozenset[int]]:
    """The nodes that the threads of a process may take memory from.

    It is one set for each kind of thread.
    """
    threads = pathlib.Path(f'/proc/{pid}/task').iterdir()
    return {allowed(thread, 'Mems') for thread in threads}


def allowed(folder: pathlib.Path, what: str) -> frozenset[int]:
    """Where a thread may run, or take memory from.

    :param folder: of the process or the thread, below /proc
    :param what: Cpus or Mems, as proc_pid_status(5) has them
    """
    for line in (folder / 'status').read_text().splitlines():
        name, _, value = line.partition(':')
        if name == f'{what}_allowed_list':
            return sets.parse(value)
    raise AssertionError(f'{folder} has no {what}_allowed_list')


def _parse(line: str, ends: dict[str, int]) -> Mapping:
    # A policy may have a space in it: prefer (many):0
    start, policy, *rest = line.replace('prefer (many)', 'prefer-many').split()
    values = dict(word.split('=', 1) for word in rest if '=' in word)
    return Mapping(
        size=ends[start] - int(start, 16),
        policy=policy,
        file=values.get('file', ''),
        huge='huge' in rest,
        pages={
            int(name[1:]): int(value)
            for name, value in values.items()
            if name[0] == 'N' and name[1:].isdigit()
        },
    )
