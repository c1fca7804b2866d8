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

"""What of the guard is left in a guest."""

import hypothesis
from hypothesis import strategies as st
from lxml import etree
from nova import objects
from nova.virt.libvirt import migration

from nova_numa_guard import confinement, domain, leaving, tuning
from tests.unit import base, samples
from tests.unit.test_tuning import BIG, CELLS, POLICIES, SMALL

Policy = tuning.SmallPagePolicy
State, Trace = leaving.State, leaving.Trace


def guarded(*cells, policy=Policy.AUTO):
    return tuning.apply(samples.domain_xml(*cells), policy)


def kept(xml, name='instance-1', state=State.RUNNING):
    return leaving.Kept(name, 'uuid', state, xml)


def can_migrate(xml, cells):
    """Whether Nova's own driver can rewrite it for another host."""
    info = objects.LibvirtLiveMigrateNUMAInfo(
        cpu_pins={str(cpu): {20 + cpu} for cpu in range(2 * len(cells))},
        cell_pins={str(i): {0} for i in range(len(cells))},
        emulator_pins={20},
    )
    try:
        migration._update_numa_xml(
            etree.fromstring(xml),
            objects.LibvirtLiveMigrateData(dst_numa_info=info),
        )
    except AttributeError:
        return False
    return True


class TraceTest(base.TestCase):
    @hypothesis.given(cells=CELLS, policy=POLICIES, how=st.integers(0, 2))
    def test_it_says_what_nova_can_migrate(self, cells, policy, how):
        """By Nova's own function: stock XML, the guard's, and restored."""
        xml = samples.domain_xml(*cells)
        if how:
            xml = tuning.apply(xml, policy)
        if how == 2:
            xml = tuning.restore(
                xml, {i: node for i, (node, _, _) in enumerate(cells)}
            )
        found = leaving.trace(xml)
        self.assertEqual(can_migrate(xml, cells), found is not Trace.UNBOUND)
        # The guard drops <memory> of each guest that it writes.
        self.assertEqual(Trace.UNBOUND if how == 1 else Trace.NONE, found)

    def test_memory_is_there_and_a_memnode_is_not(self):
        xml = samples.domain_xml(SMALL, BIG)
        root = etree.fromstring(xml)
        domain.remove(root.find('./numatune/memnode[@cellid="1"]'))
        self.assertIs(Trace.UNBOUND, leaving.trace(root))

    def test_only_the_mode_differs(self):
        xml = samples.domain_xml(SMALL, BIG).replace(
            'cellid="0" mode="strict"', 'cellid="0" mode="preferred"'
        )
        self.assertIn('preferred', xml)
        self.assertIs(Trace.PREFERRED, leaving.trace(xml))
        self.assertTrue(can_migrate(xml, [SMALL, BIG]))

    def test_confidential_guests_have_novas(self):
        xml = samples.domain_xml(SMALL).replace(
            '</domain>', '<launchSecurity type="sev"/></domain>'
        )
        self.assertIs(
            Trace.NONE, leaving.trace(tuning.apply(xml, Policy.AUTO))
        )

    def test_floating_guests(self):
        xml = samples.domain_xml()
        self.assertIs(Trace.NONE, leaving.trace(xml))
        for mode in confinement.Mode:
            confined = confinement.apply(
                xml,
                confinement.Confinement(frozenset({0}), frozenset({1}), mode),
            )
            self.assertIs(Trace.CONFINED, leaving.trace(confined))
            released = confinement.release(confined)
            self.assertIs(Trace.NONE, leaving.trace(released))

    def test_what_libvirt_prints(self):
        xml = samples.LIBVIRT_XML
        self.assertIs(Trace.NONE, leaving.trace(xml))
        self.assertIs(
            Trace.UNBOUND, leaving.trace(tuning.apply(xml, Policy.AUTO))
        )

    def test_not_a_domain(self):
        self.assertRaises(ValueError, leaving.trace, '<network/>')


class FindingsTest(base.TestCase):
    def test_in_the_order_of_names(self):
        found = leaving.findings(
            [
                kept(guarded(SMALL), 'instance-2'),
                kept(samples.domain_xml(SMALL), 'instance-1'),
            ]
        )
        self.assertEqual(
            [('instance-1', Trace.NONE), ('instance-2', Trace.UNBOUND)],
            [(each.kept.name, each.trace) for each in found],
        )

    def test_what_was_not_read(self):
        unread = leaving.Kept('name', 'uuid', State.SUSPENDED, None, 'why')
        [found] = leaving.findings([unread])
        self.assertEqual(leaving.Finding(unread, Trace.UNREADABLE), found)

    def test_what_is_no_domain(self):
        [found] = leaving.findings([kept('<domain')])
        self.assertIs(Trace.UNREADABLE, found.trace)
        self.assertIn('not the XML of a domain', found.kept.error)


class LooksTest(base.TestCase):
    def root(self, **values):
        return etree.fromstring(samples.nova_guest(SMALL, **values))

    def test_nova_made_it(self):
        self.assertTrue(leaving.is_novas(self.root()))

    def test_something_else_made_it(self):
        for xml in (
            samples.LIBVIRT_XML,
            samples.domain_text(extra='<metadata><!-- nova --></metadata>'),
            samples.domain_text(
                extra='<metadata><instance xmlns="http://example.org/"/>'
                '</metadata>'
            ),
        ):
            self.assertFalse(leaving.is_novas(etree.fromstring(xml)))

    def test_rescue(self):
        self.assertFalse(leaving.is_rescue(self.root()))
        self.assertTrue(leaving.is_rescue(self.root(disk='disk.rescue')))
        for source, answer in (
            ('<source protocol="rbd" name="vms/uuid_disk.rescue"/>', True),
            ('<source dev="/dev/vms/uuid_disk.rescue"/>', True),
            ('<source dev="/dev/vms/uuid_disk"/>', False),
        ):
            xml = samples.domain_text(devices=f'<disk>{source}</disk>')
            self.assertIs(answer, leaving.is_rescue(etree.fromstring(xml)))
