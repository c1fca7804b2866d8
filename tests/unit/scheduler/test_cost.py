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

"""What a host costs the scheduler, in calls.

``benchmarks`` has the times, which depend on the machine. These do not.
"""

import itertools
import logging

from nova.scheduler import weights as nova_weights
from nova.scheduler.filters import numa_topology_filter

from benchmarks import fleet
from nova_numa_guard import isolation
from nova_numa_guard.scheduler import filters, weights
from tests.unit import base, costs


class CostTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        # Or each host that is passed over would be logged.
        logger = logging.getLogger('nova_numa_guard')
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.INFO)
        fleet.CONF.set_override(
            'weight_classes', [fleet.WEIGHER], 'filter_scheduler'
        )
        self.addCleanup(
            fleet.CONF.clear_override, 'weight_classes', 'filter_scheduler'
        )

    def cases(self, cells, hosts):
        """Fleets, as each isolation and either sort of host makes them."""
        whole = fleet.Fleet(hosts, cells)
        for kind, reported in itertools.product(
            isolation.Isolation, (True, False)
        ):
            self.flags(isolation=kind.value)
            whole.report(kind if reported else None)
            yield kind, reported, whole.hosts

    def filtering(self, hosts, affined):
        spec, guard = fleet.request(affined), filters.NUMAGuardFilter()
        return costs.calls(lambda: list(guard.filter_all(hosts, spec)))

    def weighing(self, hosts, affined):
        spec, weigher = fleet.request(affined), weights.NUMAGuardWeigher()
        weighed = [nova_weights.WeighedHost(host, 0.0) for host in hosts]

        def weigh():
            weigher.weigh_objects(weighed, spec)
            for each in weighed:
                weigher.weight_multiplier(each.obj)

        return costs.calls(weigh)


class HostsTest(CostTestCase):
    def test_each_host_costs_the_same(self):
        for kind, reported, hosts in self.cases(2, 200):
            for affined, work in itertools.product(
                (False, True), (self.filtering, self.weighing)
            ):
                # Of each fifty one has refused a guest lately.
                few, some, many = (
                    work(hosts[:count], affined) for count in (50, 100, 200)
                )
                what = f'{work.__name__}, {kind}, {reported}, {affined}'
                self.assertEqual(2 * (some - few), many - some, what)
                self.assertLessEqual((some - few) / 50, 60, what)

    def test_novas_filter_costs_far_more(self):
        self.flags(isolation='none')
        whole = fleet.Fleet(20, 2)
        whole.report(isolation.Isolation.NONE)
        spec = fleet.request(affined=True)
        nova = numa_topology_filter.NUMATopologyFilter()

        def stock():
            fleet.offer(whole.hosts)
            list(nova.filter_all(whole.hosts, spec))

        ours = self.filtering(whole.hosts, True) + self.weighing(
            whole.hosts, True
        )
        self.assertLess(20 * ours, costs.calls(stock))


class CellsTest(CostTestCase):
    def test_a_report_spares_the_pages_of_each_cell(self):
        found = {}
        for cells in (2, 8):
            for kind, reported, hosts in self.cases(cells, 100):
                if not reported or kind is isolation.Isolation.CELL:
                    continue
                for work in (self.filtering, self.weighing):
                    found.setdefault((kind, work.__name__), []).append(
                        work(hosts, True)
                    )
        for what, (small, large) in found.items():
            self.assertEqual(small, large, what)

    def test_without_one_each_cell_costs_the_same(self):
        found = []
        for cells in (2, 4, 8):
            [hosts] = (
                hosts
                for kind, reported, hosts in self.cases(cells, 100)
                if kind is isolation.Isolation.HOST and not reported
            )
            found.append(self.weighing(hosts, True))
        few, some, many = found
        self.assertEqual(2 * (some - few), many - some)
