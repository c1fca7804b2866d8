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

"""Servers of 256 huge pages on hosts that have, or lack, just these."""

import gc
import pathlib

import fixtures
from nova import objects
import nova.conf
from nova.virt.libvirt import driver

from tests.functional import base, qemu

CONF = nova.conf.CONF


class PagesTestCase(base.GuardTestCase):
    HOSTS = ('host1',)
    SHORTAGE = 'huge pages of 2048 KiB on host NUMA node 0: needed 256, '
    NEEDED = f'{SHORTAGE}available 100'
    NO_MEMORY = qemu.NO_MEMORY

    def setUp(self):
        super().setUp()
        self._read = 0
        for number, host in enumerate(self.HOSTS):
            # The first has the most memory, and so is weighed first.
            self.start_host(host, base.pages(16384 - 4096 * number, huge=512))
        self.huge = self.flavor(memory_mb=512, **base.HUGE)
        self.addCleanup(self.assert_nothing_promised)

    def leave(self, pages, host='host1'):
        """Have others take the pages of a host, but for what guests get."""
        self.kernels[host].set_pool(0, 2048, total=512, free=pages)

    def own(self):
        """Boot a server with a port and a volume."""
        server = self._create_server(
            flavor_id=self.huge,
            networks=[{'port': self.neutron.port_1['id']}],
        )
        self.attach(server, self.cinder.IMAGE_BACKED_VOL)
        # The fake makes no disk.
        folder = pathlib.Path(CONF.instances_path, server['id'])
        folder.mkdir(exist_ok=True)
        folder.joinpath('disk').touch()
        return server

    def domain(self, server, host='host1'):
        connection = self.computes[host].driver._host.get_connection()
        return connection.lookupByUUIDString(server['id'])

    def domains(self, host='host1'):
        connection = self.computes[host].driver._host.get_connection()
        return set(connection._vms)

    def possessions(self, server, host='host1'):
        """What a refusal may not take from a server."""
        domain = self.domain(server, host)
        port = self.neutron.show_port(self.neutron.port_1['id'])['port']
        return {
            'domain': domain.XMLDesc(0),
            'memory image': domain.hasManagedSaveImage(0),
            'port': (port['binding:host_id'], port['device_id']),
            'volumes': self.cinder.attachment_ids_for_instance(server['id']),
            'allocations': {
                provider: found['resources']
                for provider, found in self._get_allocations_by_server_uuid(
                    server['id']
                ).items()
            },
            'files': sorted(
                path.name
                for path in pathlib.Path(
                    CONF.instances_path, server['id']
                ).iterdir()
            ),
        }

    def act(self, server, *statuses, **action):
        """Have something done with a server, and wait for the end."""
        self.api.post_server_action(server['id'], action)
        return self.settled(server, *statuses)

    def fault(self, server):
        """The last fault, which the API shows of servers in ERROR only."""
        found = objects.InstanceFault.get_latest_for_instance(
            self.admin_context, server['id']
        )
        return found.message if found else ''

    def log(self):
        """What was logged since this was asked last."""
        text = self.stdlog.logger.output
        begun, self._read = self._read, len(text)
        return text[begun:]

    def meanwhile(self, work):
        """Work once in the middle of a start: the domain is not there yet."""
        plug_vifs, works = driver.LibvirtDriver.plug_vifs, [work]

        def plug(*args, **kwargs):
            while works:
                works.pop()()
            return plug_vifs(*args, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.virt.libvirt.driver.LibvirtDriver.plug_vifs', plug
            )
        )

    def assert_nothing_promised(self):
        gc.collect()  # what failed may be in a cycle with its traceback
        for compute in self.computes.values():
            self.assertEqual(
                (), compute.driver.page_check.reservations.promises
            )

    def assert_refused(self, server, available='100', host='host1'):
        """The last event of a server is a refusal, and its fault says so."""
        shortage = f'{self.SHORTAGE}available {available}'
        details = f'Insufficient compute resources: {shortage}.'
        self.assertEqual((host, details), self.events(server)[-1])
        self.assertEqual(details, self.fault(server))
        log = self.log()
        self.assertIn(f'Refused to start: {shortage}', log)
        self.assertNotIn(self.NO_MEMORY, log)
        self.assert_nothing_promised()

    def assert_tried(self, server, why, log=None):
        """There was a warning, and then QEMU failed: nothing was refused."""
        log = log or self.log()
        before, _, after = log.partition(
            'Starting although the kernel lacks pages, because '
            f'{why}; QEMU may fail: {self.SHORTAGE}'
        )
        self.assertNotIn(self.NO_MEMORY, before)
        self.assertIn(self.NO_MEMORY, after)
        self.assertEqual([], self.events(server))
        self.assert_nothing_promised()
