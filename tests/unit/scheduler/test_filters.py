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

from nova_numa_guard import guests, isolation, report
from nova_numa_guard.scheduler import filters, weights
from tests.unit import base, samples
from tests.unit.scheduler import test_host_states

REPORT = samples.record_text()
WEIGHER = 'nova_numa_guard.scheduler.weights.NUMAGuardWeigher'


class FilterTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.flags(isolation='host')
        self.config.config(group='filter_scheduler', weight_classes=[WEIGHER])
        self.filter = filters.NUMAGuardFilter()
        self.assertEqual(
            [
                (
                    'INFO',
                    'NUMA guard: isolation is host, isolation_mode enforce',
                )
            ],
            self.log.records,
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
            **{
                'used': 512 + floating + affined,
                'vcpus_used': (floating + affined) // 512,
                'guests': bool(floating) + bool(affined),
                'report': text,
                **values,
            },
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
        ]
        self.assertEqual(
            ['empty', 'floating'], self.passed(self.floating, *hosts)
        )
        self.assertEqual(
            ['empty', 'affined'], self.passed(self.affined, *hosts)
        )

    def test_mixed_hosts(self):
        """They take one kind, none, or both."""
        for text in (None, REPORT):
            hosts = [
                self.host('f', floating=4096, affined=1024, text=text),
                self.host('a', floating=1024, affined=4096, text=text),
            ]
            for word, floating, affined in (
                ('dominant', ['f'], ['a']),
                ('closed', [], []),
                ('open', ['f', 'a'], ['f', 'a']),
            ):
                self.flags(mixed_hosts=word)
                self.assertEqual(floating, self.passed(self.floating, *hosts))
                self.assertEqual(affined, self.passed(self.affined, *hosts))

    def test_why_a_mixed_host_is_removed(self):
        host = self.host(floating=4096, affined=1024)
        for word, reason in (
            ('closed', isolation.Reason.MIXED_CLOSED),
            ('dominant', isolation.Reason.MINORITY_KIND),
        ):
            self.flags(mixed_hosts=word)
            request = self.filter._judge.request(self.affined)
            verdict = request.fits(host, request.look(host))
            self.assertEqual(reason, verdict.reason)
            self.assertIn('4096', verdict.detail)

    def test_near_the_middle_the_host_has_the_last_word(self):
        for last in guests.Kind:
            for floating, affined in ((1024, 1200), (1200, 1024)):
                host = self.host(
                    floating=floating,
                    affined=affined,
                    text=samples.record_text(dominant=last),
                )
                self.assertEqual(
                    ['host1'] if last is guests.Kind.FLOATING else [],
                    self.passed(self.floating, host),
                )

    def test_exempt_guests(self):
        """They join any host."""
        hosts = [
            self.host('floating', floating=1024),
            self.host('affined', affined=1024),
        ]
        for cells in ((), (samples.guest_cell(),)):
            spec = samples.request(*cells, isolation='exempt')
            self.assertEqual(
                ['floating', 'affined'], self.passed(spec, *hosts)
            )
        self.assert_logged('INFO')

    def test_and_they_need_room_like_any(self):
        spec = samples.request(isolation='exempt', memory=17000)
        self.assertEqual([], self.passed(spec, self.host()))
        self.assert_logged(
            'INFO',
            f'NUMA guard removed 1 of 1 hosts for exempt guest '
            f'{uuids.instance}: small-pages-short: 1',
        )

    def test_no_room(self):
        """A request is one line, and a host is one line below it."""
        hosts = [
            self.host('none', used=16000, guests=9, vcpus_used=9),
            self.host('cells', text=self.by_cell(memory=1023)),
            self.host('cpus', text=self.by_cell(cpus=0)),
            self.host('wrong', affined=1024),
            self.host('good'),
        ]
        self.assertEqual(['good'], self.passed(self.floating, *hosts))
        self.assert_logged(
            'INFO',
            f'NUMA guard removed 4 of 5 hosts for floating guest '
            f'{uuids.instance}: affined-present: 1, '
            f'floating-cells-cpus-short: 1, floating-cells-memory-short: 1, '
            f'small-pages-short: 1',
        )
        lines = self.log.at('DEBUG')
        self.assertEqual(4, len(lines))
        self.assertIn('needed 1024 MiB, available 384', lines[0])
        self.assertIn('(affined guests present: 1, 1024 MiB)', lines[3])

    def by_cell(self, memory=4096, cpus=8):
        return samples.record_text(
            'cell', cells=report.FloatingCells((2,), cpus, memory)
        )

    def test_affined_guests_need_no_small_pages(self):
        """Nova has counted theirs, cell by cell."""
        spec = samples.request(samples.guest_cell(), memory=99999)
        self.assertEqual(['host1'], self.passed(spec, self.host()))

    def test_a_host_that_is_isolated_by_cell_takes_both(self):
        hosts = [
            self.host('floating', floating=1024, text=self.by_cell()),
            self.host('affined', affined=1024, text=self.by_cell()),
        ]
        for spec in (self.floating, self.affined):
            self.assertEqual(
                ['floating', 'affined'], self.passed(spec, *hosts)
            )

    def test_the_strictest_of_scheduler_and_compute_counts(self):
        by_host = samples.record_text('host')
        host = self.host(floating=1024, text=by_host)
        for word in ('none', 'host', 'cell'):
            self.flags(isolation=word)
            self.assertEqual([], self.passed(self.affined, host), word)
        other = self.host(floating=1024)
        for word, passed in (('none', ['host1']), ('cell', [])):
            self.flags(isolation=word)
            self.assertEqual(passed, self.passed(self.affined, other), word)

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
            self.host('b', affined=2048, floating=512),
            broken,
        )
        self.assert_logged(
            'INFO',
            f'NUMA guard removed 2 of 3 hosts for floating guest '
            f'{uuids.instance}: affined-present: 1, minority-kind: 1, '
            f'unreadable: 1',
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

    def test_warn_lets_guests_without_room_pass_too(self):
        self.flags(isolation_mode='warn')
        spec = samples.request(memory=99999)
        self.assertEqual(['host1'], self.passed(spec, self.host()))
        self.assert_logged(
            'INFO',
            f'NUMA guard would have removed 1 of 1 hosts for floating guest '
            f'{uuids.instance}: small-pages-short: 1',
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

    def test_nor_does_any_other_that_changes(self):
        self.raw(isolation='host', mixed_hosts='x', isolation_on_moves='y')
        found = self.passed(
            samples.request(samples.guest_cell(), moves=True),
            self.host('f', floating=4096, affined=1024),
            self.host('a', floating=1024, affined=4096),
        )
        self.assertEqual(['f', 'a'], found)
        self.assertEqual(2, len(self.log.at('ERROR')))

    def test_one_host(self):
        """What Nova calls if something wraps the filter."""
        host = self.host(floating=1024)
        self.assertFalse(self.filter.host_passes(host, self.affined))
        self.assertTrue(self.filter.host_passes(host, self.floating))
        self.assertTrue(
            self.filter.host_passes(
                host, samples.request(samples.guest_cell(), moves=True)
            )
        )
        self.flags(isolation_mode='warn')
        self.assertTrue(self.filter.host_passes(host, self.affined))

    def test_rebuilds_pass(self):
        spec = samples.request(
            samples.guest_cell(), hints={'_nova_check_type': ['rebuild']}
        )
        self.assertEqual(
            ['host1'], self.passed(spec, self.host(floating=1024))
        )
        self.assertEqual([], self.log.records)

    def test_rebuilds_pass_though_there_is_no_room(self):
        spec = samples.request(
            memory=99999, hints={'_nova_check_type': ['rebuild']}
        )
        self.assertEqual(['host1'], self.passed(spec, self.host()))

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
        spec = self.affined if spec is None else spec
        for _ in range(2):
            self.assertEqual(
                [host],
                list(self.filter.filter_all([host], spec)),
            )
            self.assertTrue(self.filter.host_passes(host, spec))

    def assert_unjudged(self, host, spec=None):
        self.assert_passes(host, spec)
        self.assertEqual(1, len(self.log.at('WARNING')))
        self.assertIn(
            f'host {host.host}: it cannot be judged and passes',
            self.log.at('WARNING')[0],
        )

    def assert_unread(self, spec):
        """The request is what is complained of, whatever the host."""
        self.assert_passes(self.host(floating=1024), spec)
        [warning] = self.log.at('WARNING')
        self.assertIn('requests cannot be read, and all hosts pass', warning)

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
        for aggregates in (None, []):
            host = self.host(f'host-{aggregates}')
            host.aggregates = aggregates
            self.assert_passes(host)
        self.assertEqual(1, len(self.log.at('WARNING')))
        host = self.host('bare')
        del host.aggregates
        self.assert_passes(host)
        self.assertEqual(2, len(self.log.at('WARNING')))

    def test_junk_aggregates(self):
        for number, metadata in enumerate(
            ({'numa_guard:isolation': 7}, {'numa_guard:accepts': ['any']}, 7)
        ):
            host = self.host(f'host{number}')
            host.aggregates = [
                types.SimpleNamespace(name='junk', metadata=metadata)
            ]
            self.assert_passes(host)
            self.assertEqual(number + 1, len(self.log.at('WARNING')))

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
            'aggregates',
            'ram_allocation_ratio',
        ):
            host = self.host(name.replace('_', '-'), floating=512, text=None)
            delattr(host, name)
            self.assertEqual(
                [host.host], self.passed(self.floating, host), name
            )
        self.assertEqual(7, len(self.log.at('WARNING')))

    def test_a_host_that_is_no_host_state(self):
        self.assertTrue(self.filter.host_passes(object(), self.affined))
        self.assert_passes(None)
        self.assertEqual(2, len(self.log.at('WARNING')))

    def test_a_request_without_a_topology_field(self):
        spec = samples.request()
        del spec._obj_numa_topology
        self.assert_unread(spec)
        self.assertIn('unreadable guest', self.log.at('INFO')[0])

    def test_requests_that_lack_anything_else(self):
        for field in ('flavor', 'ignore_hosts', 'scheduler_hints'):
            for spec in (samples.request(), samples.request(moves=True)):
                delattr(spec, f'_obj_{field}')
                host = self.host(field.replace('_', '-'))
                self.assert_passes(host, spec)

    def test_no_request(self):
        self.assert_passes(self.host(floating=1024), False)
        [warning] = self.log.at('WARNING')
        self.assertIn('requests cannot be read', warning)

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


JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(
        st.sampled_from(['numa_guard', 'numa_guard:isolation', 'x']),
        st.text(max_size=3) | st.integers(),
        max_size=2,
    )
    | st.just(types.SimpleNamespace(cells=[object()]))
    | st.just(types.SimpleNamespace(cells=None))
)


