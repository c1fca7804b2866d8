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

"""What is read of a log is what the filters write there."""

import logging

import fixtures
from nova import objects
from nova.scheduler.filters import numa_topology_filter

from nova_numa_guard import logged
from nova_numa_guard.scheduler import filters
from tests.unit import base, samples
from tests.unit.cmd import runner

REQUEST = 'req-0b6a1c1e-6d5e-4a0f-9d0b-3c1f6f2a9b11'
OTHER = 'req-0b6a1c1e-6d5e-4a0f-9d0b-3c1f6f2a9b12'


class LoggedTest(base.TestCase):
    def lines(self):
        """Those that both filters write of a guest, as oslo.log does."""
        record = fixtures.FakeLogger(level=logging.DEBUG)
        self.useFixture(record)
        self.flags(isolation='host')
        spec = samples.request(
            samples.guest_cell(page_size=samples.HUGE, memory=4096)
        )
        spec.image = objects.ImageMeta(properties=objects.ImageMetaProps())
        floating = samples.host_state(
            samples.host_cell(0), host='compute-1.example', used=4608, guests=2
        )
        short = samples.host_state(samples.host_cell(0), host='compute2')
        list(filters.NUMAGuardFilter().filter_all([floating, short], spec))
        short.allocation_candidates = [{'mappings': None}]
        numa_topology_filter.NUMATopologyFilter().host_passes(short, spec)
        return [
            f'2026-12-03 09:00:00.123 7 DEBUG nova.filters [None {request} u p'
            f' - - - -] {line}'
            for request in (REQUEST, OTHER)
            for line in record.output.split('\n')
        ]

    def test_it(self):
        lines = self.lines()
        found = list(logged.verdicts(lines, REQUEST))
        self.assertEqual(
            [
                ('compute-1.example', 'guard', 'floating-present'),
                ('', 'guard', ''),
                ('compute2', 'nova', ''),
            ],
            [(each.host, each.by, each.reason) for each in found],
        )
        self.assertIn('floating guests present: 2, ', found[0].detail)
        self.assertTrue(found[1].detail.startswith('NUMA guard removed 1 of'))
        self.assertEqual(
            'The instance does not fit on this host.', found[2].detail
        )
        self.assertEqual({'2026-12-03 09:00:00.123'}, {f.time for f in found})

    def test_the_command(self):
        result = runner.run(
            *('explain', '--log', '-', '--request-id', REQUEST, '-f', 'json'),
            stdin='\n'.join(self.lines()),
        )
        self.assertEqual(0, result.code, result.stderr)
        self.assertEqual(
            ['compute-1.example', 'compute2'],
            [row['Host'] for row in result.json],
        )
        self.assertIn('NUMA guard removed 1 of 2 hosts', result.stderr)

    def test_what_an_operator_can_cause(self):
        for words, part in (
            (('--log', '-', '--request-id', OTHER), 'has no verdict'),
            (('--log', '-'), 'belong together'),
            (('--flavor', 'x', '--request-id', OTHER), 'belong together'),
            (('--log', '/nowhere/x', '--request-id', OTHER), '/nowhere/x'),
            (('--log', '-', '--request-id', '3'), 'is not a request id'),
            (('--flavor', 'x', '--image-property', 'y'), 'KEY=VALUE'),
            (('--server', 'x', '--image', 'y'), 'are for --flavor'),
        ):
            result = runner.run('explain', *words)
            self.assertEqual(2, result.code)
            self.assertEqual('', result.stdout)
            self.assertIn(part, result.stderr)
            self.assertNotIn('Traceback', result.stderr)
