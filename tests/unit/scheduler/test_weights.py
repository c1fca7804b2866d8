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

import time

import fixtures
import hypothesis
from hypothesis import strategies as st
from nova import objects
from nova.scheduler import host_manager
from nova.scheduler import weights as nova_weights
from nova.scheduler.weights import compute as build_failure
from nova.virt import hardware

from nova_numa_guard import refusals, report
from nova_numa_guard.scheduler import filters, headroom, weights
from tests.unit import base, samples
from tests.unit.scheduler import test_host_states

REPORT = samples.record_text()
MIB = st.integers(0, 4096)
SIZES = (samples.SMALL, samples.HUGE, samples.GIANT, -1, -2, -3)


class WeigherTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.flags(isolation='host')
        self.weigher = weights.NUMAGuardWeigher()
        self.floating = samples.request()
        self.affined = samples.request(samples.guest_cell())

    def multiplier(self, value):
        """A service reads it when it starts."""
        self.flags(weight_multiplier=value)
        self.weigher = weights.NUMAGuardWeigher()

    def host(self, name='host1', floating=0, affined=0, huge=0, **values):
        return samples.host_state(
            samples.host_cell(0, huge=huge, memory_usage=affined),
            samples.host_cell(1),
            host=name,
            **{
                'used': 512 + floating + affined,
                'guests': 2,
                'report': REPORT,
                **values,
            },
        )

    def weights(self, spec, *hosts, others=()):
        """What Nova makes of its weights: {host: weight}, best first."""
        found = nova_weights.HostWeightHandler().get_weighed_objects(
            [self.weigher, *others], hosts, spec
        )
        return {weighed.obj.host: weighed.weight for weighed in found}

    def assert_order(self, order, spec, *hosts, others=()):
        """However the hosts are listed, Nova takes them in this order."""
        for listed in (hosts, hosts[::-1]):
            found = self.weights(spec, *listed, others=others)
            self.assertEqual(order.split(), list(found))
            self.assertEqual(len(hosts), len(set(found.values())), found)


class LikenessTest(WeigherTestCase):
    """Only whose guests are on the hosts, and not what is free there."""

    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.scheduler.weights.HEADROOM', 0.0
            )
        )

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

    def test_hosts_that_are_isolated_by_cell_suit_both_kinds(self):
        cells = report.FloatingCells((2,), 8, 4096)
        text = samples.record_text('cell', cells=cells)
        hosts = [
            self.host('floating', floating=1024, report=text),
            self.host('affined', affined=1024, report=text),
            self.host('empty', report=text),
        ]
        for spec in (self.floating, self.affined):
            self.assertEqual(
                {'floating': 100.0, 'affined': 100.0, 'empty': 50.0},
                self.weights(spec, *hosts),
            )

    def test_exempt_guests_take_what_is_in_use(self):
        for cells in ((), (samples.guest_cell(),)):
            self.assertEqual(
                {'floating': 100.0, 'affined': 100.0, 'empty': 50.0},
                self.weights(
                    samples.request(*cells, isolation='exempt'),
                    self.host('empty'),
                    self.host('floating', floating=1024),
                    self.host('affined', affined=1024),
                ),
            )

    def test_without_isolation_likes_are_together_all_the_same(self):
        self.flags(isolation='none')
        self.assert_order(
            'affined empty floating',
            self.affined,
            self.host('floating', floating=1024),
            self.host('empty'),
            self.host('affined', affined=1024),
        )

    def test_in_warn_mode_too(self):
        self.flags(isolation_mode='warn')
        self.assertEqual(
            {'affined': 100.0, 'floating': 0.0},
            self.weights(
                samples.request(samples.guest_cell(), moves=True),
                self.host('floating', floating=1024),
                self.host('affined', affined=1024),
            ),
        )

    def test_the_multiplier_is_an_option(self):
        self.multiplier(3.0)
        self.assertEqual(3.0, self.weigher.weight_multiplier(self.host()))
        self.assertEqual(
            {'affined': 3.0, 'empty': 1.5},
            self.weights(
                self.affined,
                self.host('empty'),
                self.host('affined', affined=1024),
            ),
        )

    def test_nought_turns_it_off(self):
        self.multiplier(0.0)
        self.assertEqual(
            {'a': 0.0, 'b': 0.0},
            self.weights(
                self.affined, self.host('a', affined=99), self.host('b')
            ),
        )

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
        self.assertEqual(2.0, self.aggregate('3', '2', '4'))

    def test_below_nought_is_nought(self):
        """Else the hosts that should come last would come first."""
        for values in (('-1',), ('3', '-0.5', '2'), ('-1e9',)):
            self.assertEqual(0.0, self.aggregate(*values))

    def test_junk_falls_back_to_the_option(self):
        self.multiplier(5.0)
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

    def test_no_hosts(self):
        self.assertEqual([], self.weigher.weigh_objects([], self.affined))
        self.assertEqual({}, self.weights(self.affined))


