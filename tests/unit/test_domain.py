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

"""The <numatune> of a domain, before and after the guard."""

import hypothesis
from hypothesis import strategies as st

from nova_numa_guard import domain, guests, tuning
from tests.unit import base, samples

CELL = st.tuples(
    st.sampled_from([0, 1, 16, 17]),
    st.integers(1, 4).map(lambda n: n * samples.GIANT),
    st.sampled_from([None, samples.HUGE, samples.GIANT]),
)
CELLS = st.lists(CELL, min_size=1, max_size=6)
SMALL = (0, 1048576, None)
BIG = (1, 1048576, 2048)


def cells_of(xml):
    """The guest cells that are bound to one host node."""
    layout = domain.read(xml)
    return tuple(
        guests.GuestCell(
            *memnode.nodes, layout.cells[cell], layout.page_sizes.get(cell)
        )
        for cell, memnode in layout.memnodes.items()
    )


def claim(xml):
    return domain.claim(domain.read(xml), 4)


class ReadCellsTest(base.TestCase):
    def test_cells_as_nova_writes_them(self):
        self.assertEqual(
            (
                guests.GuestCell(0, 1048576, None),
                guests.GuestCell(1, 1048576, 2048),
            ),
            cells_of(samples.domain_xml(SMALL, BIG)),
        )

    def test_cells_as_libvirt_prints_them(self):
        self.assertEqual(
            (
                guests.GuestCell(0, 1048576, 2048),
                guests.GuestCell(1, 1048576, None),
            ),
            cells_of(samples.LIBVIRT_XML),
        )

    @hypothesis.given(CELLS)
    def test_what_nova_was_asked_for_is_what_is_read(self, cells):
        self.assertEqual(
            tuple(guests.GuestCell(*cell) for cell in cells),
            cells_of(samples.domain_xml(*cells)),
        )

    def test_a_floating_guest_has_no_cells(self):
        self.assertEqual((), cells_of(samples.domain_xml()))

    def test_guest_cells_without_numatune_are_not_bound(self):
        """Nova writes these where the host has no NUMA."""
        config = samples.guest_config(SMALL)
        config.numatune = None
        self.assertEqual((), cells_of(config.to_xml()))

    def read(self, backing, cells=4):
        return {
            cell.node: cell.page_size
            for cell in cells_of(
                samples.domain_text(
                    backing=f'<hugepages>{backing}</hugepages>',
                    cells='<cell memory="1048576"/>' * cells,
                    numatune=''.join(
                        f'<memnode cellid="{i}" mode="strict" nodeset="{i}"/>'
                        for i in range(cells)
                    ),
                )
            )
        }

    def test_pages_for_no_cell_in_particular(self):
        self.assertEqual(
            dict.fromkeys(range(4), 2048),
            self.read('<page size="2048" unit="KiB"/>'),
        )

    def test_pages_for_the_cells_that_no_other_names(self):
        self.assertEqual(
            {0: 2048, 1: 1048576, 2: 2048, 3: 2048},
            self.read(
                '<page size="2048" unit="KiB"/>'
                '<page size="1" unit="GiB" nodeset="1"/>'
            ),
        )

    def test_libvirts_lists_of_cells(self):
        for nodeset, expected in (
            ('0', {0}),
            ('0-1', {0, 1}),
            ('0-1,^1', {0}),
            ('0,2-3', {0, 2, 3}),
            ('0-3,^1-2', {0, 3}),
            (' 1 , 3 ', {1, 3}),
            ('0-3,^2,2', {0, 1, 2, 3}),
        ):
            sizes = self.read(
                f'<page size="2048" unit="KiB" nodeset="{nodeset}"/>'
            )
            self.assertEqual(
                expected, {cell for cell, size in sizes.items() if size}
            )

    def test_several_sizes(self):
        self.assertEqual(
            {0: 2048, 1: 1048576, 2: 1048576, 3: None},
            self.read(
                '<page size="2048" nodeset="0" unit="KiB"/>'
                '<page size="1048576" nodeset="1" unit="KiB"/>'
                '<page size="1048576" nodeset="2" unit="KiB"/>'
            ),
        )

    def test_libvirts_units(self):
        """https://libvirt.org/formatdomain.html#memory-allocation"""
        for value, unit in (
            (1048576, None),
            (1048576, 'KiB'),
            (1048576, 'k'),
            (1024, 'MiB'),
            (1024, 'M'),
            (1, 'GiB'),
            (1, 'G'),
            (1073741824, 'b'),
            (1073741824, 'bytes'),
            (1099511627776 // 1024, 'bytes'),
        ):
            unit = f'unit="{unit}"' if unit else ''
            self.assertEqual(
                {0: 1048576},
                self.read(f'<page size="{value}" {unit}/>', cells=1),
                unit,
            )
        self.assertEqual(
            {0: 1 << 30}, self.read('<page size="1" unit="TiB"/>', cells=1)
        )
        self.assertEqual(
            {0: 1000}, self.read('<page size="1024" unit="KB"/>', cells=1)
        )
        # What is less than a KiB is one, as libvirt rounds it.
        self.assertEqual(
            {0: 2}, self.read('<page size="1025" unit="b"/>', cells=1)
        )

    def test_junk_is_a_value_error(self):
        memnode = '<memnode cellid="0" mode="strict" nodeset="0"/>'
        cell = '<cell id="0" memory="1024"/>'
        for xml in (
            '',
            'junk',
            '<domain>',
            '<domainsnapshot/>',
            '<domain/><domain/>',
            '\ud800',
            samples.domain_text(numatune='<memnode/>', cells=cell),
            samples.domain_text(
                numatune='<memnode cellid="x" nodeset="0"/>', cells=cell
            ),
            samples.domain_text(
                numatune='<memnode cellid="0" nodeset="x"/>', cells=cell
            ),
            samples.domain_text(numatune=memnode, cells='<cell id="0"/>'),
            samples.domain_text(
                numatune=memnode, cells='<cell memory="1" unit="stone"/>'
            ),
            samples.domain_text(
                numatune=memnode, cells='<cell memory="much"/>'
            ),
            samples.domain_text(
                numatune=memnode,
                cells=cell,
                backing='<hugepages><page/></hugepages>',
            ),
            samples.domain_text(
                numatune=memnode,
                cells=cell,
                backing='<hugepages><page size="4" nodeset=""/></hugepages>',
            ),
        ):
            self.assertRaises(ValueError, cells_of, xml)


class ReadClaimTest(base.TestCase):
    """Pages by pool, and pages of no certain node."""

    NODE_1 = '<memnode cellid="0" mode="strict" nodeset="1"/>'
    TWO_MIB = '<page size="2048" nodeset="0"/>'

    def claim(
        self, page=TWO_MIB, numatune=NODE_1, kib=5120, extra='', default=None
    ):
        """Of a domain with one guest cell."""
        xml = samples.domain_text(
            backing=f'<hugepages>{page}</hugepages>',
            numatune=numatune,
            cells=kib and f'<cell id="0" memory="{kib}"/>',
            extra=extra,
        )
        return domain.claim(domain.read(xml), 4, default)

    @hypothesis.given(CELLS)
    def test_a_guest_of_novas_claims_what_it_needs(self, cells):
        xml = samples.domain_xml(*cells)
        needs = guests.page_needs([guests.GuestCell(*c) for c in cells], 4)
        for written in (xml, tuning.apply(xml, tuning.SmallPagePolicy.LOCAL)):
            self.assertEqual((needs, ()), claim(written))

    def test_cells_of_one_node_are_summed_and_ids_may_be_sparse(self):
        self.assertEqual(
            ((guests.PageNeed(17, 2048, 3),), ()),
            claim(samples.domain_xml((17, 2048, 2048), (17, 4096, 2048))),
        )

    def test_what_libvirt_prints(self):
        self.assertEqual(
            ((guests.PageNeed(0, 2048, 512),), ()),
            claim(samples.LIBVIRT_XML),
        )

    def test_a_guest_without_huge_pages(self):
        self.assertEqual(((), ()), claim(samples.domain_xml()))
        self.assertEqual(((), ()), self.claim('<page size="4"/>'))

    def test_begun_pages_are_whole_ones(self):
        self.assertEqual(((guests.PageNeed(1, 2048, 3),), ()), self.claim())

    def test_pages_of_no_certain_node(self):
        for numatune in (
            '',
            '<memory mode="strict" nodeset="1"/>',
            '<memnode cellid="0" mode="strict" nodeset="0-1"/>',
            '<memnode cellid="0" mode="preferred" nodeset="1"/>',
            '<memnode cellid="1" mode="strict" nodeset="1"/>',
        ):
            self.assertEqual(
                ((), ((2048, 3),)), self.claim(numatune=numatune), numatune
            )

    def test_strict_is_the_mode_where_none_is_named(self):
        bound = ((guests.PageNeed(1, 2048, 3),), ())
        for mode in ('', 'mode="restrictive"'):
            memnode = f'<memnode cellid="0" {mode} nodeset="1"/>'
            self.assertEqual(bound, self.claim(numatune=memnode))

    def test_no_guest_cells(self):
        whole = '<memory unit="MiB">5</memory>'
        for page in ('<page size="2048"/>', self.TWO_MIB):
            self.assertEqual(
                ((), ((2048, 3),)),
                self.claim(page, numatune='', kib='', extra=whole),
            )
        self.assertRaises(ValueError, self.claim, kib='')

    def test_a_page_size_that_is_not_named(self):
        whole = '<memory>5120</memory>'
        for default, pages in ((None, 0), (2048, 3), (1048576, 1)):
            bound = (guests.PageNeed(1, default, pages),) if pages else ()
            loose = ((default, pages),) if pages else ()
            self.assertEqual((bound, ()), self.claim('', default=default))
            self.assertEqual(
                ((), loose),
                self.claim('', '', kib='', extra=whole, default=default),
            )

    def test_this_is_no_domain(self):
        for xml in ('', '<network/>', samples.LIBVIRT_XML[:-9]):
            self.assertRaises(ValueError, domain.read, xml)
