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

"""What Nova's fake libvirt leaves out: memory.

Its guests take no pages, its XML names none, and a domain that was suspended
still runs.
"""

import copy
import dataclasses

import fixtures
from lxml import etree
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.virt.libvirt import driver as stock_driver
from nova.virt.libvirt import guest as libvirt_guest

from nova_numa_guard import domain, pools

NO_MEMORY = (
    'internal error: QEMU unexpectedly closed the monitor: '
    'qemu-system-x86_64: unable to map backing store for guest RAM: '
    'Cannot allocate memory'
)


class Domain(fakelibvirt.Domain):
    """A domain as QEMU has it: it starts with all its pages, or not at all.

    A start never takes time, so that what is judged of a guest while QEMU
    touches its pages does not show; and START_PAUSED starts it running.
    """

    def __init__(self, connection, xml, running=False, transient=False):
        self.xml = etree.fromstring(xml)
        needs, _ = domain.claim(domain.read(xml), pools.SMALL_PAGE)
        # By pool, those that are bound to a host node.
        self.pages = {(n.node, n.page_size): n.pages for n in needs}
        super().__init__(connection, xml, running, transient)
        self._id = connection._id_counter - 1 if running else -1

    @property
    def runs(self):
        return self._state != fakelibvirt.VIR_DOMAIN_SHUTOFF

    def createWithFlags(self, flags):  # noqa: N802
        kernel = getattr(self._connection, 'kernel', None)
        if kernel is not None and not kernel.has(self.pages):
            raise fakelibvirt.make_libvirtError(
                fakelibvirt.libvirtError,
                NO_MEMORY,
                error_code=fakelibvirt.VIR_ERR_INTERNAL_ERROR,
                error_domain=fakelibvirt.VIR_FROM_QEMU,
                error_message=NO_MEMORY,
            )
        self._id = self._connection._id_counter
        super().createWithFlags(flags)

    def shutdown(self):
        super().shutdown()
        self._state = fakelibvirt.VIR_DOMAIN_SHUTOFF

    def managedSave(self, flags):  # noqa: N802
        super().managedSave(flags)
        self._state = fakelibvirt.VIR_DOMAIN_SHUTOFF

    def managedSaveRemove(self, flags=0):  # noqa: N802
        super().managedSaveRemove(flags)

    def XMLDesc(self, flags):  # noqa: N802
        root = etree.fromstring(super().XMLDesc(flags))
        for name in ('numatune', 'memoryBacking', 'cpu'):
            for element in root.findall(name):
                root.remove(element)
            root.extend(map(copy.deepcopy, self.xml.findall(name)))
        return etree.tostring(root, encoding='unicode')


class Domains(fixtures.Fixture):
    """Let Nova's fake libvirt make such domains."""

    def _setUp(self):
        define = fakelibvirt.Connection.defineXML

        def redefine(connection, xml):
            name = etree.fromstring(xml).findtext('name')
            before = connection._vms.get(name)
            after = define(connection, xml)
            if before is not None:
                after._has_saved_state = before._has_saved_state
            return after

        module = 'nova.tests.fixtures.libvirt'
        for name, replacement in (
            ('Domain', Domain),
            ('Connection.defineXML', redefine),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'{module}.{name}', replacement)
            )


class RecordedXML(fixtures.Fixture):
    """XML by server: what Nova made, and what libvirt was handed."""

    def _setUp(self):
        self.stock = {}
        self.written = {}
        make = stock_driver.LibvirtDriver._get_guest_xml
        create = libvirt_guest.Guest.create

        def record_stock(driver, context, instance, *args, **kwargs):
            xml = make(driver, context, instance, *args, **kwargs)
            self.stock[instance.uuid] = xml
            return xml

        def record(xml, host):
            guest = create(xml, host)
            self.written[guest.uuid] = xml
            return guest

        for name, replacement in (
            ('guest.Guest.create', staticmethod(record)),
            ('driver.LibvirtDriver._get_guest_xml', record_stock),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'nova.virt.libvirt.{name}', replacement)
            )


class Migrations(fixtures.Fixture):
    """Let guests be migrated, live, between computes.

    ``sent`` has the XML that libvirt was handed for each arrival, and
    ``meanwhile`` is called before the destination's QEMU is started.

    :param computes: by host
    """

    def __init__(self, computes):
        self._computes = computes
        self.sent = []
        self.fails = False
        self.meanwhile = None

    def _setUp(self):
        def migrate(domain, destination, params, flags):
            if self.fails:
                domain.fail_job()
                return
            if self.meanwhile:
                self.meanwhile()
            [host] = (name for name in self._computes if name in destination)
            self.sent.append(params['destination_xml'])
            driver = self._computes[host].driver
            driver._host.get_connection().createXML(self.sent[-1], '')
            domain.complete_job()

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.tests.fixtures.libvirt.Domain.migrateToURI3', migrate
            )
        )


class NoDisks(fixtures.Fixture):
    """Let guests be resized: Nova's fake libvirt has no disks to copy."""

    def _setUp(self):
        def power_off(driver, context, instance, *args, **kwargs):
            driver.power_off(instance)
            return '{}'

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.libvirt.driver.LibvirtDriver'
                '.migrate_disk_and_power_off',
                power_off,
            )
        )


class Kernel:
    """A kernel's files, less what the guests of the host have in use.

    :param kernel: pools.Kernel; what would be free without any guest
    """

    def __init__(self, kernel):
        self._kernel = kernel
        self._connection = None
        self._kept = {}
        # nova-compute may not look at QEMU's memory unless it is root.
        self.may_look = True

    def follow(self, connection):
        """The guests are those of this fake libvirt."""
        self._connection = connection
        connection.kernel = self

    def __getattr__(self, name):
        return getattr(self._kernel, name)

    def pools(self, page_size=None):
        found = []
        taken = list(self._taken())
        for pool in self._kernel.pools(page_size):
            key = (pool.node, pool.page_size)
            used = sum(pages.get(key, 0) for pages in taken)
            found.append(
                dataclasses.replace(pool, free=max(0, pool.free - used))
            )
        return found

    def held(self, name):
        if not self.may_look:
            raise pools.UnreadableError(f'numa_maps of {name}')
        for each in self._running():
            if each.name() == name:
                return each.pages
        return self._kernel.held(name)

    def has(self, pages):
        """Whether QEMU can start with so many pages by pool."""
        try:
            free = {
                (pool.node, pool.page_size): pool.free
                + self._kernel.bound(pool.page_size).overcommit
                for pool in self.pools()
            }
        except pools.UnreadableError:
            return True  # a real kernel does not depend on its files
        return all(n <= free.get(key, 0) for key, n in pages.items())

    def keep(self, server):
        """Keep a running guest's pages beyond its end, as a vhost-user peer.

        Until let_go().
        """
        [each] = (d for d in self._running() if d.UUIDString() == server['id'])
        self._kept = {each.ID(): each.pages}

    def let_go(self):
        self._kept = {}

    def _running(self):
        domains = list(
            self._connection._vms.values() if self._connection else ()
        )
        return [each for each in domains if each.runs]

    def _taken(self):
        running = {each.ID(): each.pages for each in self._running()}
        return (self._kept | running).values()
