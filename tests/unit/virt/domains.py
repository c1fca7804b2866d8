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

"""libvirt's running domains, as Nova's libvirt host shows them."""

import threading

import fixtures
import libvirt
from nova.virt.libvirt import host as libvirt_host

from tests.unit import samples

GONE = (libvirt.VIR_ERR_NO_DOMAIN,)
BROKEN = (libvirt.VIR_ERR_INTERNAL_ERROR,)
# What a test waits for something that does happen.
LONG = 30


def error(err):
    exc = libvirt.libvirtError('libvirt fails')
    exc.err = err
    return exc


class Library(fixtures.Fixture):
    """libvirt, as Nova has it once it has made its driver.

    Before 2026.2 it imports it only then.
    """

    def _setUp(self):
        if libvirt_host.libvirt is None:
            name = f'{libvirt_host.__name__}.libvirt'
            self.useFixture(fixtures.MonkeyPatch(name, libvirt))


class Guest:
    """A running domain, as nova.virt.libvirt.guest.Guest shows it."""

    def __init__(self, uuid, number, xml):
        self.uuid = uuid
        self.id = number
        self.name = f'instance-{number}'
        self.xml = xml
        self.read = 0

    def get_xml_desc(self):
        self.read += 1
        if isinstance(self.xml, Exception):
            raise self.xml
        return self.xml


class Host:
    """What lists them; it can be made to fail, and to hang."""

    def __init__(self):
        self.guests = []
        self.failure = None
        self.listings = 0
        self.asked = threading.Event()
        self.answers = threading.Event()
        self.answers.set()

    def list_guests(self, only_running):
        assert only_running
        self.listings += 1
        self.asked.set()
        self.answers.wait(LONG)
        if self.failure:
            raise self.failure
        return list(self.guests)

    def add(self, uuid, number, *cells, xml=None):
        guest = Guest(uuid, number, xml or samples.domain_xml(*cells))
        self.guests.append(guest)
        return guest
