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

"""The filter, on Nova's own HostState and RequestSpec."""

import types

import hypothesis
from hypothesis import strategies as st
import nova.filters
from nova.objects import fields
from nova.scheduler import filters as nova_filters
from nova.scheduler import host_manager
from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import isolation, report
from nova_numa_guard.scheduler import filters
from tests.unit import base, samples
from tests.unit.scheduler import test_host_states

REPORT = report.encode(report.Report(512))


class FilterTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.flags(isolation='host')
        self.filter = filters.NUMAGuardFilter()
        self.assert_logged(
            'INFO', 'NUMA guard: isolation is host, isolation_mode enforce'
        )
        self.log.records.clear()
        self.floating = samples.request()
        self.affined = samples.request(samples.guest_cell())

    def host(
        self,
        name='host1',
        floating=0,
        affined=0,
        text=REPORT,
        cell=None,
        **values,
    ):
        return samples.host_state(
            samples.host_cell(
                0,
                memory_usage=affined,
                cpu_usage=affined // 512,
                **(cell or {}),
            ),
            samples.host_cell(1),
            host=name,
            used=512 + floating + affined,
            vcpus_used=(floating + affined) // 512,
            guests=bool(floating) + bool(affined),
            report=text,
            **values,
        )

    def passed(self, spec, *hosts):
        """The names of the hosts that pass, as Nova's scheduler runs it."""
        handler = nova_filters.HostFilterHandler()
        found = handler.get_filtered_objects([self.filter], hosts, spec)
        return [host.host for host in found]


class NUMAGuardFilterTest(FilterTestCase):
    def test_nova_knows_it_as_a_filter(self):
        loaded = nova_filters.HostFilterHandler().get_matching_classes(
            ['nova_numa_guard.scheduler.filters.NUMAGuardFilter']
        )
        self.assertEqual([filters.NUMAGuardFilter], loaded)

    def test_hosts_of_the_other_kind_are_removed(self):
        hosts = [
            self.host('empty'),
            self.host('floating', floating=1024),
            self.host('affined', affined=1024),
            self.host('mixed', floating=1024, affined=1024),
        ]
        self.assertEqual(
            ['empty', 'floating'], self.passed(self.floating, *hosts)
        )
        self.assertEqual(
            ['empty', 'affined'], self.passed(self.affined, *hosts)
        )

    def test_the_same_without_reports(self):
        hosts = [
            self.host('empty', text=None),
            self.host('floating', floating=1024, text=None),
            self.host('affined', affined=1024, text=None),
            self.host('mixed', floating=1024, affined=1024, text=None),
        ]
        self.assertEqual(
            ['empty', 'floating'], self.passed(self.floating, *hosts)
        )
        self.assertEqual(
            ['empty', 'affined'], self.passed(self.affined, *hosts)
        )

    def test_the_line_of_the_log(self):
        self.passed(
            self.affined,
            self.host('a', floating=1024),
            self.host('b', floating=1024),
            self.host('c'),
        )
        self.assert_logged(
            'INFO',
            f'NUMA guard removed 2 of 3 hosts for affined guest '
            f'{uuids.instance}: floating-present: 2',
        )

    def test_reasons_are_counted_apart(self):
        """A host that cannot be judged is named, though it passes."""
        broken = self.host('broken')
        broken.free_ram_mb = None
        self.passed(
            self.floating,
            self.host('a', affined=1024),
            self.host('b', affined=1024, floating=1024),
            broken,
        )
        self.assert_logged(
            'INFO',
            f'NUMA guard removed 2 of 3 hosts for floating guest '
            f'{uuids.instance}: affined-present: 2, unreadable: 1',
        )

    def test_a_host_that_cannot_be_judged_is_named_each_time(self):
        broken = self.host('broken')
        broken.free_ram_mb = None
        line = (
            f'NUMA guard removed 0 of 1 hosts for floating guest '
            f'{uuids.instance}: unreadable: 1'
        )
        for _ in range(2):
            self.assertEqual(['broken'], self.passed(self.floating, broken))
        self.assert_logged('INFO', line, line)

    def test_nothing_removed_nothing_said(self):
        self.passed(self.affined, self.host('a'), self.host('b', affined=512))
        self.assert_logged('INFO')
        self.assert_logged('WARNING')

    def test_no_hosts(self):
        self.assertEqual([], list(self.filter.filter_all([], self.floating)))
        self.assert_logged('INFO')

    def test_warn_keeps_the_hosts_and_says_so(self):
        self.flags(isolation_mode='warn')
        self.assertEqual(
            ['a', 'b'],
            self.passed(
                self.affined, self.host('a', floating=1024), self.host('b')
            ),
        )
        self.assert_logged(
            'INFO',
            f'NUMA guard would have removed 1 of 2 hosts for affined guest '
            f'{uuids.instance}: floating-present: 1',
        )

    def test_the_mode_changes_while_the_service_runs(self):
        hosts = [self.host(floating=1024)]
        self.assertEqual([], self.passed(self.affined, *hosts))
        self.flags(isolation_mode='warn')
        self.assertEqual(['host1'], self.passed(self.affined, *hosts))

    def test_a_bad_mode_does_not_stop_the_scheduler(self):
        """As oslo.config raises it after SIGHUP, at each reading."""
        self.raw(isolation_mode='perhaps')
        self.assertEqual([], self.passed(self.affined, self.host(floating=9)))
        self.assertEqual(1, len(self.log.at('ERROR')))

    def test_one_host(self):
        """What Nova calls if something wraps the filter."""
        host = self.host(floating=1024)
        self.assertFalse(self.filter.host_passes(host, self.affined))
        self.assertTrue(self.filter.host_passes(host, self.floating))
        self.flags(isolation_mode='warn')
        self.assertTrue(self.filter.host_passes(host, self.affined))

    def test_rebuilds_pass(self):
        for hints in ({'_nova_check_type': ['rebuild']},):
            spec = samples.request(samples.guest_cell(), hints=hints)
            self.assertEqual(
                ['host1'], self.passed(spec, self.host(floating=1024))
            )
        self.assert_logged('INFO')

    def test_other_hints_are_not_rebuilds(self):
        spec = samples.request(
            samples.guest_cell(), hints={'group': [uuids.group]}
        )
        self.assertEqual([], self.passed(spec, self.host(floating=1024)))

    def test_instances_are_not_touched(self):
        host = self.host(
            floating=1024, cls=test_host_states.ExplodingHostState
        )
        self.assertEqual([], self.passed(self.affined, host))
        self.assert_logged('WARNING')

    def test_pinned_guests_with_isolated_threads_are_affined(self):
        """They hold more CPUs than they have, which hides no vCPUs."""
        for text in (None, REPORT):
            host = self.host(text=text, cell=samples.PIN_SET)
            host.consume_from_request(
                samples.request(
                    samples.guest_cell(
                        pinned=True,
                        cpu_thread_policy=(
                            fields.CPUThreadAllocationPolicy.ISOLATE
                        ),
                    ),
                    emulator=fields.CPUEmulatorThreadsPolicy.ISOLATE,
                )
            )
            self.assertEqual(['host1'], self.passed(self.affined, host))
            self.assertEqual([], self.passed(self.floating, host))

    def test_a_larger_reserve_on_the_host(self):
        """It is not taken for a floating guest if the host reports it."""
        for reserved in (0, 512, 4096):
            self.config.config(reserved_host_memory_mb=reserved)
            self.assertEqual(
                ['host1'], self.passed(self.affined, self.host(affined=1024))
            )
            self.assertEqual(
                [], self.passed(self.affined, self.host(floating=1024))
            )


