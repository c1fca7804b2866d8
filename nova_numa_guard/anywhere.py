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

"""Whether a guest's cells find pages on a host, on whichever of its nodes.

Pure. Before Nova has chosen the nodes this is all that can be told of a guest
that is to come: that it cannot, or nothing.
"""

from collections.abc import Iterable

from nova_numa_guard import availability, facts, guests, standing


def shortages(
    uuid: str,
    cells: Iterable[guests.PageNeed],
    promises: Iterable[facts.Promise],
    figures: facts.Figures,
) -> tuple[availability.Shortage, ...]:
    """What cells lack that fit on no node, by the node that has the most.

    Empty as well if it may be there in a moment. Cells are judged one by one,
    so that all of them together may still find too little.

    :param uuid: of the guest
    :param cells: what each cell of the guest needs, of whatever node
    """
    promises = tuple(promises)
    found: list[availability.Shortage] = []
    for size, pages in sorted({(c.page_size, c.pages) for c in cells}):
        lacking: list[availability.Shortage] = []
        for pool in figures.pools:
            if pool.page_size != size:
                continue
            outcome = standing.judge(
                uuid,
                (guests.PageNeed(pool.node, size, pages),),
                promises,
                figures,
            )
            if (
                outcome.verdict is not standing.Verdict.SHORT
                or outcome.doubtful
            ):
                break
            lacking += outcome.shortages
        else:
            found += sorted(lacking, key=lambda each: -each.available)[:1]
    return tuple(found)