class HeadroomTest(WeigherTestCase):
    """Among hosts that suit alike, the one that has more of what is needed."""

    def spec(self, *sizes):
        return samples.request(
            *(
                samples.guest_cell(page_size=size, node=number)
                for number, size in enumerate(sizes)
            )
        )

    def record(self, **pools):
        """What a host reports: free pages of 2 MiB and of 1 GiB, by node."""
        sizes = {'huge': samples.HUGE, 'giant': samples.GIANT}
        return samples.record_text(
            headroom={
                sizes[name]: dict(enumerate(free))
                for name, free in pools.items()
            }
        )

    def mib(self, host, *sizes):
        record = test_host_states.host_states.report_of(host)
        found = self.weigher._judge.request(self.floating).look(host)
        self.assertEqual(record, found.record)
        return headroom.of(host, set(sizes), found)

    def test_it_breaks_a_tie_only(self):
        """Empty hosts stay empty, though they have more room than others."""
        self.assert_order(
            'like roomy tight',
            self.floating,
            self.host('tight', huge=2048),
            self.host('roomy'),
            self.host('like', floating=15000),
        )

    def test_it_is_worth_one_of_novas_weighers(self):
        found = self.weights(
            self.spec(samples.HUGE),
            self.host('none', report=self.record(huge=[0])),
            self.host('half', report=self.record(huge=[100])),
            self.host('most', report=self.record(huge=[200])),
        )
        self.assertEqual(
            {'most': 51.0, 'half': 50.5, 'none': 50.0},
            {name: round(weight, 9) for name, weight in found.items()},
        )

    def test_each_page_size_by_its_pool(self):
        hosts = [
            self.host(
                'huge',
                report=self.record(huge=[0, 2048], giant=[1]),
                affined=900,
            ),
            self.host(
                'giant',
                report=self.record(huge=[512], giant=[2, 3]),
                affined=800,
            ),
            self.host(
                'small',
                report=self.record(huge=[256, 256], giant=[0]),
                affined=700,
            ),
        ]
        for size, order in (
            (samples.HUGE, 'huge giant small'),
            (samples.GIANT, 'giant huge small'),
            (samples.SMALL, 'small giant huge'),
            (hardware.MEMPAGES_SMALL, 'small giant huge'),
            (None, 'small giant huge'),
        ):
            self.assert_order(order, self.spec(size), *hosts)

    def test_large_is_the_best_of_the_huge_pools(self):
        host = self.host(report=self.record(huge=[1024, 0], giant=[0, 1]))
        self.assertEqual(2048, self.mib(host, hardware.MEMPAGES_LARGE))
        host = self.host(report=self.record(huge=[1024], giant=[3]))
        self.assertEqual(3072, self.mib(host, hardware.MEMPAGES_LARGE))

    def test_any_is_the_best_of_all(self):
        small = 16384 - 512
        host = self.host(report=self.record(huge=[7]))
        self.assertEqual(small, self.mib(host, hardware.MEMPAGES_ANY))
        host = self.host(report=self.record(huge=[7], giant=[99]))
        self.assertEqual(99 * 1024, self.mib(host, hardware.MEMPAGES_ANY))

    def test_a_node_has_to_hold_a_guests_cell(self):
        """So two nodes with a little are not one with much."""
        host = self.host(report=self.record(huge=[100, 300, 200]))
        self.assertEqual(600, self.mib(host, samples.HUGE))

    def test_of_several_sizes_the_scarcest_counts(self):
        host = self.host(report=self.record(huge=[100], giant=[4]))
        self.assertEqual(200, self.mib(host, samples.HUGE, samples.GIANT))
        self.assertEqual(200, self.mib(host, samples.HUGE, -1))

    def test_a_size_that_the_host_does_not_have(self):
        host = self.host(report=self.record(huge=[100]))
        self.assertEqual(0, self.mib(host, samples.GIANT))

    def test_a_host_that_reports_none(self):
        """Nova's own figures, what its guests have taken off."""
        for text in (None, REPORT):
            host = self.host(huge=1024, report=text)
            self.assertEqual(2048, self.mib(host, samples.HUGE))
            host.consume_from_request(self.spec(samples.HUGE))
            self.assertEqual(1024, self.mib(host, samples.HUGE))
            self.assertEqual(1024, self.mib(host, hardware.MEMPAGES_LARGE))
            self.assertEqual(0, self.mib(host, samples.GIANT))

    def test_small_pages_that_nobody_knows_of(self):
        host = samples.host_state(used=384)
        self.assertEqual(16000, self.mib(host, samples.SMALL))
        host.free_ram_mb = -1
        self.assertEqual(0, self.mib(host, samples.SMALL))

    def test_small_pages_of_the_floating_cells(self):
        host = self.host(
            report=samples.record_text(
                'cell', cells=report.FloatingCells((1,), 8, 4096)
            )
        )
        self.assertEqual(4096, self.mib(host, samples.SMALL))
        host.consume_from_request(self.floating)
        self.assertEqual(3072, self.mib(host, samples.SMALL))

    def test_which_sizes_a_request_names(self):
        self.assertEqual({-1}, headroom.page_sizes(self.floating))
        self.assertEqual({-1}, headroom.page_sizes(self.affined))
        for size in SIZES:
            self.assertEqual({size}, headroom.page_sizes(self.spec(size)))
        self.assertEqual(
            {-1, samples.HUGE},
            headroom.page_sizes(self.spec(samples.HUGE, None)),
        )

    @hypothesis.given(
        st.lists(st.integers(0, 9999), min_size=2, max_size=5),
        st.sampled_from(SIZES),
    )
    def test_more_is_never_worse(self, pools, size):
        hosts = [
            self.host(str(free), report=self.record(huge=[free]))
            for free in sorted(set(pools))
        ]
        weighed = [nova_weights.WeighedHost(host, 0.0) for host in hosts]
        found = self.weigher.weigh_objects(weighed, self.spec(size))
        self.assertEqual(sorted(found), found)
        self.assertLessEqual(max(found), 0.5 + weights.HEADROOM)
        self.assertGreaterEqual(min(found), 0.5)


