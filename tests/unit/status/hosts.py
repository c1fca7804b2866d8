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

"""A libvirt with guests of Nova's: the test driver of libvirt itself."""

import fixtures
import libvirt
from oslo_utils import uuidutils

from nova_numa_guard import tuning
from tests.unit import samples

URI = 'test:///default'

HUGE = (0, 65536, 2048)
SMALL = (0, 65536, None)


def guarded(xml, policy=tuning.SmallPagePolicy.AUTO):
    """As the guard writes it."""
    return tuning.apply(xml, policy)


class Libvirt(fixtures.Fixture):
    """All connections of a process to the test driver see the same guests."""

    def _setUp(self):
        self.connection = libvirt.open(URI)
        self.addCleanup(self.connection.close)
        self.addCleanup(self._clear)
        self._clear()

    def _clear(self):
        for each in self.connection.listAllDomains():
            if each.isActive():
                each.destroy()
            each.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE)

    def guest(self, *cells, name='instance-1', write=guarded, **values):
        """A guest that runs, as libvirt.virDomain."""
        xml = samples.nova_guest(
            *cells, name=name, uuid=uuidutils.generate_uuid(), **values
        )
        found = self.connection.defineXML(write(xml))
        found.create()
        return found
