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

"""What a service does with the Nova that is installed."""

from importlib import metadata
import json
import os
import subprocess
import sys

import fixtures
import nova.conf

from nova_numa_guard import installed, series
from tests.unit import base

CONF = nova.conf.CONF
SUPPORTS = 'this nova-numa-guard supports Nova 31 to 34 (2025.1 to 2026.2)'
NEWER = f'Nova 35.0.0 is installed, and {SUPPORTS}: '

# Nova loads the driver as nova.cmd.compute has it, once for each version of
# Nova, and for what that lacks. Each time is a process of its own, but Nova is
# imported once.
START = """
import json, os, sys
from importlib import metadata
import nova.conf
from nova import config
from nova.network import model
from nova.pci import whitelist
from nova.virt import driver
import nova.virt.libvirt.driver
from oslo_log import log as logging
import os_vif

def load(version, lacks):
    metadata.version = lambda name: version
    exec(lacks)
    driver.load_compute_driver(None, 'numa_guard.NUMAGuardDriver')

config.parse_args(['nova-compute'], default_config_files=[])
logging.setup(nova.conf.CONF, 'nova')
os_vif.initialize()
for version, lacks in json.loads(sys.argv[1]):
    print('==', flush=True)
    process = os.fork()
    if not process:
        load(version, lacks)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    print('exit', code, flush=True)
"""


class Installed(fixtures.Fixture):
    """A version of Nova; an exception if it cannot be told."""

    def __init__(self, version):
        self.version = version

    def _setUp(self):
        self.useFixture(
            fixtures.MonkeyPatch('importlib.metadata.version', self._tell)
        )

    def _tell(self, name):
        if isinstance(self.version, Exception):
            raise self.version
        return {'nova': self.version}[name]


class VersionTest(base.TestCase):
    def test_this_one_is_supported(self):
        self.assertIs(
            series.Support.SUPPORTED, series.judge(installed.version())
        )

    def test_it_is_what_nova_itself_says(self):
        found = metadata.version('nova')
        self.assertEqual(found, installed.version())
        self.assertTrue(found.startswith(nova.version.version_string()), found)

    def test_it_cannot_be_told(self):
        for error in (metadata.PackageNotFoundError('nova'), OSError('disk')):
            self.useFixture(Installed(error))
            self.assertIsNone(installed.version())


class CheckTest(base.TestCase):
    """nova-compute, before Nova's driver is made."""

    def leaves(self):
        exc = self.assertRaises(SystemExit, installed.check, CONF)
        self.assertEqual(1, exc.code)

    def test_a_supported_one_is_no_matter(self):
        self.useFixture(Installed('34.0.1'))
        installed.check(CONF)
        self.assertEqual([], self.log.records)

    def test_by_default_it_is_refused(self):
        self.useFixture(Installed('35.0.0'))
        self.leaves()
        [(level, line)] = self.log.records
        self.assertEqual('CRITICAL', level)
        self.assertEqual(
            f'{NEWER}nova-compute does not start, because [numa_guard] '
            'unsupported_nova is "refuse"; install a nova-numa-guard for this '
            'Nova, or set it to "warn"',
            line,
        )

    def test_it_is_warned_of(self):
        self.flags(unsupported_nova='warn')
        self.useFixture(Installed('35.0.0'))
        installed.check(CONF)
        [(level, line)] = self.log.records
        self.assertEqual('WARNING', level)
        self.assertTrue(
            line.startswith(
                f'{NEWER}starting all the same, because [numa_guard] '
                'unsupported_nova is "warn"; '
            ),
            line,
        )

    def test_an_older_one_and_one_that_is_not_known(self):
        for version in ('30.1.0', OSError('disk')):
            self.useFixture(Installed(version))
            self.leaves()

    def test_one_in_development(self):
        self.useFixture(Installed('34.1.0.dev123'))
        installed.check(CONF)
        self.assert_logged(
            'WARNING',
            f'Nova 34.1.0.dev123 is installed, and {SUPPORTS}: a version in '
            'development may differ from what was tried',
        )
        self.useFixture(Installed('35.0.0.0b1'))
        self.leaves()

    def test_a_bad_option_does_not_let_it_start(self):
        """nova-compute would say what is bad about it only later."""
        self.raw(unsupported_nova='perhaps')
        self.useFixture(Installed('35.0.0'))
        self.leaves()

    def test_nor_does_it_stop_a_supported_one_here(self):
        self.raw(unsupported_nova='perhaps')
        self.useFixture(Installed('34.0.0'))
        installed.check(CONF)


class WarnTest(base.TestCase):
    def test_it_never_raises(self):
        for version in ('35.0.0', OSError('disk'), None):
            self.useFixture(Installed(version))
            installed.warn('what follows')
        self.assertEqual(3, len(self.log.at('WARNING')))
        self.assertEqual(f'{NEWER}what follows', self.log.at('WARNING')[0])

    def test_of_a_supported_one_nothing_is_said(self):
        self.useFixture(Installed('31.0.0'))
        installed.warn('what follows')
        self.assertEqual([], self.log.records)


class ExplainTest(base.TestCase):
    def test_with_a_supported_one_the_traceback_tells(self):
        self.useFixture(Installed('34.0.0'))
        installed.explain(ImportError('cannot import this'))
        self.assertEqual([], self.log.records)

    def test_whatever_the_option_says(self):
        self.flags(unsupported_nova='warn')
        self.useFixture(Installed('35.0.0'))
        exc = self.assertRaises(
            SystemExit, installed.explain, ImportError('cannot import this')
        )
        self.assertEqual(1, exc.code)
        self.assert_logged(
            'CRITICAL',
            f"{NEWER}nova-compute does not start, because the guard's driver "
            'needs what this Nova does not have: cannot import this; install '
            'a nova-numa-guard for this Nova, [numa_guard] unsupported_nova '
            'cannot help',
        )


class LoadTest(base.TestCase):
    """What an operator sees when Nova loads the driver."""

    NO_MODULE = (
        'del nova.pci.whitelist; sys.modules["nova.pci.whitelist"] = None'
    )
    NO_CONSTANT = 'del model.VNIC_TYPE_VDPA'

    def start(self, *starts):
        """Of each version, with what it lacks: lines and exit code."""
        found = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', START, json.dumps(starts)],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )
        first, *outputs = found.stdout.split('==\n')
        self.assertEqual(len(starts), len(outputs), first)
        for output in outputs:
            *lines, code = output.splitlines()
            yield lines, code

    def test_one_line_and_no_traceback(self):
        found = self.start(
            ('35.0.0', ''),
            ('35.0.0', self.NO_MODULE),
            ('35.0.0', self.NO_CONSTANT),
            ('34.0.0', self.NO_MODULE),
        )
        for why in ('is "refuse"', 'nova.pci.whitelist', 'VNIC_TYPE_VDPA'):
            lines, code = next(found)
            self.assertEqual('exit 1', code, lines)
            # What Nova tells comes before.
            self.assertIn('Loading compute driver', lines.pop(0))
            [line] = lines
            for part in (' CRITICAL nova_numa_guard.installed ', NEWER, why):
                self.assertIn(part, line)
        # With one that is supported it is the traceback that tells.
        [(lines, code)] = found
        self.assertEqual('exit 1', code, lines)
        self.assertIn('Traceback', '\n'.join(lines))
        self.assertNotIn('CRITICAL', '\n'.join(lines))
