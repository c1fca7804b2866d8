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

from nova_numa_guard import explanation, isolation
from tests.unit import base

Opinion, Word, Reason = (
    explanation.Opinion,
    explanation.Word,
    isolation.Reason,
)
PASSES = Opinion(Word.PASSES)


def finding(guard=PASSES, nova=PASSES, away=''):
    return explanation.Finding('host', away, guard, nova)


def guard(reason=Reason.FLOATING_PRESENT, enforce=True, lenient=False):
    return explanation.guards(
        isolation.Verdict(False, reason, 'floating guests present: 2'),
        enforce,
        lenient,
    )


class GuardsTest(base.TestCase):
    def test_it(self):
        self.assertEqual(
            Opinion(
                Word.FAILS,
                'hold floating guests',
                'floating-present: floating guests present: 2',
            ),
            guard(),
        )
        self.assertEqual(Word.WARNS, guard(enforce=False).word)
        self.assertEqual(Word.LAST, guard(lenient=True).word)
        self.assertEqual(
            Word.FAILS, guard(Reason.SMALL_PAGES_SHORT, lenient=True).word
        )
        self.assertEqual(
            Opinion(Word.PASSES, text='exempt'),
            explanation.guards(
                isolation.Verdict(True, Reason.EXEMPT), True, False
            ),
        )

    def test_every_reason_has_words(self):
        for reason in Reason:
            if reason in isolation._OF_KIND or reason.endswith('short'):
                self.assertNotEqual(reason, guard(reason).short)


class SummaryTest(base.TestCase):
    def test_it(self):
        short = Opinion(Word.FAILS, 'short of 1048576 KiB pages', 'text')
        self.assertEqual(
            '0 of 12 hosts: 9 hold floating guests, 2 short of 1048576 KiB '
            'pages, 1 disabled',
            explanation.summary(
                [finding(guard())] * 8
                + [finding(guard(), short)]  # the guard comes first
                + [finding(nova=short)] * 2
                + [finding(guard(), short, 'disabled')]
            ),
        )

    def test_hosts_that_pass_all_the_same(self):
        self.assertEqual(
            '3 of 3 hosts; of those that pass, 2 would fail, 1 last choice',
            explanation.summary(
                [finding(guard(enforce=False))] * 2
                + [finding(guard(lenient=True))]
            ),
        )

    def test_no_hosts(self):
        self.assertEqual('0 of 0 hosts', explanation.summary([]))