class AnyJunkTest(FilterTestCase):
    @hypothesis.given(
        st.dictionaries(
            st.sampled_from(
                [
                    'host',
                    'stats',
                    'aggregates',
                    'numa_topology',
                    'free_ram_mb',
                    'total_usable_ram_mb',
                    'vcpus_used',
                    'num_instances',
                    'ram_allocation_ratio',
                    'cpu_allocation_ratio',
                ]
            ),
            JUNK,
        ),
        st.booleans(),
        st.booleans(),
    )
    def test_it_never_raises(self, junk, affined, moves):
        host = self.host(floating=1024)
        for name, value in junk.items():
            setattr(host, name, value)
        cells = [samples.guest_cell()] if affined else []
        spec = samples.request(*cells, moves=moves)
        passed = list(self.filter.filter_all([host], spec))
        self.assertEqual(bool(passed), self.filter.host_passes(host, spec))

    @hypothesis.given(JUNK, st.text(max_size=9) | JUNK)
    def test_nor_for_what_others_have_written(self, record, word):
        host = self.host(floating=1024)
        host.stats = {'numa_guard': record}
        host.aggregates = [
            types.SimpleNamespace(
                name='junk',
                metadata=dict.fromkeys(
                    (
                        'numa_guard:isolation',
                        'numa_guard:isolation_mode',
                        'numa_guard:accepts',
                    ),
                    word,
                ),
            )
        ]
        list(self.filter.filter_all([host], self.affined))


