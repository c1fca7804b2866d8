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

"""Nova's HostState and RequestSpec, read as isolation.py wants them."""

from nova.objects import fields
from nova.scheduler import host_manager

from nova_numa_guard import guests, isolation, report
from nova_numa_guard.scheduler import host_states
from tests.unit import base, samples


class ExplodingHostState(host_manager.HostState):
    """One that tells if somebody makes it ask the database."""

    @property
    def instances(self):
        raise AssertionError('HostState.instances was read')

    @instances.setter
    def instances(self, value):
        pass


class ContentTest(base.TestCase):
    def assert_content(self, floating, affined, host):
        self.assertEqual(
            isolation.HostContent(floating=floating, affined=affined),
            host_states.content_of(host),
        )

    def reserved(self, mib):
        return report.encode(report.Report(mib))

    def test_a_host_that_was_never_updated(self):
        host = host_manager.HostState('host1', 'node1', None)
        self.assertFalse(hasattr(host, 'stats'))
        self.assert_content(0, 0, host)

    def test_an_empty_host(self):
        self.assert_content(0, 0, samples.host_state(samples.host_cell(0)))

    def test_a_host_without_numa(self):
        self.assert_content(0, 0, samples.host_state())
        self.assert_content(
            2048, 0, samples.host_state(used=2560, guests=1, vcpus_used=2)
        )

    def test_a_host_without_cells(self):
        host = samples.host_state(samples.host_cell(0), used=2560, guests=1)
        host.numa_topology.cells = []
        self.assert_content(2048, 0, host)

    def test_both_kinds(self):
        cells = (
            samples.host_cell(0, memory_usage=1024, cpu_usage=2),
            samples.host_cell(1, memory_usage=512, pinned_cpus={24, 25}),
        )
        values = {'used': 512 + 1536 + 256, 'guests': 3, 'vcpus_used': 5}
        for text in (None, self.reserved(512)):
            self.assert_content(
                256, 1536, samples.host_state(*cells, report=text, **values)
            )

    def test_pinned_cpus_are_cpus_of_affined_guests(self):
        """cpu_usage does not count them."""
        host = samples.host_state(
            samples.host_cell(0, memory_usage=1024, pinned_cpus={8, 9, 10}),
            used=4096,
            guests=1,
            vcpus_used=3,
        )
        self.assert_content(0, 1024, host)

    def test_a_reserve_that_the_scheduler_does_not_know(self):
        """Only the host's report tells 4096 MiB of reserve from a guest."""
        cell = samples.host_cell(0, memory_usage=1024, cpu_usage=2)
        values = {'used': 4096 + 1024, 'guests': 1, 'vcpus_used': 4}
        self.config.config(reserved_host_memory_mb=512)
        self.assert_content(3584, 1024, samples.host_state(cell, **values))
        self.assert_content(
            0,
            1024,
            samples.host_state(cell, report=self.reserved(4096), **values),
        )

    def test_the_report_counts_and_not_the_schedulers_option(self):
        self.config.config(reserved_host_memory_mb=8192)
        host = samples.host_state(
            samples.host_cell(0, memory_usage=1024),
            used=512 + 1024 + 2048,
            guests=2,
            report=self.reserved(512),
        )
        self.assert_content(2048, 1024, host)

    def test_without_a_report_the_schedulers_option_counts(self):
        self.config.config(reserved_host_memory_mb=1024)
        self.assert_content(
            1536, 0, samples.host_state(used=2560, guests=1, vcpus_used=1)
        )

    def test_instances_are_not_touched(self):
        host = samples.host_state(
            samples.host_cell(0), cls=ExplodingHostState, used=2560, guests=1
        )
        self.assertRaises(AssertionError, lambda: host.instances)
        self.assert_content(2048, 0, host)


