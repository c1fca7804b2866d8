"""Every isolation, mode, kind, host content and mixed_hosts, by the API."""

import itertools

from tests.functional import base

ISOLATIONS = ('none', 'host')
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

    def check(self, isolation, mode, flavors):
        self.flags(isolation=isolation, group='numa_guard')
        self.flags(isolation_mode=mode, group='numa_guard')
        self.look()
        wrong = []
        for mixed_hosts, kind, host in itertools.product(
            MIXED_HOSTS, KINDS, CONTENTS
        ):
            self.flags(mixed_hosts=mixed_hosts, group='numa_guard')
            wanted = expected(isolation, mode, kind, host, mixed_hosts)
            if self.takes(host, flavors[kind]) is not wanted:
                wrong.append((mixed_hosts, kind, host, wanted))
        self.assertEqual([], wrong)


class HostTest(MatrixCase):
    """Hosts that hold what they are named after."""

    GUARD = {'isolation': 'none'}

    def setUp(self):
        super().setUp()
        for name in CONTENTS:
            self.start_host(name, base.pages(16384, huge=4096))
        self.kinds = self.flavors()
        self.fill(self.kinds)

    def test_none_enforce(self):
        self.check('none', 'enforce', self.kinds)

    def test_none_warn(self):
        self.check('none', 'warn', self.kinds)

    def test_host_enforce(self):
        self.check('host', 'enforce', self.kinds)

    def test_host_warn(self):
        self.check('host', 'warn', self.kinds)


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

    def test_cell_enforce(self):
        self.check('cell', 'enforce', self.kinds)

    def test_cell_warn(self):
        self.check('cell', 'warn', self.kinds)
