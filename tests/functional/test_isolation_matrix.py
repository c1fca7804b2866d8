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

"""Every isolation, mode, kind, host content and mixed_hosts, by the API."""

import itertools

import ddt

from tests.functional import base

MODES = ('enforce', 'warn')
KINDS = ('floating', 'affined', 'exempt')
CONTENTS = ('empty', 'floating', 'affined', 'mixed')
MIXED_HOSTS = ('dominant', 'closed', 'open')


def expected(isolation, mode, kind, content, mixed_hosts):
    """Whether a host takes a guest. Floating guests dominate mixed hosts."""
    if isolation != 'host' or mode == 'warn' or kind == 'exempt':
        return True
    if content == 'mixed':
        return {
            'dominant': kind == 'floating',
            'closed': False,
            'open': True,
        }[mixed_hosts]
    return content in ('empty', kind)


class MatrixCase(base.GuardTestCase):
    def flavors(self):
        return {
            'floating': self.flavor(),
            'affined': self.flavor(memory_mb=512, **base.HUGE),
            'exempt': self.flavor(
                memory_mb=512,
                **base.HUGE,
                **{'numa_guard:isolation': 'exempt'},
            ),
        }

    def fill(self, flavors):
        """Put guests on the hosts that are named after them."""
        for host, kinds in (
            ('floating', ['floating']),
            ('affined', ['affined']),
            ('mixed', ['floating', 'affined', 'floating']),
        ):
            for kind in kinds:
                self.force(flavors[kind], host)
        self.look()

    def take(self, flavor):
        """The hosts that take a guest, of which none stays.

        All are asked at once: each guest may go to one of them only.
        """
        servers = {
            host: self.api.post_server(
                {
                    'server': self._build_server(
                        flavor_id=flavor, networks='none', host=host
                    )
                }
            )
            for host in CONTENTS
        }
        taken = set()
        for host, server in servers.items():
            found = self.settled(server, 'ACTIVE', 'ERROR')
            if found['status'] == 'ERROR':
                self.assertIn('No valid host', found['fault']['message'])
            else:
                self.assertEqual(host, found['OS-EXT-SRV-ATTR:host'])
                taken.add(host)
        self.gone(*servers.values())
        return taken

    def check(self, isolation, mode, flavors):
        """With each word of mixed_hosts, on the same hosts."""
        for mixed_hosts in MIXED_HOSTS:
            self.flags(
                isolation=isolation,
                isolation_mode=mode,
                mixed_hosts=mixed_hosts,
                group='numa_guard',
            )
            self.look()
            for kind in KINDS:
                wanted = {
                    host
                    for host in CONTENTS
                    if expected(isolation, mode, kind, host, mixed_hosts)
                }
                self.assertEqual(
                    wanted, self.take(flavors[kind]), (mixed_hosts, kind)
                )


@ddt.ddt
class HostTest(MatrixCase):
    """Hosts that hold what they are named after."""

    GUARD = {'isolation': 'none'}

    def setUp(self):
        super().setUp()
        for name in CONTENTS:
            self.start_host(name, base.pages(16384, huge=4096))
        self.kinds = self.flavors()
        self.fill(self.kinds)

    @ddt.data(*itertools.product(('none', 'host'), MODES))
    def test_host(self, options):
        self.check(*options, self.kinds)


@ddt.ddt
class CellTest(MatrixCase):
    """Hosts with two cells, of which the first is for floating guests."""

    GUARD = {'isolation': 'cell'}

    def setUp(self):
        super().setUp()
        for name in CONTENTS:
            self.start_host(
                name,
                base.pages(8192),
                base.pages(8192, huge=4096),
                cpus=12,
                floating='0',
            )
        self.kinds = self.flavors()
        self.fill(self.kinds)

    @ddt.data(*MODES)
    def test_cell(self, mode):
        self.check('cell', mode, self.kinds)
