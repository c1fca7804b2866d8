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

"""What is read of libvirt, asked of libvirt's own test driver."""

import pathlib
from unittest import mock

import fixtures
import libvirt

from nova_numa_guard import leaving
from nova_numa_guard.status import domains
from tests.unit import base, samples
from tests.unit.status import hosts
from tests.unit.virt import domains as fakes

State, Trace = leaving.State, leaving.Trace


class DomainsTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(hosts.Libvirt())
        self.instances = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        # What the command has, and not a connection that could do more.
        self.connection = domains.open_read_only(hosts.URI)
        self.addCleanup(self.connection.close)

    def found(self):
        return [
            (each.kept.name, each.kept.state, each.trace)
            for each in leaving.findings(
                domains.kept(self.connection, self.instances)
            )
        ]

    def test_it_can_change_nothing(self):
        self.libvirt.guest(hosts.HUGE)
        [found] = self.connection.listAllDomains()
        exc = self.assertRaises(libvirt.libvirtError, found.destroy)
        self.assertEqual(
            libvirt.VIR_ERR_OPERATION_DENIED, exc.get_error_code()
        )

    def test_running_and_paused(self):
        self.libvirt.guest(hosts.HUGE)
        self.libvirt.guest(hosts.SMALL, name='instance-2').suspend()
        self.libvirt.guest(hosts.HUGE, name='instance-3', write=str)
        self.assertEqual(
            [
                ('instance-1', State.RUNNING, Trace.UNBOUND),
                ('instance-2', State.RUNNING, Trace.UNBOUND),
                ('instance-3', State.RUNNING, Trace.NONE),
            ],
            self.found(),
        )

    def test_the_server_is_named_by_the_domain(self):
        guest = self.libvirt.guest(hosts.HUGE)
        [kept] = domains.kept(self.connection, self.instances)
        self.assertEqual(guest.UUIDString(), kept.uuid)

    def test_shut_off(self):
        """Nova makes its XML anew."""
        self.libvirt.guest(hosts.HUGE).destroy()
        self.assertEqual(1, len(self.connection.listAllDomains()))
        self.assertEqual([], self.found())

    def test_domains_that_nova_did_not_make(self):
        xml = hosts.guarded(samples.LIBVIRT_XML).replace('kvm', 'test')
        xml = xml.replace('<vcpu', '<os><type>hvm</type></os><vcpu')
        self.libvirt.connection.defineXML(xml).create()
        self.assertEqual([], self.found())

    def test_suspended_and_the_image_cannot_be_read(self):
        """The test driver keeps such images, and does not show them."""
        self.libvirt.guest(hosts.HUGE).managedSave()
        self.assertEqual(
            [('instance-1', State.SUSPENDED, Trace.UNREADABLE)], self.found()
        )
        [kept] = domains.kept(self.connection, self.instances)
        self.assertIn('not supported', kept.error)

    def test_suspended(self):
        """What libvirt starts with is the image's, and not the domain's."""
        guest = self.libvirt.guest(hosts.HUGE)
        xml = guest.XMLDesc()
        guest.managedSave()
        for image, trace in (
            (xml, Trace.UNBOUND),
            (samples.nova_guest(hosts.HUGE), Trace.NONE),
        ):
            with mock.patch.object(
                libvirt.virDomain, 'managedSaveGetXMLDesc', return_value=image
            ):
                self.assertEqual(
                    [('instance-1', State.SUSPENDED, trace)], self.found()
                )

    def rescue(self, before, running=True):
        guest = self.libvirt.guest(hosts.HUGE, disk='disk.rescue', write=str)
        folder = self.instances / guest.UUIDString()
        folder.mkdir()
        if before is not None:
            (folder / 'unrescue.xml').write_bytes(before)
        if not running:
            guest.destroy()

    def test_in_rescue(self):
        """It comes back with the XML that it had, whatever runs meanwhile."""
        for running in (True, False):
            self.libvirt._clear()
            self.rescue(
                hosts.guarded(samples.nova_guest(hosts.HUGE)).encode(),
                running,
            )
            self.assertEqual(
                [('instance-1', State.RESCUED, Trace.UNBOUND)], self.found()
            )

    def test_in_rescue_with_what_nova_wrote(self):
        self.rescue(samples.nova_guest(hosts.HUGE).encode())
        self.assertEqual(
            [('instance-1', State.RESCUED, Trace.NONE)], self.found()
        )

    def test_in_rescue_and_the_file_cannot_be_read(self):
        for before in (None, b'', b'\xff\xfe\xff'):
            self.libvirt._clear()
            self.rescue(before)
            self.assertEqual(
                [('instance-1', State.RESCUED, Trace.UNREADABLE)],
                self.found(),
            )

    def test_one_that_is_gone_meanwhile(self):
        """Any call may be the first to notice."""
        self.libvirt.guest(hosts.HUGE)
        for call in ('XMLDesc', 'isActive'):
            for error, is_passed in (
                (fakes.GONE, True),
                (fakes.BROKEN, False),
            ):
                with mock.patch.object(
                    libvirt.virDomain, call, side_effect=fakes.error(error)
                ):
                    if is_passed:
                        self.assertEqual([], self.found())
                    else:
                        self.assertRaises(libvirt.libvirtError, self.found)

    def test_where_nothing_is_ever_saved(self):
        """LXC has no such images."""
        self.libvirt.guest(hosts.HUGE).destroy()
        with mock.patch.object(
            libvirt.virDomain,
            'hasManagedSaveImage',
            side_effect=fakes.error((libvirt.VIR_ERR_NO_SUPPORT,)),
        ):
            self.assertEqual([], self.found())
