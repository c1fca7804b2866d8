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

"""Huge pages that Nova leaves to others: ``reserved_huge_pages``.

Pure: words in, figures out, and the other way round. The rules are those of
nova.virt.hardware.numa_get_reserved_huge_pages().
"""

from collections.abc import Iterable, Mapping

from oslo_utils import strutils, units

from nova_numa_guard import availability

Key = availability.Key


def read(entries: Iterable[Mapping[str, str]]) -> dict[Key, int]:
    """Pages by pool.

    Of several entries for one pool the last one counts.

    :param entries: each with ``node``, ``size`` (KiB, unless it has a unit)
        and ``count``
    :raises ValueError: one of them is not that
    """
    pages = {}
    for entry in entries:
        try:
            key = int(entry['node']), _kib(entry['size'])
            pages[key] = int(entry['count'])
        except (KeyError, TypeError, ValueError) as exc:
            words = ','.join(f'{key}:{word}' for key, word in entry.items())
            raise ValueError(
                f'{words!r} is not like node:0,size:2048,count:64'
            ) from exc
    return pages


def text(pages: Mapping[Key, int]) -> list[str]:
    """The lines for nova.conf, by pool; none for pools without a reserve."""
    return [
        f'reserved_huge_pages = node:{node},size:{size},count:{count}'
        for (node, size), count in sorted(pages.items())
        if count > 0
    ]


def covering(
    configured: Mapping[Key, int], unaccounted: Mapping[Key, int]
) -> dict[Key, int]:
    """The reserve that covers what others hold, and is not less than now."""
    return {
        key: max(configured.get(key, 0), unaccounted.get(key, 0))
        for key in configured.keys() | unaccounted.keys()
    }


def _kib(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(strutils.string_to_bytes(text, return_int=True)) // units.Ki
