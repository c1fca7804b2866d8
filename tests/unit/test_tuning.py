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

import difflib

import hypothesis
from hypothesis import strategies as st
from lxml import etree
from nova import objects
from nova.virt import hardware
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import migration

from nova_numa_guard import domain, guests, tuning
from tests.unit import base, samples

Policy = tuning.SmallPagePolicy

CELL = st.tuples(
    st.sampled_from([0, 1, 16, 17]),
    st.integers(1, 4).map(lambda n: n * samples.GIANT),
    st.sampled_from([None, samples.HUGE, samples.GIANT]),
)
CELLS = st.lists(CELL, min_size=1, max_size=6)
POLICIES = st.sampled_from(Policy)

SMALL = (0, 1048576, None)
BIG = (1, 1048576, 2048)


def numatune(xml):
    """The <numatune>, or None, as (tag, mode, cell, host nodes)."""
    found = etree.fromstring(xml).find('numatune')
    if found is None:
        return None
    return [
        (
            element.tag,
            element.get('mode'),
            element.get('cellid'),
            hardware.parse_cpu_spec(element.get('nodeset')),
        )
        for element in found
    ]


def all_but_numatune(xml):
    return etree.canonicalize(xml, strip_text=True, exclude_tags=['numatune'])


def changed_lines(before, after):
    """The lines that came and went, byte by byte."""
    return [
        line
        for line in difflib.ndiff(before.split('\n'), after.split('\n'))
        if line[0] in '+-'
    ]


def nodes_of(cells):
    return {i: node for i, (node, _, _) in enumerate(cells)}


def needs(xml):
    return domain.claim(domain.read(xml), 4)[0]