class RefusedTest(WeigherTestCase):
    """A host that lately had no pages for a guest comes last."""

    def refused(self, *refused, name='refused', affined=1024):
        now = time.time()
        return self.host(
            name,
            affined=affined,
            report=samples.record_text(
                refused=tuple(
                    refusals.Refusal(node, size, now + seconds)
                    for node, size, seconds in refused
                )
            ),
        )

    def spec(self, size):
        return samples.request(samples.guest_cell(page_size=size))

    def test_it_comes_after_the_wrong_kind(self):
        host = self.refused((1, samples.HUGE, 60))
        self.assert_order(
            'empty floating refused',
            self.spec(samples.HUGE),
            host,
            self.host('floating', floating=1024),
            self.host('empty'),
        )

    def test_on_whichever_node(self):
        other = self.host('other')
        for node in (0, 1, 7):
            host = self.refused((node, samples.HUGE, 60))
            self.assert_order(
                'other refused', self.spec(samples.HUGE), host, other
            )

    def test_one_that_has_expired(self):
        host = self.refused((0, samples.HUGE, -1))
        self.assert_order(
            'refused other', self.spec(samples.HUGE), host, self.host('other')
        )

    def test_one_of_another_size(self):
        host = self.refused((0, samples.GIANT, 60))
        for size in (samples.HUGE, samples.SMALL, None, -1, -3):
            self.assert_order(
                'refused other', self.spec(size), host, self.host('other')
            )

    def test_floating_guests_do_not_mind(self):
        host = self.refused((0, samples.HUGE, 60), affined=0)
        host.free_ram_mb -= 1024
        self.assert_order(
            'refused other', self.floating, host, self.host('other')
        )

    def test_a_guest_that_takes_any_large_size(self):
        host = self.refused((0, samples.GIANT, 60))
        self.assert_order(
            'other refused', self.spec(-2), host, self.host('other')
        )

    def test_but_not_for_want_of_small_pages(self):
        host = self.refused((0, samples.SMALL, 60))
        for size in (-2, samples.HUGE):
            self.assert_order(
                'refused other', self.spec(size), host, self.host('other')
            )
        self.assert_order(
            'other refused',
            self.spec(samples.SMALL),
            host,
            self.host('other'),
        )

    def test_one_among_several(self):
        host = self.refused(
            (0, samples.HUGE, -1), (0, samples.GIANT, 60), (1, 64, 60)
        )
        self.assert_order(
            'other refused', self.spec(samples.GIANT), host, self.host('other')
        )

    def test_not_even_failed_builds_are_worse(self):
        failing = self.host('failing', floating=1024)
        failing.failed_builds = 7
        self.assert_order(
            'failing refused',
            self.spec(samples.HUGE),
            self.refused((0, samples.HUGE, 60)),
            failing,
            others=[build_failure.BuildFailureWeigher()],
        )


