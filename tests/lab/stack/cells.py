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

"""NUMA cells that a host has only in the eyes of who reads sysfs.

libvirt, libnuma and the guard read nothing else to learn of cells. The kernel
knows better, so a guest cannot have memory of a node that is not there.
"""

from collections.abc import Sequence
import pathlib

from tests.lab.stack import errors

# What a folder made by write() is to be mounted on.
PLACE = '/sys/devices/system/node'

_DISTANCES = {True: '10', False: '20'}


def write(
    top: pathlib.Path, sizes: Sequence[int], cpus: Sequence[int]
) -> None:
    """Make a folder that looks like PLACE on a machine with some cells.

    :param sizes: MiB of memory of each of them, none of it in huge pages
    :param cpus: the CPU of each
    :raises LabError: there are more cells than CPUs
    """
    if len(sizes) > len(cpus):
        raise errors.LabError(
            f'{len(sizes)} cells need a CPU each, and there are {len(cpus)}'
        )
    for kind in ('online', 'possible', 'has_cpu', 'has_memory'):
        _put(top / kind, ','.join(str(node) for node in range(len(sizes))))
    for node, size in enumerate(sizes):
        cell, kib = top / f'node{node}', size << 10
        _put(cell / 'cpulist', str(cpus[node]))
        _put(cell / 'cpumap', _mask(cpus[node]))
        _put(
            cell / 'distance',
            ' '.join(_DISTANCES[node == n] for n in range(len(sizes))),
        )
        _put(
            cell / 'meminfo',
            f'Node {node} MemTotal: {kib} kB\nNode {node} MemFree: {kib} kB',
        )
        for count in ('nr', 'free', 'surplus'):
            _put(cell / f'hugepages/hugepages-2048kB/{count}_hugepages', '0')


def _mask(cpu: int) -> str:
    """A CPU as the kernel writes a set of them: words of 32 bits, in hex."""
    words = ['00000000'] * (cpu // 32)
    return ','.join([f'{1 << cpu % 32:08x}', *words])


def _put(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{text}\n')
