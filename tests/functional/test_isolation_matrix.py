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

    def takes(self, host, flavor):
        """Whether a host takes a guest, which does not stay."""
        server = self.api.post_server(
            {
                'server': self._build_server(
                    flavor_id=flavor, networks='none', host=host
                )
            }
        )
        server = self.settled(server, 'ACTIVE', 'ERROR')
        if server['status'] == 'ERROR':
            self.assertIn('No valid host', server['fault']['message'])
        else:
            self.assertEqual(host, server['OS-EXT-SRV-ATTR:host'])
        self.gone(server)
        return server['status'] == 'ACTIVE'

    def check(self, isolation, mode, mixed_hosts, flavors):
        self.flags(
            isolation=isolation,
            isolation_mode=mode,
            mixed_hosts=mixed_hosts,
            group='numa_guard',
        )
        self.look()
        for kind, host in itertools.product(KINDS, CONTENTS):
            self.assertIs(
                expected(isolation, mode, kind, host, mixed_hosts),
                self.takes(host, flavors[kind]),
                (kind, host),
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

    @ddt.data(*itertools.product(('none', 'host'), MODES, MIXED_HOSTS))
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

    @ddt.data(*itertools.product(MODES, MIXED_HOSTS))
    def test_cell(self, options):
        self.check('cell', *options, self.kinds)
