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

"""The 2 MiB pages of host NUMA node 0, and the CPUs beside them.

Every host of a lab has its guests there, so that a lab looks the same on a
machine with more nodes.
"""

import fcntl
import os
import pathlib
from typing import TextIO

from tests.lab.stack import errors

PAGE = 2 << 20
NODE = pathlib.Path('/sys/devices/system/node/node0')
POOL = NODE / 'hugepages' / 'hugepages-2048kB'

_lock: TextIO | None = None


def lock() -> None:
    """Keep other labs from changing the pool until this process ends.

    The kernel counts the pages of all of them together.

    :raises LabError: another process has done so
    """
    global _lock
    _lock = open(POOL / 'nr_hugepages')  # noqa: SIM115
    try:
        fcntl.flock(_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise errors.LabError(
            'the huge pages of this machine are in use by the tests of '
            'another lab, or by one that is being brought up'
        ) from None


def total() -> int:
    """Pages in the pool."""
    return _read('nr_hugepages')


def free() -> int:
    """Pages that nobody has touched."""
    return _read('free_hugepages')


def add(pages: int) -> None:
    """Make the pool larger.

    :raises LabError: the kernel has no memory for it; the pool is as before
    """
    before = total()
    _resize(before + pages)
    got = total() - before
    if got < pages:
        _resize(before)
        raise errors.LabError(
            f'{pages} more huge pages of 2 MiB are needed on host NUMA node '
            f'0, and the kernel gave {got}'
        )


def remove(pages: int) -> None:
    """Make the pool smaller by what was added."""
    _resize(max(0, total() - pages))


def cpus() -> tuple[int, int]:
    """A CPU for shared vCPUs and one for dedicated ones.

    :raises LabError: there are less than two
    """
    usable = sorted(_parse(NODE / 'cpulist') & os.sched_getaffinity(0))
    if len(usable) < 2:
        raise errors.LabError(
            f'2 CPUs are needed on host NUMA node 0, and it has {len(usable)}'
        )
    return usable[0], usable[1]


def _parse(path: pathlib.Path) -> set[int]:
    numbers: set[int] = set()
    for part in path.read_text().strip().split(','):
        first, _, last = part.partition('-')
        numbers.update(range(int(first), int(last or first) + 1))
    return numbers


def _read(name: str) -> int:
    return int((POOL / name).read_text())


def _resize(pages: int) -> None:
    (POOL / 'nr_hugepages').write_text(str(pages))