class ConsumeTest(FilterTestCase):
    """Several guests of one request, before any of them is on its host."""

    def test_floating_then_affined(self):
        for text in (None, REPORT):
            host = self.host(text=text)
            host.consume_from_request(self.floating)
            self.assertEqual([], self.passed(self.affined, host))
            self.assertEqual(['host1'], self.passed(self.floating, host))

    def test_affined_then_floating(self):
        for text in (None, REPORT):
            for cell in (
                samples.guest_cell(),
                samples.guest_cell(pinned=True),
            ):
                host = self.host(text=text)
                host.consume_from_request(samples.request(cell))
                self.assertEqual([], self.passed(self.floating, host))
                self.assertEqual(['host1'], self.passed(self.affined, host))

    @hypothesis.settings(max_examples=40)
    @hypothesis.given(st.lists(st.booleans(), min_size=1, max_size=6))
    def test_a_host_never_becomes_mixed(self, kinds):
        """Whatever comes, in whatever order, and with whatever it knows."""
        for text in (None, REPORT):
            host = self.host(text=text)
            for kind in kinds:
                spec = samples.request(
                    *([samples.guest_cell(memory=512)] if kind else []),
                    memory=512,
                )
                if self.passed(spec, host):
                    host.consume_from_request(spec)
            # The first is let in, and so are all that are like it.
            self.assertEqual(kinds.count(kinds[0]), host.num_instances)


