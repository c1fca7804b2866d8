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

"""Sets of CPUs and NUMA nodes as libvirt, the kernel and Nova write them.

``0-3,8`` and, in libvirt and in Nova, ``0-3,^2``. The kernel describes its
form in Documentation/admin-guide/cputopology.rst.
"""

from collections.abc import Iterable

# More than the kernel can count of either; a larger number is a slip.
LARGEST = 1 << 16


def parse(text: str) -> frozenset[int]:
    """The numbers in a set.

    :raises ValueError: it is not a set of numbers
    """
    if text.isascii() and text.isdigit() and int(text) <= LARGEST:
        return frozenset((int(text),))  # at once, being by far the most
    chosen: set[int] = set()
    for part in text.split(','):
        first, dash, last = part.strip().lstrip('^').partition('-')
        try:
            start = int(first)
            end = int(last) if dash else start
        except ValueError as exc:
            raise ValueError(f'not a set of numbers: {text!r}') from exc
        if not 0 <= start <= end <= LARGEST:
            raise ValueError(f'not a set of numbers: {text!r}')
        span = set(range(start, end + 1))
        chosen = chosen - span if '^' in part else chosen | span
    return frozenset(chosen)


def text(numbers: Iterable[int]) -> str:
    """Write a set, with runs of numbers as ranges."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ','.join(
        str(first) if first == last else f'{first}-{last}'
        for first, last in runs
    )
