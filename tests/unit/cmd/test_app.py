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

"""What all commands have in common."""

from importlib import metadata
import os
import subprocess
import sys
from unittest import mock

from nova_numa_guard import pools
from nova_numa_guard.cmd import app
from tests.unit import samples
from tests.unit.cmd import base, runner, trees

COMMANDS = ('pools show', 'guests list', 'domain check', 'domain rewrite')


class AppTest(base.TestCase):
    def test_commands_are_found(self):
        found = dict(app.App().command_manager)
        for name in COMMANDS:
            self.assertIn(name, found)

    def test_help(self):
        for name in COMMANDS:
            result = runner.run(*name.split(), '--help')
            self.assertEqual((0, ''), (result.code, result.stderr))
            self.assertIn(f'usage: nova-numa-guard {name}', result.stdout)

    def test_completion(self):
        """It is what Bash reads, and knows the commands."""
        result = runner.run('complete')
        self.assertEqual(0, result.code)
        subprocess.run(
            ['bash', '-n'], input=result.stdout, text=True, check=True
        )
        self.assertIn("cmds_pools='show'", result.stdout)
        self.assertIn('--sysfs', result.stdout)

    def test_no_such_command(self):
        self.assert_fails(
            ['pool', 'shw'],
            "'pool shw' is not a command, but 'pools show' is; see "
            'nova-numa-guard --help',
        )
        self.assert_fails(
            ['frobnicate'],
            "'frobnicate' is not a command; see nova-numa-guard --help",
        )

    def test_a_command_that_cannot_be_imported(self):
        """Of an installation that lacks something."""
        entry = metadata.EntryPoint('pools_show', 'no_such.module:Show', '')
        real = metadata.entry_points

        def entry_points(group):
            return [entry] if group == app.NAMESPACE else real(group=group)

        with mock.patch.object(metadata, 'entry_points', entry_points):
            self.assert_fails(
                ['pools', 'show'],
                "pools show cannot be used: No module named 'no_such'",
            )

    def test_no_command(self):
        self.assert_misused([], 'which command?')

    def test_no_such_option(self):
        self.assert_misused(['pools', 'show', '--nodes', '1'], '--nodes')

    def test_options_of_all_commands_are_not_abbreviated(self):
        """A command may have one that begins alike."""
        file = self.folder / 'file'
        self.assert_misused(['pools', 'show', '--log', file], '--log')
        self.assertFalse(file.exists())

    def test_no_such_format(self):
        self.assert_misused(['pools', 'show', '-f', 'xml'], "'xml'")

    def test_no_such_column(self):
        tree = trees.recorded('x86-1-node.txt', self.folder)
        result = runner.run('pools', 'show', '--sysfs', tree, '-c', 'nodes')
        self.assertEqual((2, ''), (result.code, result.stdout))
        self.assertIn("No recognized column names in ['nodes']", result.stderr)

    def test_a_log_file_that_cannot_be_had(self):
        self.assert_fails(
            ['--log-file', self.folder, 'pools', 'show'],
            f'nova-numa-guard: --log-file: [Errno 21] Is a directory: '
            f"'{self.folder}'",
        )

    def test_what_should_not_happen(self):
        """Neither a traceback nor exit code 1, which has a meaning."""
        words = ['pools', 'show', '--sysfs', '/sys']
        with mock.patch.object(pools.Kernel, 'pools', side_effect=KeyError(7)):
            result = runner.run(*words)
            debugged = runner.run('--debug', *words)
        self.assertEqual((2, ''), (result.code, result.stdout))
        self.assertIn('This should not happen (KeyError)', result.stderr)
        self.assertNotIn('Traceback', result.stderr)
        self.assertIn('Traceback', debugged.stderr)


class ProcessTest(base.TestCase):
    """What a test can see from outside only."""

    def setUp(self):
        super().setUp()
        trees.recorded('x86-1-node.txt', self.folder)
        self.words = [sys.executable, '-W', 'ignore', '-m', app.__name__]
        self.words += ['pools', 'show', '--sysfs', str(self.folder)]

    def test_nobody_reads_it(self):
        reader, writer = os.pipe()
        os.close(reader)
        result = subprocess.run(
            self.words, stdout=writer, stderr=subprocess.PIPE
        )
        os.close(writer)
        self.assertEqual((141, b''), (result.returncode, result.stderr))

    def test_a_full_disk(self):
        with open('/dev/full', 'wb') as full:
            result = subprocess.run(
                self.words, stdout=full, stderr=subprocess.PIPE, text=True
            )
        self.assertEqual(2, result.returncode)
        self.assertEqual(
            ['stdout: No space left on device'],
            result.stderr.splitlines(),
        )

    def test_nova_is_not_imported(self):
        """It would take longer than the answer."""
        script = (
            'import sys\n'
            f'from {app.__name__} import main\n'
            'code = main(sys.argv[1:])\n'
            r'sys.stderr.write("\n".join(sys.modules))'
            '\nsys.exit(code)'
        )
        for words in (
            ['pools', 'show', '--uri', base.URI],
            ['guests', 'list', '--uri', base.URI],
            ['domain', 'rewrite', self.file('a.xml', samples.LIBVIRT_XML)],
        ):
            result = subprocess.run(
                [sys.executable, '-W', 'ignore', '-c', script, *words],
                capture_output=True,
                text=True,
            )
            self.assertEqual(0, result.returncode, result.stderr)
            imported = set(result.stderr.splitlines())
            self.assertNotIn('nova', imported)
            # Nor is another command, which may need it.
            modules = {
                f'nova_numa_guard.cmd.{name}'
                for name in ('pools', 'guests', 'check', 'rewrite')
            }
            self.assertEqual(1, len(modules & imported), modules & imported)
