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

"""The NUMA nodes of the machine, as its kernel shows them."""

import pathlib
import re

from nova_numa_guard import sets

MIB = 1 << 20
HUGE = 2 * MIB
SMALL = 4 << 10

_NODES = pathlib.Path('/sys/devices/system/node')
_POOL = 'hugepages/hugepages-2048kB'


def nodes() -> frozenset[int]:
    """All of them."""
    return sets.parse((_NODES / 'online').read_text())


def cpus(node: int) -> frozenset[int]:
    """The CPUs of a node."""
    return sets.parse((_folder(node) / 'cpulist').read_text())


def free(node: int) -> int:
    """The memory of a node that nobody has, in bytes."""
    text = (_folder(node) / 'meminfo').read_text()
    found = re.search(r'MemFree:\s+(\d+) kB', text)
    assert found is not None
    return int(found[1]) << 10


def resize_pool(node: int, pages: int) -> int:
    """Give a node so many huge pages of 2 MiB, and say how many it got."""
    pool = _folder(node) / _POOL / 'nr_hugepages'
    pool.write_text(str(pages))
    return int(pool.read_text())


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory."""
    text = pathlib.Path('/proc/vmstat').read_text()
    found = re.search(r'^oom_kill (\d+)$', text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def drop_caches() -> None:
    """Have the kernel let go of what it could read again."""
    pathlib.Path('/proc/sys/vm/drop_caches').write_text('3')


def _folder(node: int) -> pathlib.Path:
    return _NODES / f'node{node}'
