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

"""What an audit shows to whoever collects metrics."""

import pathlib

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import accounting, metrics, snapshot
from nova_numa_guard.virt import claims, gauges
from tests.unit import base
from tests.unit.virt import domains

FIGURE = accounting.Figure(
    node=1,
    page_size=2048,
    total=100,
    free=40,
    configured=5,
    reserved=20,
    claimed=30,
    unaccounted=10,
)
MIB = 1 << 20


class GaugesTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.root = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.textfile = self.root / 'guard.prom'
        self.flags(metrics_textfile=str(self.textfile))
        self.host = domains.Host()
        self.metrics = metrics.Metrics()
        self.metrics.start(base.CONF)
        self.gauges = gauges.Gauges(
            claims.Claims(self.host), self.metrics, self.root
        )

    def memory(self, name, pid, **bytes_by_node):
        place = f'machine.slice/machine-qemu\\x2d{pid}\\x2d{name}.scope'
        for path, text in {
            f'run/libvirt/qemu/{name}.pid': f'{pid}\n',
            f'proc/{pid}/cgroup': f'0::/{place}/libvirt/emulator\n',
            f'sys/fs/cgroup/{place}/memory.numa_stat': 'anon '
            + ' '.join(f'{n}={size}' for n, size in bytes_by_node.items()),
        }.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text)

    def shown(self, name):
        """The samples of a metric, by labels."""
        return {
            tuple(sample.labels.values()): sample.value
            for metric in self.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == f'numa_guard_{name}'
        }

    def test_pools(self):
        self.gauges.observe((FIGURE,))
        for name in (
            *('total', 'free', 'configured', 'reserved', 'claimed'),
            'unaccounted',
        ):
            self.assertEqual(
                [getattr(FIGURE, name)], [*self.shown(f'pool_{name}').values()]
            )
        self.gauges.observe(())
        self.assertEqual({}, self.shown('pool_total'))

    def test_guests_by_numatune(self):
        self.host.add(uuids.one, 1, (0, 4096, 2048))
        self.host.add(uuids.two, 2, (0, 4096, 2048))
        self.host.add(uuids.three, 3)
        self.gauges.observe(())
        self.assertEqual({('stock',): 2, ('none',): 1}, self.shown('guests'))

    def test_guests_by_kind(self):
        kinds = snapshot.Kinds('host', {'floating': 3, 'affined': 0})
        self.gauges.observe((), kinds)
        self.assertEqual(
            {('floating',): 3 * MIB, ('affined',): 0},
            self.shown('guest_memory_bytes'),
        )
        self.assertEqual({('host',): 1}, self.shown('isolation'))
        self.gauges.observe((), None)
        self.assertEqual({}, self.shown('guest_memory_bytes'))
        self.assertEqual({}, self.shown('isolation'))

    def test_memory_away_from_its_node(self):
        for number, node in ((1, 0), (2, 1)):
            guest = self.host.add(uuids.one, number, (node, 4096, None))
            self.memory(guest.name, 100 + number, N0=3 * MIB, N1=5 * MIB)
        self.gauges.observe(())
        self.assertEqual(
            {('1',): 5 * MIB, ('0',): 3 * MIB},
            self.shown('remote_small_memory_bytes'),
        )

    def test_huge_pages_are_not_looked_for(self):
        self.host.add(uuids.one, 1, (0, 4096, 2048))
        self.gauges.observe(())
        self.assertEqual({}, self.shown('remote_small_memory_bytes'))
        self.assertEqual(0, self.shown('unreadable_total')['process',])

    def test_what_cannot_be_read_is_not_shown(self):
        self.host.add(uuids.one, 1, (0, 4096, None))
        self.gauges.observe(())
        self.assertEqual({}, self.shown('remote_small_memory_bytes'))
        self.assertEqual(1, self.shown('unreadable_total')['process',])
        self.host.failure = domains.error(domains.BROKEN)
        self.gauges.observe((FIGURE,))
        self.assertEqual({}, self.shown('guests'))
        self.assertEqual(1, self.shown('unreadable_total')['libvirt',])
        self.assertEqual(1, len(self.shown('pool_total')))

    def test_nobody_looks(self):
        self.metrics.stop()
        self.host.add(uuids.one, 1)
        self.gauges.observe((FIGURE,))
        self.assertEqual(0, self.host.listings)
        self.assertEqual({}, self.shown('pool_total'))