class MoveTest(WeigherTestCase):
    """The filter keeps hosts of the wrong kind for a guest that moves."""

    def setUp(self):
        super().setUp()
        self.moving = samples.request(samples.guest_cell(), moves=True)
        self.wrong = self.host('wrong', floating=1024)
        self.right = self.host('right', affined=1024)
        self.right.failed_builds = 7
        self.failures = [build_failure.BuildFailureWeigher()]

    def test_the_wrong_kind_comes_last_even_after_failed_builds(self):
        """Which Nova puts a million behind all others."""
        self.assert_order(
            'right wrong',
            self.moving,
            self.wrong,
            self.right,
            others=self.failures,
        )

    def test_whatever_the_multiplier_but_a_tiny_one(self):
        for multiplier in (1.0, 2.0, 1e4):
            self.multiplier(multiplier)
            self.assert_order(
                'right wrong',
                self.moving,
                self.wrong,
                self.right,
                others=self.failures,
            )

    def test_the_rest_still_counts_among_the_last(self):
        emptier = self.host('emptier', floating=512, affined=300)
        self.assert_order(
            'empty emptier wrong',
            self.moving,
            self.wrong,
            emptier,
            self.host('empty'),
        )

    def test_a_host_that_has_no_pages_is_worse_still(self):
        refused = self.host(
            'refused',
            affined=1024,
            report=samples.record_text(
                refused=(refusals.Refusal(0, 2048, time.time() + 60),)
            ),
        )
        self.moving.numa_topology.cells[0].pagesize = 2048
        self.assert_order('wrong refused', self.moving, refused, self.wrong)

    def test_a_host_that_is_only_warned_of_does_not_come_last(self):
        lax = self.host('lax', floating=1024)
        lax.aggregates = [samples.aggregate(isolation_mode='warn')]
        found = self.weights(self.moving, self.wrong, lax)
        self.assertGreaterEqual(found['lax'], 0.0)
        self.assertLess(found['wrong'], -1e6)

    def test_builds_are_not_moves(self):
        found = self.weights(self.affined, self.wrong, self.host('empty'))
        self.assertGreaterEqual(found['wrong'], 0.0)

    def test_nor_are_moves_that_are_enforced(self):
        """The filter has removed those hosts."""
        self.flags(isolation_on_moves='enforce')
        found = self.weights(self.moving, self.wrong, self.host('empty'))
        self.assertGreaterEqual(found['wrong'], 0.0)

    def test_nova_takes_what_the_filter_and_the_weigher_leave(self):
        self.config.config(
            group='filter_scheduler',
            weight_classes=[filters._WEIGHER],
        )
        kept = list(
            filters.NUMAGuardFilter().filter_all(
                [self.wrong, self.right], self.moving
            )
        )
        self.assertEqual(2, len(kept))
        self.assert_order(
            'right wrong', self.moving, *kept, others=self.failures
        )