class MoveTest(FilterTestCase):
    """A guest that leaves its host: the wrong kind of host beats none."""

    def setUp(self):
        super().setUp()
        self.floating = samples.request(moves=True)
        self.affined = samples.request(samples.guest_cell(), moves=True)

    def test_hosts_of_the_wrong_kind_are_kept(self):
        """The weigher puts them last."""
        self.assertEqual(
            ['wrong', 'empty', 'right'],
            self.passed(
                self.affined,
                self.host('wrong', floating=1024),
                self.host('empty'),
                self.host('right', affined=1024),
            ),
        )
        self.assert_logged('WARNING')
        self.assert_logged(
            'INFO',
            f'NUMA guard kept as the last choice 1 of 3 hosts for affined '
            f'guest {uuids.instance}: floating-present: 1',
        )

    def test_with_a_warning_if_there_are_no_others(self):
        self.assertEqual(
            ['wrong', 'mixed'],
            self.passed(
                self.affined,
                self.host('wrong', floating=1024),
                self.host('mixed', floating=4096, affined=1024),
            ),
        )
        self.assert_logged('INFO')
        self.assert_logged(
            'WARNING',
            f'NUMA guard kept as the last choice 2 of 2 hosts for affined '
            f'guest {uuids.instance}: floating-present: 1, minority-kind: 1; '
            f'it moves, and no host of its kind is left, so that two kinds '
            f'will be mixed',
        )

    def test_a_host_that_cannot_be_judged_may_be_of_its_kind(self):
        broken = self.host('broken')
        broken.free_ram_mb = None
        self.passed(self.affined, self.host(floating=1024), broken)
        self.assertEqual(1, len(self.log.at('INFO')))

    def test_a_host_that_is_only_warned_of_is_no_last_choice(self):
        lax = self.host('lax', floating=1024)
        lax.aggregates = [samples.aggregate(isolation_mode='warn')]
        self.assertEqual(
            ['strict', 'lax'],
            self.passed(self.affined, self.host('strict', floating=1024), lax),
        )
        self.assert_logged('WARNING')
        self.assert_logged(
            'INFO',
            f'NUMA guard would have removed 1 and kept as the last choice 1 '
            f'of 2 hosts for affined guest {uuids.instance}: '
            f'floating-present: 2',
        )

    def test_enforce(self):
        self.flags(isolation_on_moves='enforce')
        self.assertEqual(
            ['empty'],
            self.passed(
                self.affined,
                self.host('wrong', floating=1024),
                self.host('empty'),
            ),
        )
        self.assertEqual(
            [], self.passed(self.affined, self.host(floating=1024))
        )
        self.assert_logged('WARNING')

    def test_builds_are_not_moves(self):
        for hosts in (None, []):
            self.affined.ignore_hosts = hosts
            self.assertEqual(
                [], self.passed(self.affined, self.host(floating=1024))
            )

    def test_without_room_it_does_not_move(self):
        """QEMU would not start, or take it from the others."""
        for text in (None, REPORT):
            spec = samples.request(moves=True, memory=15000)
            host = self.host(floating=1024, text=text)
            self.assertEqual([], self.passed(spec, host))
            self.assertEqual(1, len(self.log.at('INFO')))
            self.assertIn('small-pages-short: 1', self.log.at('INFO')[0])
            self.log.records.clear()
        self.assert_logged('WARNING')

    def test_without_room_it_does_not_move_to_the_wrong_kind_either(self):
        """Where 95 % of the memory are the huge pages of affined guests."""
        host = samples.host_state(
            samples.host_cell(0, huge=3892, memory_usage=2048),
            samples.host_cell(1, huge=3892),
            used=512 + 2048,
            guests=1,
            vcpus_used=4,
            report=REPORT,
        )
        host.numa_topology.cells[0].mempages[1].used = 1024
        self.assertEqual([], self.passed(self.floating, host))
        self.assertEqual(
            ['host1'],
            self.passed(samples.request(moves=True, memory=304), host),
        )
        first, second = (*self.log.at('INFO'), *self.log.at('WARNING'))
        self.assertIn('removed 1 of 1', first)
        self.assertIn('small-pages-short: 1', first)
        self.assertIn('affined-present: 1', second)

    def test_exempt_guests(self):
        spec = samples.request(moves=True, isolation='exempt')
        self.assertEqual(['host1'], self.passed(spec, self.host(affined=512)))
        self.assertEqual([], self.log.records)

    def test_a_host_that_accepts_the_other_kind_only(self):
        host = self.host()
        host.aggregates = [samples.aggregate(accepts='floating')]
        self.assertEqual(['host1'], self.passed(self.affined, host))
        [warning] = self.log.at('WARNING')
        self.assertIn('not-accepted: 1', warning)


