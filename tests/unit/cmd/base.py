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

"""What the tests of commands have in common."""

import os
import pathlib
import subprocess
import sys

import fixtures

from nova_numa_guard.cmd import app
from tests.unit import base
from tests.unit.cmd import runner
from tests.unit.status import hosts

URI = hosts.URI


class TestCase(base.TestCase):
    """A folder, and no configuration of Nova's on this machine."""

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        # Where oslo.config looks for nova.conf besides /etc, which a machine
        # that runs the tests does not have it in.
        self.conf = self.file('nova.conf', '[DEFAULT]\n')

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def assert_fails(self, words, message, stdin=''):
        """One line on stderr, exit code 2, and nothing on stdout."""
        result = runner.run(*words, stdin=stdin)
        self.assertEqual((2, ''), (result.code, result.stdout))
        self.assertEqual([message], result.stderr.splitlines())

    def assert_forbidden(self, file, words, message=None):
        """It fails without the right to open a file.

        :param message: what is in the one line on stderr
        """
        file.chmod(0)
        # root may read any file, but by a capability that it can give up.
        without = ('setpriv', '--bounding-set=-all', '--inh-caps=-all')
        result = subprocess.run(
            [
                *(without if os.geteuid() == 0 else ()),
                *(sys.executable, '-W', 'ignore', '-m', app.__name__),
                *map(str, words),
            ],
            capture_output=True,
            text=True,
        )
        self.assertEqual((2, ''), (result.returncode, result.stdout))
        [line] = result.stderr.splitlines()
        self.assertIn(message or f'cannot read {file}: Permission', line)

    def assert_misused(self, words, message):
        """The same, below the usage as argparse prints it."""
        result = runner.run(*words)
        self.assertEqual((2, ''), (result.code, result.stdout))
        usage, error = result.stderr.rstrip().rsplit('\n', 1)
        self.assertTrue(usage.startswith('usage: nova-numa-guard'), usage)
        self.assertIn(message, error)
        self.assertNotIn('Traceback', result.stderr)