class NeverRaisesTest(FilterTestCase):
    """What cannot be judged passes, and is complained of once."""

    def assert_passes(self, host, spec=None):
        for _ in range(2):
            self.assertEqual(
                [host],
                list(self.filter.filter_all([host], spec or self.affined)),
            )
            self.assertTrue(
                self.filter.host_passes(host, spec or self.affined)
            )

    def assert_unjudged(self, host, spec=None):
        self.assert_passes(host, spec)
        self.assertEqual(1, len(self.log.at('WARNING')))
        self.assertIn(
            f'cannot judge host {host.host} and lets it pass',
            self.log.at('WARNING')[0],
        )

    def assert_judged_empty(self, host, spec=None):
        self.assert_passes(host, spec)
        self.assert_logged('WARNING')

    def test_never_updated(self):
        self.assert_judged_empty(
            host_manager.HostState('host1', 'node1', uuids.cell)
        )

    def test_no_topology(self):
        host = self.host()
        host.numa_topology = None
        self.assert_judged_empty(host)

    def test_no_cells(self):
        host = self.host()
        host.numa_topology.cells = []
        self.assert_judged_empty(host)

    def test_no_stats(self):
        host = self.host()
        del host.stats
        self.assert_judged_empty(host)

    def test_no_aggregates(self):
        host = self.host()
        del host.aggregates
        self.assert_judged_empty(host)

    def test_a_junk_record_is_complained_of_but_the_host_is_judged(self):
        for number, record in enumerate(
            test_host_states.BadReportTest.JUNK, start=1
        ):
            host = self.host(floating=1024, text=None)
            host.stats = {'numa_guard': record}
            self.assertEqual([], self.passed(self.affined, host))
            self.assertEqual(number, len(self.log.at('WARNING')))

    def test_ironic(self):
        """A node has neither memory nor topology, and one guest or none."""
        for used, count in ((0, 0), (0, 1)):
            host = samples.host_state(
                memory=0, used=used, guests=count, host=f'ironic{count}'
            )
            host.hypervisor_type = 'ironic'
            self.assertEqual([host.host], self.passed(self.floating, host))
        self.assert_logged('WARNING')

    def test_usage_that_is_none(self):
        host = self.host()
        host.free_ram_mb = None
        self.assert_unjudged(host)

    def test_a_cell_whose_usage_is_none(self):
        host = self.host()
        host.numa_topology = types.SimpleNamespace(
            cells=[
                types.SimpleNamespace(
                    memory_usage=None, cpu_usage=0, pinned_cpus=set()
                )
            ]
        )
        self.assert_unjudged(host)

    def test_a_cell_without_pinned_cpus(self):
        host = self.host()
        host.numa_topology = types.SimpleNamespace(
            cells=[
                types.SimpleNamespace(
                    memory_usage=0, cpu_usage=0, pinned_cpus=None
                )
            ]
        )
        self.assert_unjudged(host)

    def test_each_attribute_that_is_read(self):
        for name in (
            'free_ram_mb',
            'total_usable_ram_mb',
            'vcpus_used',
            'num_instances',
            'numa_topology',
        ):
            host = self.host(name.replace('_', '-'), affined=512, text=None)
            delattr(host, name)
            self.assertEqual(
                [host.host], self.passed(self.floating, host), name
            )
        self.assertEqual(5, len(self.log.at('WARNING')))

    def test_a_host_that_is_no_host_state(self):
        self.assertTrue(self.filter.host_passes(object(), self.affined))
        self.assertEqual(
            isolation.Reason.UNREADABLE,
            self.filter.judge(None, self.affined).reason,
        )

    def test_a_request_without_a_topology_field(self):
        spec = samples.request()
        del spec._obj_numa_topology
        self.assert_unjudged(self.host(floating=1024), spec)

    def test_stats_that_are_no_mapping(self):
        """They are as good as none: Nova's own figures are there."""
        for stats in ('junk', 7, ['numa_guard']):
            host = self.host(floating=1024)
            host.stats = stats
            self.assertEqual([], self.passed(self.affined, host))

    def test_once_per_host_and_cause(self):
        hosts = [self.host('a'), self.host('b')]
        for host in hosts:
            host.free_ram_mb = None
        for _ in range(3):
            self.passed(self.affined, *hosts)
        self.assertEqual(2, len(self.log.at('WARNING')))
        hosts[0].num_instances = None
        del hosts[0].vcpus_used
        hosts[0].free_ram_mb = 0
        self.passed(self.affined, *hosts)
        self.assertEqual(3, len(self.log.at('WARNING')))


class StartTest(base.TestCase):
    def test_it_says_that_it_does_nothing(self):
        filters.NUMAGuardFilter()
        [warning] = self.log.at('WARNING')
        self.assertIn('[numa_guard] isolation is "none"', warning)

    def test_and_does_nothing(self):
        found = filters.NUMAGuardFilter()
        self.log.records.clear()
        host = samples.host_state(used=4096, guests=1, vcpus_used=2)
        for spec in (samples.request(), samples.request(samples.guest_cell())):
            self.assertEqual([host], list(found.filter_all([host], spec)))
        self.assert_logged('INFO')

    def test_it_is_silent_if_it_has_work(self):
        self.flags(isolation='host')
        filters.NUMAGuardFilter()
        self.assert_logged('WARNING')

    def test_a_bad_option_stops_the_scheduler(self):
        for name in ('isolation', 'isolation_mode', 'weight_multiplier'):
            self.raw(**{name: 'perhaps'})
            exc = self.assertRaises(
                cfg.ConfigFileValueError, filters.NUMAGuardFilter
            )
            self.assertIn(f'[numa_guard] {name}', str(exc))

    def test_rebuilds_are_not_its_affair(self):
        self.assertIs(False, filters.NUMAGuardFilter.RUN_ON_REBUILD)

    def test_it_overrides_what_nova_calls(self):
        for name in ('filter_all', 'host_passes'):
            self.assertTrue(hasattr(nova_filters.BaseHostFilter, name), name)
        self.assertTrue(
            issubclass(filters.NUMAGuardFilter, nova.filters.BaseFilter)
        )