class AggregateTest(FilterTestCase):
    def host(self, name='host1', *aggregates, **values):
        return super().host(name, aggregates=aggregates, **values)

    def test_one_host_is_enforced_and_one_warned(self):
        hosts = [
            self.host('default', floating=1024),
            self.host(
                'lax', samples.aggregate(isolation_mode='warn'), floating=1024
            ),
            self.host(
                'strict',
                samples.aggregate(isolation_mode='enforce'),
                floating=1024,
            ),
        ]
        for word, passed, did in (
            ('enforce', ['lax'], 'removed 2 and would have removed 1'),
            (
                'warn',
                ['default', 'lax'],
                'removed 1 and would have removed 2',
            ),
        ):
            self.flags(isolation_mode=word)
            self.log.records.clear()
            self.assertEqual(passed, self.passed(self.affined, *hosts))
            self.assert_logged(
                'INFO',
                f'NUMA guard {did} of 3 hosts for affined guest '
                f'{uuids.instance}: floating-present: 3',
            )

    def test_enforce_beats_warn(self):
        host = self.host(
            'both',
            samples.aggregate('a', isolation_mode='warn'),
            samples.aggregate('b', isolation_mode='enforce'),
            floating=1024,
        )
        self.assertEqual([], self.passed(self.affined, host))

    def test_isolation_where_there_is_none(self):
        self.flags(isolation='none')
        hosts = [
            self.host('free', floating=1024),
            self.host(
                'isolated', samples.aggregate(isolation='host'), floating=1024
            ),
        ]
        self.assertEqual(['free'], self.passed(self.affined, *hosts))

    def test_isolation_cannot_be_taken_away(self):
        host = self.host(
            'host1', samples.aggregate(isolation='none'), floating=1024
        )
        self.assertEqual([], self.passed(self.affined, host))
        [warning] = self.log.at('WARNING')
        self.assertIn('host host1: aggregates ask for no isolation', warning)

    def test_what_a_host_accepts(self):
        self.flags(isolation='none')
        hosts = [
            self.host('any', samples.aggregate(accepts='any')),
            self.host('floating', samples.aggregate(accepts='floating')),
            self.host('affined', samples.aggregate(accepts='affined')),
        ]
        self.assertEqual(
            ['any', 'floating'], self.passed(self.floating, *hosts)
        )
        self.assertEqual(['any', 'affined'], self.passed(self.affined, *hosts))
        self.assertIn('not-accepted: 1', self.log.at('INFO')[0])

    def test_a_conflict_is_named_once(self):
        aggregates = (
            samples.aggregate('a', accepts='floating', isolation_mode='loud'),
            samples.aggregate('b', accepts='affined'),
        )
        hosts = [self.host('h1', *aggregates), self.host('h2', *aggregates)]
        for _ in range(3):
            self.assertEqual([], self.passed(self.affined, *hosts))
        first, second = self.log.at('WARNING')
        self.assertIn('host h1: ', first)
        self.assertIn('aggregates disagree on numa_guard:accepts', first)
        self.assertIn(
            'aggregate a has numa_guard:isolation_mode=loud, which is none of',
            first,
        )
        self.assertIn('host h2: ', second)

    def test_a_conflict_that_changes_is_named_anew(self):
        for words in ('loud', 'quiet', 'loud'):
            self.passed(
                self.affined,
                self.host('h', samples.aggregate(isolation_mode=words)),
            )
        self.assertEqual(2, len(self.log.at('WARNING')))


class StartTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.config.config(group='filter_scheduler', weight_classes=[WEIGHER])

    def test_it_says_that_it_does_nothing(self):
        filters.NUMAGuardFilter()
        [warning] = self.log.at('WARNING')
        self.assertIn('[numa_guard] isolation is "none"', warning)

    def test_it_says_that_nothing_prefers_hosts_for_moves(self):
        self.flags(isolation='host')
        for classes, warnings in (
            (['nova.scheduler.weights.all_weighers'], 1),
            (['nova.scheduler.weights.all_weighers', WEIGHER], 0),
        ):
            self.log.records.clear()
            self.config.config(
                group='filter_scheduler', weight_classes=classes
            )
            filters.NUMAGuardFilter()
            self.assertEqual(warnings, len(self.log.at('WARNING')))
        self.flags(weight_multiplier=0.0)
        filters.NUMAGuardFilter()
        self.assertEqual(1, len(self.log.at('WARNING')))
        self.log.records.clear()
        self.flags(isolation_on_moves='enforce')
        self.config.config(group='filter_scheduler', weight_classes=[])
        filters.NUMAGuardFilter()
        self.assert_logged('WARNING')

    def test_what_it_says_of_the_weigher(self):
        self.flags(isolation='host')
        self.config.config(group='filter_scheduler', weight_classes=[])
        filters.NUMAGuardFilter()
        [warning] = self.log.at('WARNING')
        self.assertIn(WEIGHER, warning)
        self.assertIn('isolation_on_moves is "prefer"', warning)

    def test_the_weigher_has_that_name(self):
        self.assertEqual(
            WEIGHER,
            f'{weights.NUMAGuardWeigher.__module__}.'
            f'{weights.NUMAGuardWeigher.__name__}',
        )
        self.assertEqual(WEIGHER, filters._WEIGHER)

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
        for name in (
            'isolation',
            'isolation_mode',
            'mixed_hosts',
            'isolation_on_moves',
            'weight_multiplier',
        ):
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
