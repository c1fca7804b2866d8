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

"""What Nova sees of a guest that it migrates, and what arrives."""

import inspect

from lxml import etree
from nova import objects
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import migration as nova_migration

from nova_numa_guard import confinement, tuning, writing
from nova_numa_guard.virt import migration
from tests.unit import base, samples

Policy = tuning.SmallPagePolicy


class FakeGuest:
    """A running guest, as nova.virt.libvirt.guest.Guest shows it."""

    def __init__(self, xml):
        self.xml = xml
        self.asked = []
        self.migrated = []
        self.uuid = 'uuid'

    def get_xml_desc(
        self, dump_inactive=False, dump_sensitive=False, dump_migratable=False
    ):
        self.asked.append((dump_inactive, dump_sensitive, dump_migratable))
        return self.xml

    def migrate(self, destination, **kwargs):
        self.migrated.append((destination, kwargs))


class MigratingGuestTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.stock = samples.domain_xml((0, 1 << 20, None), (1, 1 << 20, 2048))
        self.instance = samples.instance(
            samples.guest_cell(node=0), samples.guest_cell(node=1)
        )

    def guest(self, policy, written=writing.STOCK):
        self.fake = FakeGuest(tuning.apply(self.stock, policy))
        return migration.MigratingGuest(self.fake, self.instance, written)


class ShownTest(MigratingGuestTestCase):
    def test_its_xml_is_novas(self):
        for policy in Policy:
            guest = self.guest(policy)
            self.assertEqual(
                etree.canonicalize(
                    tuning.restore(self.fake.xml, {0: 0, 1: 1})
                ),
                etree.canonicalize(guest.get_xml_desc()),
            )
            self.assertIn('<memory mode="strict"', guest.get_xml_desc())

    def test_how_it_is_asked_is_passed_on(self):
        guest = self.guest(Policy.AUTO)
        guest.get_xml_desc(dump_migratable=True)
        guest.get_xml_desc(True, dump_sensitive=True)
        self.assertEqual(
            [(False, False, True), (True, True, False)], self.fake.asked
        )

    def test_everything_else_is_the_guests(self):
        guest = self.guest(Policy.AUTO)
        self.assertEqual('uuid', guest.uuid)
        guest.migrate('dest', flags=1)
        self.assertEqual(
            [('dest', {'flags': 1, 'destination_xml': None})],
            self.fake.migrated,
        )
        self.assertRaises(AttributeError, getattr, guest, 'no_such')

    def test_a_guest_that_nova_started_is_not_changed(self):
        for xml in (self.stock, samples.domain_xml(), samples.LIBVIRT_XML):
            guest = migration.MigratingGuest(
                FakeGuest(xml), self.instance, writing.STOCK
            )
            self.assertIs(xml, guest.get_xml_desc())

    def test_a_confined_guest_leaves_its_confinement_behind(self):
        """The destination may have no such cells, or be stock."""
        stock = samples.domain_xml()
        for mode in confinement.Mode:
            fake = FakeGuest(
                confinement.apply(
                    stock,
                    confinement.Confinement(
                        frozenset({1}), frozenset({16}), mode
                    ),
                )
            )
            self.assertIn(mode.value, fake.xml)
            root = etree.fromstring(
                migration.MigratingGuest(
                    fake, samples.instance(), writing.STOCK
                ).get_xml_desc()
            )
            self.assertIsNone(root.find('numatune'))
            # Nova writes the CPUs anew where the guest arrives.
            self.assertEqual('16', root.find('vcpu').get('cpuset'))

    def test_novas_guest_has_what_is_overridden(self):
        self.assertEqual(
            ['self', 'dump_inactive', 'dump_sensitive', 'dump_migratable'],
            list(
                inspect.signature(libvirt_guest.Guest.get_xml_desc).parameters
            ),
        )
        self.assertIn(
            'destination_xml',
            inspect.signature(libvirt_guest.Guest.migrate).parameters,
        )

    def test_nova_writes_the_destinations_xml(self):
        """get_updated_guest_xml as a whole, and not one of its parts."""
        for policy in Policy:
            data = objects.LibvirtLiveMigrateData(
                bdms=[],
                serial_listen_addr=None,
                serial_listen_ports=[],
                supported_perf_events=[],
                dst_numa_info=objects.LibvirtLiveMigrateNUMAInfo(
                    cpu_pins={str(cpu): {20 + cpu} for cpu in range(4)},
                    cell_pins={'0': {1}, '1': {0}},
                    emulator_pins={20},
                ),
            )
            instance = samples.instance(flavor=objects.Flavor(extra_specs={}))
            written = nova_migration.get_updated_guest_xml(
                instance, self.guest(policy), data, None
            )
            numatune = etree.fromstring(written).find('numatune')
            self.assertEqual(
                [
                    {'mode': 'strict', 'nodeset': '0-1'},
                    {'cellid': '0', 'mode': 'strict', 'nodeset': '1'},
                    {'cellid': '1', 'mode': 'strict', 'nodeset': '0'},
                ],
                [dict(element.attrib) for element in numatune],
            )


class SentTest(MigratingGuestTestCase):
    """The XML that Nova has written for the destination."""

    def sent(self, written, xml=None):
        guest = self.guest(Policy.AUTO, written)
        guest.migrate('dest', destination_xml=xml or self.stock)
        [(_, kwargs)] = self.fake.migrated
        return kwargs['destination_xml']

    def test_to_a_host_that_writes_as_nova_does(self):
        self.assertIs(self.stock, self.sent(writing.STOCK))

    def test_to_a_host_with_the_guard(self):
        for policy in Policy:
            self.assertEqual(
                tuning.apply(self.stock, policy),
                self.sent(writing.Writing(policy)),
            )

    def test_the_flavor_has_a_say(self):
        self.instance.flavor.extra_specs = {'numa_guard:mem_policy': 'local'}
        self.assertEqual(
            tuning.apply(self.stock, Policy.LOCAL),
            self.sent(writing.Writing(Policy.STRICT)),
        )
        self.assertIs(self.stock, self.sent(writing.STOCK))

    def test_to_other_floating_cells(self):
        stock = samples.domain_xml()
        there = confinement.Confinement(frozenset({2}), frozenset({8, 9}))
        self.assertEqual(
            confinement.apply(stock, there),
            self.sent(writing.Writing(floating=there), stock),
        )

    def test_what_cannot_be_read_stays_novas(self):
        for junk in ('<network/>', 'junk'):
            self.log.records.clear()
            self.assertIs(junk, self.sent(writing.Writing(Policy.AUTO), junk))
            self.assertEqual(1, len(self.log.at('WARNING')))
