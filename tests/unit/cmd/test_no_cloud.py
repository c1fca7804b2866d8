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

"""Commands that read Nova's databases, where these are not.

In a process of its own: Nova's configuration is one for a process.
"""

import pathlib
import subprocess
import sys

import fixtures

from tests.unit import base


class NoCloudTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def run_on(self, text):
        """What a command says of a configuration, or of none."""
        path = self.folder / 'nova.conf'
        if text is not None:
            path.write_text(text)
        done = subprocess.run(
            [
                *(sys.executable, '-W', 'ignore', '-m'),
                *('nova_numa_guard.cmd.app', 'explain', '--flavor', 'x'),
                f'--config-file={path}',
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertEqual('', done.stdout)
        self.assertEqual(1, done.stderr.count('\n'), done.stderr)
        return done.stderr

    def test_there_is_no_such_file(self):
        self.assertIn(str(self.folder), self.run_on(None))

    def test_no_database_is_named(self):
        self.assertIn('has no [api_database] connection', self.run_on(''))

    def test_the_database_has_no_tables(self):
        path = self.folder / 'nova.db'
        said = self.run_on(
            f'[api_database]\nconnection = sqlite:///{path}\n'
            f'[database]\nconnection = sqlite:///{path}\n'
        )
        self.assertIn("Nova's database does not answer: no such table", said)

    def test_it_is_no_database(self):
        said = self.run_on('[api_database]\nconnection = nonsense\n')
        self.assertIn("Nova's database does not answer", said)