class ApplyTest(base.TestCase):
    def assert_unchanged(self, xml):
        for policy in Policy:
            self.assertIs(xml, tuning.apply(xml, policy))

    def test_small_pages(self):
        xml = samples.domain_xml(SMALL)
        for policy, mode in (
            (Policy.AUTO, 'preferred'),
            (Policy.PREFERRED, 'preferred'),
            (Policy.STRICT, 'strict'),
        ):
            self.assertEqual(
                [('memnode', mode, '0', {0})],
                numatune(tuning.apply(xml, policy)),
            )

    def test_local_small_pages_have_no_binding_at_all(self):
        xml = tuning.apply(samples.domain_xml(SMALL), Policy.LOCAL)
        self.assertNotIn('numatune', xml)

    def test_huge_pages_stay_strict_whatever_the_policy(self):
        for policy in Policy:
            self.assertEqual(
                [('memnode', 'strict', '0', {1})],
                numatune(tuning.apply(samples.domain_xml(BIG), policy)),
            )

    def test_mixed_cells(self):
        xml = samples.domain_xml(SMALL, BIG, SMALL)
        self.assertEqual(
            [
                ('memnode', 'preferred', '0', {0}),
                ('memnode', 'strict', '1', {1}),
                ('memnode', 'preferred', '2', {0}),
            ],
            numatune(tuning.apply(xml, Policy.AUTO)),
        )
        self.assertEqual(
            [('memnode', 'strict', '1', {1})],
            numatune(tuning.apply(xml, Policy.LOCAL)),
        )

    def test_the_lines_that_change(self):
        xml = samples.domain_xml(SMALL, BIG)
        memory = '-     <memory mode="strict" nodeset="0-1"/>'
        before = '-     <memnode cellid="0" mode="strict" nodeset="0"/>'
        after = '+     <memnode cellid="0" mode="preferred" nodeset="0"/>'
        self.assertEqual(
            [memory, before, after],
            changed_lines(xml, tuning.apply(xml, Policy.AUTO)),
        )
        self.assertEqual(
            [memory], changed_lines(xml, tuning.apply(xml, Policy.STRICT))
        )
        self.assertEqual(
            [memory, before],
            changed_lines(xml, tuning.apply(xml, Policy.LOCAL)),
        )

    def test_a_last_line_that_is_gone(self):
        xml = samples.domain_xml(BIG, SMALL)
        self.assertEqual(
            [
                '-     <memory mode="strict" nodeset="0-1"/>',
                '-     <memnode cellid="1" mode="strict" nodeset="0"/>',
            ],
            changed_lines(xml, tuning.apply(xml, Policy.LOCAL)),
        )

    def test_a_numatune_that_is_gone_leaves_no_line(self):
        xml = samples.domain_xml(SMALL)
        self.assertEqual(
            [
                '-   <numatune>',
                '-     <memory mode="strict" nodeset="0"/>',
                '-     <memnode cellid="0" mode="strict" nodeset="0"/>',
                '-   </numatune>',
            ],
            changed_lines(xml, tuning.apply(xml, Policy.LOCAL)),
        )

    @hypothesis.given(CELLS, POLICIES)
    def test_nothing_else_changes(self, cells, policy):
        before = samples.domain_xml(*cells)
        after = tuning.apply(before, policy)
        self.assertEqual(all_but_numatune(before), all_but_numatune(after))
        for line in changed_lines(before, after):
            self.assertRegex(line[2:], r'^ +</?(numatune|memory|memnode)\b')

    @hypothesis.given(CELLS, POLICIES)
    def test_twice_is_once(self, cells, policy):
        once = tuning.apply(samples.domain_xml(*cells), policy)
        self.assertEqual(once, tuning.apply(once, policy))

    @hypothesis.given(CELLS, POLICIES)
    def test_no_strict_memory_and_strict_huge_cells(self, cells, policy):
        after = numatune(tuning.apply(samples.domain_xml(*cells), policy))
        for tag, mode, cell, nodes in after or ():
            self.assertEqual('memnode', tag)
            self.assertEqual({cells[int(cell)][0]}, nodes)
            if cells[int(cell)][2]:
                self.assertEqual('strict', mode)
        bound = {int(cell) for _, _, cell, _ in after or ()}
        huge = {i for i, (_, _, size) in enumerate(cells) if size}
        self.assertEqual(set(), huge - bound)
        if policy is not Policy.LOCAL:
            self.assertEqual(set(range(len(cells))), bound)

    @hypothesis.given(CELLS, POLICIES)
    def test_page_needs_are_the_same(self, cells, policy):
        before = samples.domain_xml(*cells)
        self.assertEqual(needs(before), needs(tuning.apply(before, policy)))
        self.assertEqual(
            guests.page_needs([guests.GuestCell(*c) for c in cells], 4),
            needs(before),
        )

    def test_floating_guests(self):
        self.assert_unchanged(samples.domain_xml())

    def test_numatune_without_memnodes(self):
        """What confines a guest as a whole is not the guard's affair."""
        self.assert_unchanged(
            samples.domain_text(numatune='<memory mode="strict" nodeset="0"/>')
        )

    def test_memory_of_another_mode_stays(self):
        """libvirt wants restrictive in <memory> and <memnode> alike."""
        xml = samples.domain_text(
            numatune='<memory mode="restrictive" nodeset="0"/>'
            '<memnode cellid="0" mode="restrictive" nodeset="0"/>',
            cells='<cell memory="1024"/>',
        )
        self.assertIn(
            ('memory', 'restrictive', None, {0}),
            numatune(tuning.apply(xml, Policy.STRICT)),
        )

    def test_confidential_guests_byte_for_byte(self):
        """AMD SEV, AMD SEV-SNP and Intel TDX, as Nova names them."""
        plain = samples.guest_config(SMALL, BIG).to_xml()
        for kind in ('sev', 'sev-snp', 'tdx'):
            self.assert_unchanged(
                plain.replace(
                    '</domain>',
                    f'  <launchSecurity type="{kind}"/>\n</domain>',
                )
            )

    def test_text_that_is_not_ascii(self):
        config = samples.guest_config(SMALL)
        config.name = 'Gästemaschine \u2603 <&> "quoted"'
        xml = config.to_xml()
        self.assertIn('Gästemaschine', xml)
        after = tuning.apply(xml, Policy.AUTO)
        self.assertEqual(3, len(changed_lines(xml, after)))
        self.assertEqual(all_but_numatune(xml), all_but_numatune(after))

    def test_without_indents(self):
        xml = samples.guest_config(SMALL, BIG).to_xml(pretty_print=False)
        for policy in Policy:
            after = tuning.apply(xml, policy)
            self.assertNotIn('\n', after)
            self.assertEqual(
                numatune(tuning.apply(samples.domain_xml(SMALL, BIG), policy)),
                numatune(after),
            )

    def test_namespaces(self):
        qemu = 'http://libvirt.org/schemas/domain/qemu/1.0'
        xml = samples.domain_xml(SMALL).replace(
            '</domain>',
            f'  <q:commandline xmlns:q="{qemu}"><q:arg value="-S"/>'
            '</q:commandline>\n</domain>',
        )
        after = tuning.apply(xml, Policy.AUTO)
        self.assertIn(f'<q:commandline xmlns:q="{qemu}"><q:arg', after)
        self.assertEqual(3, len(changed_lines(xml, after)))

    def test_libvirts_own_form(self):
        self.assertEqual(
            [
                ('memnode', 'strict', '0', {0}),
                ('memnode', 'preferred', '1', {1}),
            ],
            numatune(tuning.apply(samples.LIBVIRT_XML, Policy.AUTO)),
        )

    def test_junk_is_a_value_error(self):
        for xml in ('', 'junk', '<network/>', '<domain><numatune>'):
            self.assertRaises(ValueError, tuning.apply, xml, Policy.AUTO)

    def test_a_bad_memnode_is_a_value_error(self):
        xml = samples.domain_text(numatune='<memnode mode="strict"/>')
        self.assertRaises(ValueError, tuning.apply, xml, Policy.AUTO)