class ConsumeTest(base.TestCase):
    """Guests of one request, placed one by one with Nova's own code."""

    def setUp(self):
        super().setUp()
        self.text = report.encode(report.Report(512))

    def consume(self, spec, report=None, **cell):
        host = samples.host_state(
            samples.host_cell(0, huge=1024, **cell), report=report
        )
        host.consume_from_request(spec)
        self.assertEqual(1, host.num_instances)
        self.assertIsNotNone(host.updated)  # or consuming failed
        return host_states.content_of(host)

    def test_a_floating_guest(self):
        for text in (None, self.text):
            self.assertEqual(
                isolation.HostContent(floating=1024, affined=0),
                self.consume(samples.request(), report=text),
            )

    def test_affined_guests(self):
        for cell in (
            samples.guest_cell(),
            samples.guest_cell(page_size=2048),
            samples.guest_cell(pinned=True),
            samples.guest_cell(
                pinned=True,
                cpu_thread_policy=fields.CPUThreadAllocationPolicy.REQUIRE,
            ),
        ):
            for text in (None, self.text):
                self.assertEqual(
                    isolation.HostContent(floating=0, affined=1024),
                    self.consume(samples.request(cell), report=text),
                    cell,
                )

    def test_isolated_threads(self):
        """They pin whole cores: twice the CPUs that the guest has."""
        for text in (None, self.text):
            cell = samples.guest_cell(
                pinned=True,
                cpu_thread_policy=fields.CPUThreadAllocationPolicy.ISOLATE,
            )
            self.assertEqual(
                isolation.HostContent(floating=0, affined=1024),
                self.consume(
                    samples.request(cell), report=text, **samples.PIN_SET
                ),
            )

    def test_isolated_emulator_threads(self):
        """They pin a CPU more than the guest has."""
        for text in (None, self.text):
            spec = samples.request(
                samples.guest_cell(pinned=True),
                emulator=fields.CPUEmulatorThreadsPolicy.ISOLATE,
            )
            self.assertEqual(
                isolation.HostContent(floating=0, affined=1024),
                self.consume(spec, report=text),
            )

    def test_two_cells(self):
        host = samples.host_state(
            samples.host_cell(0), samples.host_cell(1), report=self.text
        )
        host.consume_from_request(
            samples.request(
                samples.guest_cell(cpus=(0,), node=0),
                samples.guest_cell(cpus=(1,), node=1),
                memory=2048,
            )
        )
        self.assertEqual(
            isolation.HostContent(floating=0, affined=2048),
            host_states.content_of(host),
        )


class BadReportTest(base.TestCase):
    JUNK = (
        '',
        'junk',
        '[]',
        '{}',
        '{"version": 1}',
        '{"version": Infinity}',
        '{"version": 1, "reserved_memory": -1}',
        b'{"version": 1}',
        7,
        {'version': 1},
        ['junk'],
        '[' * 100000,
    )

    def host(self, record, name='host1'):
        host = samples.host_state(used=2560, guests=1, vcpus_used=1, host=name)
        host.stats = {'numa_guard': record}
        return host

    def test_it_is_as_if_there_were_none(self):
        for record in self.JUNK:
            self.assertEqual(
                isolation.HostContent(floating=2048, affined=0),
                host_states.content_of(self.host(record)),
            )

    def test_one_warning_until_it_changes(self):
        for _ in range(3):
            host_states.content_of(self.host('junk'))
        [warning] = self.log.at('WARNING')
        self.assertIn('report of host host1 is ignored', warning)
        self.assertIn('junk', warning)
        host_states.content_of(self.host('other'))
        self.assertEqual(2, len(self.log.at('WARNING')))

    def test_one_warning_per_host(self):
        for name in ('host1', 'host2', 'host1'):
            host_states.content_of(self.host('junk', name))
        self.assertEqual(2, len(self.log.at('WARNING')))

    def test_a_newer_version_is_no_reason_to_warn(self):
        host_states.content_of(self.host('{"version": 2}'))
        self.assert_logged('WARNING')

    def test_no_stats(self):
        host = self.host(None)
        host.stats = None
        self.assertEqual(2048, host_states.content_of(host).floating)


class KindTest(base.TestCase):
    def test_extra_specs_are_not_looked_at(self):
        """They say what was asked for, not what the guest has."""
        spec = samples.request()
        spec.flavor.extra_specs = {'hw:mem_page_size': 'large'}
        self.assertIs(guests.Kind.FLOATING, host_states.kind_of(spec))

    def test_a_topology_is(self):
        self.assertIs(
            guests.Kind.AFFINED,
            host_states.kind_of(samples.request(samples.guest_cell())),
        )
