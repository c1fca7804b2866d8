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

"""What an operator is told of guests."""

from oslo_upgradecheck import upgradecheck

from nova_numa_guard import leaving
from nova_numa_guard.status import advice, stage
from tests.unit import base

Code, Stage = upgradecheck.Code, stage.Stage
State, Trace = leaving.State, leaving.Trace

UUID = '6695eb01-f6a4-8304-79aa-97f2502e193f'


def finding(trace, state=State.RUNNING, error=''):
    return leaving.Finding(
        leaving.Kept('instance-7', UUID, state, '', error), trace
    )


class AdviceTest(base.TestCase):
    def say(self, *findings, host=Stage.STOCK):
        return advice.result(findings, host)

    def test_nothing_is_left(self):
        for findings in ((), (finding(Trace.NONE),)):
            result = self.say(*findings)
            self.assertIs(Code.SUCCESS, result.code)
            self.assertIsNone(result.details)

    def test_codes(self):
        for trace, code in (
            (Trace.UNBOUND, Code.FAILURE),
            (Trace.UNREADABLE, Code.FAILURE),
            (Trace.CONFINED, Code.WARNING),
            (Trace.PREFERRED, Code.SUCCESS),
        ):
            for others in ((), (finding(Trace.NONE),)):
                result = self.say(*others, finding(trace), *others)
                self.assertIs(code, result.code)
                self.assertIn(f'\n- {UUID} instance-7 running', result.details)

    def test_each_server_has_a_line(self):
        result = self.say(
            finding(Trace.UNBOUND),
            finding(Trace.UNBOUND, State.SUSPENDED),
            finding(Trace.UNBOUND, State.RESCUED),
            finding(Trace.UNREADABLE, State.SUSPENDED, 'no\n  file'),
        )
        self.assertEqual(
            [
                f'- {UUID} instance-7 running',
                f'- {UUID} instance-7 suspended',
                f'- {UUID} instance-7 in rescue',
                f'- {UUID} instance-7 suspended: no file',
            ],
            [line for line in result.details.split('\n') if UUID in line],
        )

    def test_what_helps_depends_on_the_host(self):
        for host, words in (
            (Stage.GUARDED, ('A hard reboot helps only once',)),
            (Stage.STOCK, ('; or hard-reboot it',)),
            (Stage.LEFT, ('running or paused: hard-reboot it', 'again')),
            (Stage.UNKNOWN, ('while nova-compute has',)),
        ):
            text = self.say(finding(Trace.UNBOUND), host=host).details
            for word in words:
                self.assertIn(word, text)
            self.assertEqual(
                host is not Stage.LEFT, '--live-migration --host' in text
            )

    def test_what_comes_before_that(self):
        for state, word in (
            (State.SUSPENDED, 'openstack server resume UUID'),
            (State.RESCUED, 'openstack server unrescue UUID'),
        ):
            for trace in (Trace.UNBOUND, Trace.CONFINED):
                self.assertIn(word, self.say(finding(trace, state)).details)
            self.assertNotIn(word, self.say(finding(Trace.UNBOUND)).details)

    def test_a_preference_needs_nothing(self):
        text = self.say(finding(Trace.PREFERRED)).details
        self.assertIn('nothing has to be done', text)
        self.assertNotIn('openstack', text)

    def test_a_confined_one_does_not_wait_for_numatune(self):
        text = self.say(finding(Trace.CONFINED), host=Stage.GUARDED).details
        self.assertNotIn('numatune', text)
        self.assertIn('isolation = none', text)
