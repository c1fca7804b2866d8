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

"""Which Nova is supported."""

import ast
import pathlib
import re

from nova_numa_guard import series
from tests.unit import base

ROOT = pathlib.Path(__file__).parents[2]
UNSUPPORTED = series.Support.UNSUPPORTED


class JudgeTest(base.TestCase):
    def check(self, support, *versions):
        self.assertEqual(
            dict.fromkeys(versions, support),
            {version: series.judge(version) for version in versions},
        )

    def test_every_release_of_a_series(self):
        for major in (31, 32, 33, 34):
            self.check(
                series.Support.SUPPORTED,
                f'{major}.0.0',
                f'{major}.0.1',
                f'{major}.2.12',
                f'{major}.0.0.post1',
                # What a distributor adds tells nothing of a series.
                f'{major}.0.0+dev1.rc2',
            )

    def test_before_a_release_or_beyond_one(self):
        self.check(
            series.Support.DEVELOPMENT,
            '34.1.0.dev123',
            '34.0.1.dev7',
            '34.0.0.0b1',
            '34.0.0.0rc1',
            '34.0.0.0rc2.dev5',
            '31.0.0a1',
        )

    def test_others(self):
        self.check(
            UNSUPPORTED,
            '30.2.0',
            '35.0.0',
            '35.0.0.0b1',
            '35.0.0.dev1',
            '3.4.0',
            '340.0.0',
            '0.0.0',
        )

    def test_what_is_no_version_of_novas(self):
        self.check(UNSUPPORTED, None, '', '34', 'v34.0.0', 'unknown', '+34.0')


class DescribeTest(base.TestCase):
    def test_installed_and_supported(self):
        self.assertEqual(
            'Nova 35.0.0 is installed, and this nova-numa-guard supports Nova '
            '31 to 34 (2025.1 to 2026.2)',
            series.describe('35.0.0'),
        )

    def test_it_is_not_known(self):
        self.assertIn('Nova of unknown version is', series.describe(None))


class AgreeTest(base.TestCase):
    """What is supported is what is tested and documented."""

    def test_the_constraints_of_each_series(self):
        found = {}
        for path in ROOT.glob('constraints/*.txt'):
            major = re.search(r'^nova==(\d+)\.', path.read_text(), re.M)[1]
            found[int(major)] = path.stem
        self.assertEqual(series.SUPPORTED, found)

    def test_every_series_but_the_newest_has_environments_of_its_own(self):
        *older, newest = series.SUPPORTED.values()
        text = (ROOT / 'tox.ini').read_text()
        found = re.findall(
            r'^\[testenv:(py3|functional)\{(.*)\}\]$', text, re.M
        )
        names = ','.join(['', *(f'-{name}' for name in older)])
        self.assertEqual([('py3', names), ('functional', names)], found)
        self.assertIn(f'constraints/{newest}.txt', text)

    def test_the_lower_bound_of_the_requirement(self):
        text = (ROOT / 'requirements.txt').read_text()
        self.assertIn(f'\nnova>={min(series.SUPPORTED)}.0.0 ', text)

    def test_the_readme(self):
        (first, oldest), *_, (last, newest) = series.SUPPORTED.items()
        self.assertIn(
            f'Nova {oldest} to {newest} ({first} to {last}) is supported',
            (ROOT / 'README.rst').read_text(),
        )

    def test_what_older_series_run_is_there(self):
        """A line that names no test would leave something out, unseen."""
        folder = ROOT / 'tests' / 'functional'
        names = [
            f'tests.functional.{path.stem}.{case.name}.{test.name}'
            for path in folder.glob('test_*.py')
            for case in ast.parse(path.read_text()).body
            if isinstance(case, ast.ClassDef)
            for test in case.body
            if getattr(test, 'name', '').startswith('test_')
        ]
        lines = (folder / 'hooks.list').read_text().splitlines()
        wanted = [line for line in lines if line and line[0] != '#']
        self.assertGreater(len(wanted), 10)
        for line in wanted:
            self.assertTrue(any(re.search(line, name) for name in names), line)
