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

"""The alerts: what they say, and when."""

import pathlib
import re
import subprocess

import yaml

from tests.dashboards import base

TESTS = pathlib.Path(__file__).parent / 'alerts.yaml'
DOC = base.ROOT / 'doc' / 'source'


def promtool(*words):
    """Run it; what it printed is shown if it fails."""
    done = subprocess.run(
        ('promtool', *map(str, words)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout


class RulesTest(base.TestCase):
    def test_promtool_takes_them(self):
        code, text = promtool('check', 'rules', '--lint-fatal', base.RULES)
        self.assertEqual(0, code, text)

    def test_they_fire_when_they_should(self):
        code, text = promtool('test', 'rules', TESTS)
        self.assertEqual(0, code, text)

    def test_each_is_seen_to_fire_and_not_to(self):
        seen = {name: set() for name in base.rules()}
        for test in yaml.safe_load(TESTS.read_text())['tests']:
            for case in test['alert_rule_test']:
                seen[case['alertname']].add(bool(case.get('exp_alerts')))
        self.assertEqual({name: {True, False} for name in seen}, seen)

    def test_each_says_what_to_do_in_one_sentence(self):
        for name, rule in base.rules().items():
            self.assertIn('for', rule, name)
            self.assertIn(rule['labels']['severity'], ('warning', 'critical'))
            self.assertRegex(
                rule['annotations']['description'],
                r'\A[A-Z][^.]+(\.conf[^.]*)?\.\Z',
            )

    def test_the_documentation_has_each_runbook(self):
        for name, rule in base.rules().items():
            page, anchor = rule['annotations']['runbook'].split('#')
            text = (DOC / page.replace('.html', '.rst')).read_text()
            self.assertEqual(
                1, text.count(f'\n.. _{anchor}:\n'), f'{name}: {anchor}'
            )
            self.assertIn(f'\n{name}\n{"-" * len(name)}\n', text)

    def test_every_metric_of_theirs_is_documented(self):
        text = (DOC / 'metrics.rst').read_text()
        for name, rule in base.rules().items():
            found = set(re.findall(r'\bnuma_guard_\w+', rule['expr']))
            self.assertTrue(found, name)
            for metric in found:
                self.assertIn(f'\n``{metric}``\n', text, name)
