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

"""The command ``hosts list``, by Nova's own databases."""

import json
import time
from unittest import mock

import fixtures
from nova import context as nova_context
from nova import objects
from oslo_utils import uuidutils

from nova_numa_guard import occupancy, refusals
from nova_numa_guard.cloud import config
from tests.functional import fleets
from tests.unit import samples
from tests.unit.cmd import runner


class HostsTest(fleets.FleetTestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(fixtures.MockPatchObject(config, 'load', mock.Mock()))
        self.flags(isolation='host', group='numa_guard')
        cell = samples.host_cell(0, huge=1024, memory_usage=1024)
        cell.mempages[1].used = 512
        refused = refusals.Refusal(0, 2048, time.time() + 300)
        self.host(
            'mixed',
            cell,
            used=512 + 1024 + 512,
            guests=2,
            report=samples.record_text(
                affined=occupancy.Share(1, 1024, 2),
                headroom={2048: {0: 500}},
                refused=(refused,),
                guard='9.8.7',
            ),
        )
        self.host(
            'floating',
            samples.host_cell(0, huge=1024),
            used=4608,
            vcpus_used=4,
            guests=2,
            report=samples.record_text('host'),
        )
        self.host('stock', samples.host_cell(0), disabled=True)

    def list(self, *words):
        result = runner.run('hosts', 'list', *words, '-f', 'json')
        self.assertEqual(0, result.code, result.stderr)
        return json.loads(result.stdout), result.stderr

    def test_the_list(self):
        rows, _ = self.list()
        by_name = {row['Host']: row for row in rows}
        self.assertEqual(['floating', 'mixed', 'stock'], list(by_name))
        self.assertEqual(
            {
                'Host': 'mixed',
                'Zone': 'nova',
                'Away': None,
                'Guard': '9.8.7',
                'Isolation': 'host',
                'Guests': 'mixed',
                'Floating': 512,
                'Affined': 1024,
                'Free pages': {'2048': {'0': 500}},
                'Refused': ['0:2048'],
            },
            by_name['mixed'],
        )
        self.assertEqual('floating', by_name['floating']['Guests'])
        self.assertEqual('yes', by_name['floating']['Guard'])
        self.assertEqual(
            (None, 'disabled', 'none'),
            tuple(by_name['stock'][c] for c in ('Guard', 'Away', 'Guests')),
        )

    def test_capacity(self):
        rows, _ = self.list('--capacity')
        by_name = {row['Host']: row for row in rows}
        self.assertEqual(['affined'], by_name['mixed']['Accepts'])
        self.assertEqual({'2048': 1024}, by_name['mixed']['Largest cell'])
        self.assertEqual(['floating'], by_name['floating']['Accepts'])
        self.assertEqual(2048, by_name['floating']['Stranded'])
        self.assertEqual(8, by_name['floating']['Stranded CPUs'])
        self.assertEqual(
            ['no room for floating', 'no room for affined'],
            [by_name[name]['Failover'] for name in ('floating', 'mixed')],
        )
        self.assertEqual('yes', by_name['stock']['Failover'])

    def test_one_host(self):
        for words in ((), ('--capacity',)):
            rows, _ = self.list('--host', 'mixed', *words)
            self.assertEqual(['mixed'], [row['Host'] for row in rows])
        result = runner.run('hosts', 'list', '--host', 'nothing')
        self.assertEqual(2, result.code)
        self.assertIn('no compute host nothing', result.stderr)

    def test_the_plan(self):
        self.flavor('plain', memory=512)
        self.flavor('huge', hw__numa_nodes='1')
        self.flavor('free', numa_guard__isolation='exempt')
        floating = self.server('plain')
        self.server('huge', samples.guest_cell())
        self.server('free')
        rows, err = self.list('--plan')
        self.assertIn(
            'enable dominant: 1 of 3 hosts are mixed, and these servers are '
            'the minority',
            err,
        )
        self.assertEqual(
            [
                {
                    'Host': 'mixed',
                    'Dominant': 'affined',
                    'Server': floating,
                    'Kind': 'floating',
                    'Memory': 512,
                }
            ],
            rows,
        )

    def server(self, flavor, *cells):
        flavor = objects.Flavor.get_by_name(self.context, flavor)
        uuid = uuidutils.generate_uuid()
        with nova_context.target_cell(self.context, self.cell) as cell:
            objects.Instance(
                cell,
                uuid=uuid,
                host='mixed',
                project_id='p',
                flavor=flavor,
                memory_mb=flavor.memory_mb,
                numa_topology=samples.topology(*cells),
            ).create()
        return uuid
