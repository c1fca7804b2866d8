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

"""The command ``explain``, by Nova's own databases."""

import sys
from unittest import mock

import fixtures
from nova import context as nova_context
from nova import objects
from oslo_db import exception as db_exception
from oslo_utils import uuidutils

from nova_numa_guard.cloud import config
from tests.functional import fleets
from tests.unit import samples
from tests.unit.cmd import runner


class ExplainTestCase(fleets.FleetTestCase):
    def setUp(self):
        super().setUp()
        # The test's databases are open already.
        self.useFixture(fixtures.MockPatchObject(config, 'load', mock.Mock()))
        self.flags(isolation='host', group='numa_guard')
        self.flags(
            enabled_filters=['NUMATopologyFilter'], group='filter_scheduler'
        )

    def explain(self, *words):
        """The rows by host, and the first line of stderr."""
        result = runner.run('explain', *words, '-f', 'json')
        self.assertEqual(0, result.code, result.stderr)
        rows = {row['Host']: row for row in result.json}
        return rows, result.stderr.split('\n')[0], result.stderr

    def refused(self, *words):
        """What a command says that has no answer."""
        result = runner.run('explain', *words)
        self.assertEqual(2, result.code)
        self.assertEqual('', result.stdout)
        self.assertEqual(1, result.stderr.count('\n'), result.stderr)
        return result.stderr

    def cloud(self):
        """Four hosts: empty, floating, without pages, disabled."""
        full = samples.host_cell(0, huge=1024)
        full.mempages[1].used = 800
        full.memory_usage = 1600
        self.host('empty', samples.host_cell(0, huge=1024))
        self.host(
            'floating',
            samples.host_cell(0, huge=1024),
            used=4608,
            vcpus_used=4,
            guests=2,
            report=samples.record_text(),
        )
        self.host(
            'full',
            full,
            used=2112,
            guests=1,
            report=samples.record_text(),
        )
        self.host('off', samples.host_cell(0, huge=1024), disabled=True)
        self.flavor('huge', hw__mem_page_size='2048')
        self.flavor('plain')

    def test_a_flavor(self):
        self.cloud()
        rows, summary, _ = self.explain('--flavor', 'huge')
        self.assertEqual(
            'affined guest: 1 of 4 hosts: 1 disabled, 1 hold floating guests, '
            '1 short of 2048 KiB pages',
            summary,
        )
        self.assertEqual(['empty', 'floating', 'full', 'off'], list(rows))
        self.assertEqual(
            ['passes', 'passes'],
            [rows['empty']['Guard'], rows['empty']['Nova']],
        )
        self.assertEqual(
            (
                'fails',
                'floating-present: floating guests present: 2, 4096 MiB',
            ),
            (rows['floating']['Guard'], rows['floating']['Guard says']),
        )
        self.assertEqual(
            (
                'fails',
                'guest cell 0: host cell 0: pages of 2048 KiB: needed 512, '
                'available 224 (1024 in all, 800 claimed, 0 reserved)',
            ),
            (rows['full']['Nova'], rows['full']['Nova says']),
        )
        self.assertEqual('disabled', rows['off']['Away'])

    def test_the_other_kind(self):
        self.cloud()
        rows, summary, err = self.explain('--flavor', 'plain')
        self.assertIn('floating guest: 2 of 4 hosts', summary)
        self.assertIn('affined-present', rows['full']['Guard says'])
        self.assertIn('NUMAGuardFilter is not among', err)
        self.assertNotIn('NUMATopologyFilter is not among', err)

    def test_as_if_there_were_no_guests(self):
        self.cloud()
        _, summary, _ = self.explain('--flavor', 'huge', '--assume-empty')
        self.assertEqual('affined guest: 3 of 4 hosts: 1 disabled', summary)

    def test_one_host(self):
        self.cloud()
        rows, summary, _ = self.explain(
            '--flavor', 'huge', '--host', 'floating'
        )
        self.assertEqual(['floating'], list(rows))
        self.assertIn('0 of 1 hosts', summary)

    def test_an_image(self):
        self.cloud()
        words = ('--image-property', 'hw_numa_nodes=1')
        _, summary, _ = self.explain('--flavor', 'plain', *words)
        self.assertIn('affined guest: 2 of 4 hosts', summary)

    def test_a_server(self):
        self.cloud()
        uuid = self.server('huge', 'floating')
        rows, summary, err = self.explain('--server', uuid)
        self.assertEqual('holds the server', rows['floating']['Away'])
        self.assertIn('1 of 4 hosts', summary)
        self.assertIn('The server is on host floating', err)

    def test_a_server_without_a_host(self):
        self.cloud()
        rows, _, err = self.explain('--server', self.server('huge', None))
        self.assertEqual('fails', rows['floating']['Guard'])
        self.assertNotIn('The server is on', err)

    def server(self, flavor, host):
        uuid = uuidutils.generate_uuid()
        objects.InstanceMapping(
            self.context,
            instance_uuid=uuid,
            cell_mapping=self.cell,
            project_id='p',
        ).create()
        flavor = objects.Flavor.get_by_name(self.context, flavor)
        spec = fleets.request_spec(self.context, flavor, uuid)
        spec.create()
        with nova_context.target_cell(self.context, self.cell) as cell:
            objects.Instance(
                cell, uuid=uuid, host=host, project_id='p', flavor=flavor
            ).create()
        return uuid

    def test_what_is_not_there(self):
        self.cloud()
        uuid = uuidutils.generate_uuid()
        self.assertIn('no flavor nothing', self.refused('--flavor', 'nothing'))
        self.assertIn(uuid, self.refused('--server', uuid))
        self.assertIn('no request', self.refused('--server', 'x'))
        self.assertIn(
            'no compute host nothing',
            self.refused('--flavor', 'huge', '--host', 'nothing'),
        )
        self.flavor('bad', hw__mem_page_size='nonsense')
        self.assertIn('would refuse', self.refused('--flavor', 'bad'))

    def test_a_database_does_not_answer(self):
        error = db_exception.DBConnectionError('gone')
        with mock.patch.object(
            objects.Flavor, 'get_by_name', side_effect=error
        ):
            said = self.refused('--flavor', 'x')
        self.assertIn("Nova's database does not answer: ", said)

    def test_a_cell_is_silent(self):
        self.cloud()
        with mock.patch.object(
            objects.ComputeNodeList,
            'get_all',
            side_effect=db_exception.DBConnectionError('gone'),
        ):
            rows, _, err = self.explain('--flavor', 'huge')
        self.assertEqual({}, rows)
        self.assertIn('cell1 did not answer', err)

    def test_a_thousand_hosts(self):
        """Nothing is asked host by host, and nothing is written."""
        self.host(
            'rack',
            samples.host_cell(0, huge=128),
            samples.host_cell(1, huge=128),
            report=samples.record_text(),
        )
        self.flavor('huge', hw__mem_page_size='2048', hw__numa_nodes='2')
        _, _, few = self.timed(lambda: self.explain('--flavor', 'huge'))
        self.copies('rack', 999)
        found, seconds, many = self.timed(
            lambda: self.explain('--flavor', 'huge')
        )
        self.assertIn('0 of 1000 hosts: 1000 short of 2048', found[1])
        sys.__stderr__.write(f'explain: 1,000 hosts in {seconds:.2f} s\n')
        self.assertEqual(len(few), len(many))
        words = {each.split()[0] for each in many}
        self.assertEqual({'SELECT'}, words - {'BEGIN', 'PRAGMA'})