class AutoPolicyTest(base.TestCase):
    """Strict for guests whose memory is all allocated when they start."""

    def setUp(self):
        super().setUp()
        self.guest = samples.guest_config(SMALL, BIG)

    def mode(self):
        after = tuning.apply(self.guest.to_xml(), Policy.AUTO)
        modes = [mode for _, mode, cell, _ in numatune(after) if cell == '0']
        self.assertEqual(1, len(modes))
        return modes[0]

    def test_an_ordinary_guest(self):
        self.assertEqual('preferred', self.mode())

    def test_locked_memory(self):
        """hw:locked_memory"""
        self.guest.membacking.locked = True
        self.assertEqual('strict', self.mode())

    def test_realtime(self):
        self.guest.membacking.locked = True
        self.guest.membacking.sharedpages = False
        self.assertEqual('strict', self.mode())

    def test_unshared_pages_alone_allocate_nothing(self):
        self.guest.membacking.sharedpages = False
        self.assertEqual('preferred', self.mode())

    def test_memory_that_is_allocated_at_once(self):
        """[libvirt] file_backed_memory"""
        self.guest.membacking.filesource = True
        self.guest.membacking.sharedaccess = True
        self.guest.membacking.allocateimmediate = True
        self.assertEqual('strict', self.mode())

    def test_memory_that_is_allocated_on_demand(self):
        self.assertEqual(
            'preferred',
            numatune(
                tuning.apply(
                    samples.domain_text(
                        backing='<allocation mode="ondemand"/>',
                        numatune='<memnode cellid="0" mode="strict" '
                        'nodeset="0"/>',
                    ),
                    Policy.AUTO,
                )
            )[0][1],
        )

    def test_a_passed_through_pci_device(self):
        device = vconfig.LibvirtConfigGuestHostdevPCI()
        device.domain, device.bus = '0000', '81'
        device.slot, device.function = '00', '1'
        self.guest.add_device(device)
        self.assertEqual('strict', self.mode())

    def test_a_mediated_device(self):
        """Its driver pins the pages that it uses, and no others."""
        device = vconfig.LibvirtConfigGuestHostdevMDEV()
        device.uuid = self.guest.uuid
        self.guest.add_device(device)
        self.assertEqual('preferred', self.mode())

    def test_interfaces(self):
        for kind, mode in (
            ('hostdev', 'strict'),
            ('vdpa', 'strict'),
            ('bridge', 'preferred'),
            ('vhostuser', 'preferred'),
            ('direct', 'preferred'),
        ):
            guest = samples.guest_config(SMALL, BIG)
            vif = vconfig.LibvirtConfigGuestInterface()
            vif.net_type = kind
            vif.mac_addr = '52:54:00:00:00:01'
            vif.source_dev = '0000:81:00.1'
            vif.vhostuser_type = 'unix'
            vif.vhostuser_path = '/run/socket'
            vif.vhostuser_mode = 'server'
            guest.add_device(vif)
            self.guest = guest
            self.assertIn(f'<interface type="{kind}"', guest.to_xml())
            self.assertEqual(mode, self.mode(), kind)

    def test_a_policy_that_is_named_is_kept(self):
        self.guest.membacking.locked = True
        after = tuning.apply(self.guest.to_xml(), Policy.PREFERRED)
        self.assertEqual('preferred', numatune(after)[0][1])


