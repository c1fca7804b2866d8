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

"""The weigher, on Nova's own HostState and RequestSpec."""

import hypothesis
from hypothesis import strategies as st
from nova import objects
from nova.scheduler import host_manager
from nova.scheduler import weights as nova_weights

from nova_numa_guard import report
from nova_numa_guard.scheduler import weights
from tests.unit import base, samples
from tests.unit.scheduler import test_host_states

REPORT = report.encode(report.Report(512))
MIB = st.integers(0, 4096)


class NUMAGuardWeigherTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.weigher = weights.NUMAGuardWeigher()
        self.floating = samples.request()
        self.affined = samples.request(samples.guest_cell())

    def host(self, name='host1', floating=0, affined=0, **values):
        return samples.host_state(
            samples.host_cell(0, memory_usage=affined),
            host=name,
            used=512 + floating + affined,
            guests=2,
            report=REPORT,
            **values,
        )

    def weights(self, spec, *hosts):
        """What Nova makes of its weights: {host: weight}, best first."""
        found = nova_weights.HostWeightHandler().get_weighed_objects(
            [self.weigher], hosts, spec
        )
        return {weighed.obj.host: weighed.weight for weighed in found}

    def test_nova_knows_it_as_a_weigher(self):
        loaded = nova_weights.HostWeightHandler().get_matching_classes(
            ['nova_numa_guard.scheduler.weights.NUMAGuardWeigher']
        )
        self.assertEqual([weights.NUMAGuardWeigher], loaded)

    def test_like_with_like(self):
        hosts = [
            self.host('floating', floating=1024),
            self.host('empty'),
            self.host('affined', affined=1024),
        ]
        self.assertEqual(
            {'affined': 100.0, 'empty': 50.0, 'floating': 0.0},
            self.weights(self.affined, *hosts),
        )
        self.assertEqual(
            {'floating': 100.0, 'empty': 50.0, 'affined': 0.0},
            self.weights(self.floating, *hosts),
        )

    def test_shares_are_not_stretched(self):
        """Nova would make 0 and 1 of the least and the greatest."""
        self.assertEqual(
            {'much': 75.0, 'little': 50.0},
            self.weights(
                self.affined,
                self.host('little', floating=1024, affined=1024),
                self.host('much', floating=512, affined=1536),
            ),
        )

    @hypothesis.given(MIB, MIB, st.booleans())
    def test_between_zero_and_one(self, floating, affined, kind):
        weight = self.weigher._weigh_object(
            self.host(floating=floating, affined=affined),
            self.affined if kind else self.floating,
        )
        self.assertGreaterEqual(weight, 0.0)
        self.assertLessEqual(weight, 1.0)

    def test_the_multiplier_is_an_option(self):
        self.flags(weight_multiplier=-3.0)
        self.assertEqual(-3.0, self.weigher.weight_multiplier(self.host()))

    def aggregate(self, *values):
        host = self.host()
        host.aggregates = [
            objects.Aggregate(metadata={'numa_guard_weight_multiplier': value})
            for value in values
        ]
        return self.weigher.weight_multiplier(host)

    def test_an_aggregate_overrides_the_multiplier(self):
        self.assertEqual(7.5, self.aggregate('7.5'))
        self.assertEqual(0.0, self.aggregate('0'))

    def test_the_smallest_of_several(self):
        self.assertEqual(-1.0, self.aggregate('3', '-1', '2'))

    def test_junk_falls_back_to_the_option(self):
        self.flags(weight_multiplier=5.0)
        self.assertEqual(5.0, self.aggregate('junk'))
        self.assertEqual(5.0, self.aggregate('junk', '7'))

    def test_other_metadata_is_not_ours(self):
        host = self.host()
        host.aggregates = [
            objects.Aggregate(metadata={'cpu_weight_multiplier': '9'})
        ]
        self.assertEqual(100.0, self.weigher.weight_multiplier(host))

    def test_a_host_that_cannot_be_judged_counts_as_empty(self):
        broken = self.host('broken', floating=1024)
        broken.free_ram_mb = None
        bare = host_manager.HostState('bare', 'node1', None)
        for spec in (self.floating, self.affined):
            self.assertEqual(
                {'broken': 50.0, 'bare': 50.0},
                self.weights(spec, broken, bare),
            )
        self.assert_logged('WARNING')

    def test_a_request_that_cannot_be_read(self):
        del self.floating._obj_numa_topology
        self.assertEqual(
            0.5, self.weigher._weigh_object(self.host(), self.floating)
        )

    def test_junk_records(self):
        for record in test_host_states.BadReportTest.JUNK:
            host = self.host(floating=1024)
            host.stats = {'numa_guard': record}
            self.assertEqual(
                1.0, self.weigher._weigh_object(host, self.floating)
            )

    def test_instances_are_not_touched(self):
        host = self.host(
            floating=1024, cls=test_host_states.ExplodingHostState
        )
        self.assertEqual(1.0, self.weigher._weigh_object(host, self.floating))

    def test_consumed_guests_count(self):
        host, other = self.host('a'), self.host('b')
        host.consume_from_request(samples.request(samples.guest_cell()))
        self.assertEqual(
            {'a': 100.0, 'b': 50.0},
            self.weights(self.affined, other, host),
        )
