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

"""What a domain's XML needs of a host to start there.

Pure: XML in, needs out. Nova's guests are judged by their topology instead,
since that is there before the XML is.
"""

from nova_numa_guard import domain, guests


def needs(
    layout: domain.Layout, small_page: int
) -> tuple[guests.PageNeed, ...]:
    """The pages that a domain needs, by pool; those of any node are last.

    Small pages are among them where a guest cell is bound to one host node
    strictly, as the page check has it: the others may come from elsewhere.

    :param layout: of the domain
    :param small_page: the host's small page size in KiB
    :raises ValueError: it is not said how much memory the domain has, or of
        which pages
    """
    if layout.has_huge_pages and not layout.page_sizes:
        raise ValueError('<hugepages> does not say the size of a <page>')
    bound, anywhere = domain.claim(layout, small_page)
    small = guests.small_needs(
        (
            guests.GuestCell(min(memnode.nodes), layout.cells[cell], None)
            for cell, memnode in layout.memnodes.items()
            if memnode.mode in domain.STRICT
            and len(memnode.nodes) == 1
            and cell in layout.cells
            and layout.page_sizes.get(cell, 0) <= small_page
        ),
        small_page,
    )
    return (
        *bound,
        *small,
        *(
            guests.PageNeed(guests.ANY_NODE, size, pages)
            for size, pages in anywhere
        ),
    )