class RestoreTest(base.TestCase):
    @hypothesis.given(CELLS, POLICIES)
    def test_what_apply_changed(self, cells, policy):
        stock = samples.domain_xml(*cells)
        restored = tuning.restore(tuning.apply(stock, policy), nodes_of(cells))
        self.assertEqual(numatune(stock), numatune(restored))
        self.assertEqual(all_but_numatune(stock), all_but_numatune(restored))

    @hypothesis.given(CELLS)
    def test_stock_is_returned_as_it_is(self, cells):
        stock = samples.domain_xml(*cells)
        self.assertIs(stock, tuning.restore(stock, nodes_of(cells)))

    def test_a_floating_guest_is_returned_as_it_is(self):
        xml = samples.domain_xml()
        self.assertIs(xml, tuning.restore(xml, {}))

    @hypothesis.given(CELLS, POLICIES, st.data())
    def test_nova_can_migrate_it(self, cells, policy, data):
        """Nova's own function rewrites it just as it rewrites stock XML."""
        pins = st.sampled_from([0, 1, 2, 3])
        info = objects.LibvirtLiveMigrateNUMAInfo(
            cpu_pins={str(cpu): {20 + cpu} for cpu in range(2 * len(cells))},
            cell_pins={str(i): {data.draw(pins)} for i in range(len(cells))},
            emulator_pins={20, 21},
        )
        data = objects.LibvirtLiveMigrateData(dst_numa_info=info)
        stock = samples.domain_xml(*cells)
        restored = tuning.restore(tuning.apply(stock, policy), nodes_of(cells))
        after, expected = (
            etree.tostring(
                migration._update_numa_xml(etree.fromstring(xml), data),
                encoding='unicode',
            )
            for xml in (restored, stock)
        )
        self.assertEqual(numatune(expected), numatune(after))
        self.assertEqual(all_but_numatune(expected), all_but_numatune(after))

    def test_without_it_nova_cannot(self):
        """If this fails, Nova has learnt it, and restore may go."""
        info = objects.LibvirtLiveMigrateNUMAInfo(
            cpu_pins={'0': {20}}, cell_pins={'0': {0}}, emulator_pins={20}
        )
        guarded = tuning.apply(samples.domain_xml(SMALL), Policy.AUTO)
        self.assertRaises(
            AttributeError,
            migration._update_numa_xml,
            etree.fromstring(guarded),
            objects.LibvirtLiveMigrateData(dst_numa_info=info),
        )

    def test_libvirts_own_form(self):
        guarded = tuning.apply(samples.LIBVIRT_XML, Policy.LOCAL)
        self.assertEqual(
            numatune(samples.LIBVIRT_XML),
            numatune(tuning.restore(guarded, {0: 0, 1: 1})),
        )

    def test_the_domain_is_right_and_not_the_instance(self):
        """Where the domain names a node, that is where its memory is."""
        guarded = tuning.apply(samples.domain_xml(BIG), Policy.AUTO)
        self.assertEqual(
            [('memory', 'strict', None, {1}), ('memnode', 'strict', '0', {1})],
            numatune(tuning.restore(guarded, {0: 16})),
        )

    def test_a_cell_that_nobody_knows_is_left_alone(self):
        guarded = tuning.apply(samples.domain_xml(BIG, SMALL), Policy.LOCAL)
        self.assertIs(guarded, tuning.restore(guarded, {}))

    def test_a_memnode_of_several_nodes(self):
        xml = samples.domain_text(
            numatune='<memnode cellid="0" mode="strict" nodeset="0-1"/>',
            cells='<cell id="0" memory="1024"/>',
        )
        self.assertEqual(
            [
                ('memory', 'strict', None, {0, 1}),
                ('memnode', 'strict', '0', {0, 1}),
            ],
            numatune(tuning.restore(xml, {})),
        )

    def test_junk_is_a_value_error(self):
        for xml in ('', 'junk', '<pool/>'):
            self.assertRaises(ValueError, tuning.restore, xml, {0: 0})
