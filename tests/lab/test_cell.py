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

"""Computes and their conductor are a cell, from which no way leads up.

That nothing has tried to, every test checks when it is over.
"""

import configparser
import pathlib
import re

from tests.lab import base
from tests.lab.stack import config, nova


class CellTest(base.LabTestCase):
    def test_nothing_in_the_cell_knows_the_database_of_the_api(self) -> None:
        for service in base.CELL:
            options = self.options(service)
            self.assertTrue(
                options['DEFAULT']['transport_url'].endswith(
                    f'/{config.CELL}'
                ),
                service,
            )
            self.assertNotIn('api_database', options, service)
            self.assertEqual(
                service == nova.CELL_CONDUCTOR, 'database' in options, service
            )

        above = self.options(base.SCHEDULER)
        self.assertTrue(
            above['DEFAULT']['transport_url'].endswith(f'/{config.TOP}')
        )
        self.assertIn('connection', above['api_database'])

        self.boot(self.lab.huge_pinned)

    @base.run_with(
        base.SECOND,
        {'workarounds': {'disable_group_policy_check_upcall': 'false'}},
    )
    def test_a_call_up_from_the_cell_fails(self) -> None:
        """So the checks for them would find one."""
        self.upcalls_expected = True
        server = self.boot(self.lab.huge_pinned, host=base.FIRST)

        server = self.client.act(
            server.uuid,
            'os-migrateLive',
            {'host': base.SECOND, 'block_migration': 'auto'},
        )

        self.assertEqual(base.FIRST, server.host)
        self.assertEqual(['error'], self.client.migrations(server.uuid))
        self.assertNotEqual([], self.upcalls())

    def options(self, service: str) -> configparser.ConfigParser:
        """The options that a service has been started with."""
        pid = self.lab.stack.processes.pid(service)
        # Some show a title of their own, with the command line in brackets.
        words = pathlib.Path(f'/proc/{pid}/cmdline').read_text()
        (file,) = re.findall(r'--config-\w+=([^\0\s\]]+)', words)
        # An option may be there several times.
        found = configparser.ConfigParser(strict=False, interpolation=None)
        found.read_string(pathlib.Path(file).read_text())
        return found
