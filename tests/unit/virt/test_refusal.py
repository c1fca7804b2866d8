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

"""What an operator finds of a refusal."""

from oslo_utils import timeutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard.virt import answers, late_check, refusal
from tests.unit import base, samples
from tests.unit.virt import records


class RecordTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.events = self.useFixture(records.EventRecorder())
        self.context = samples.context()

    def record(self, host='this', details='the figures'):
        refusal.record(
            self.context, samples.instance(), host, 'an_event', details
        )

    def test_an_event(self):
        before = timeutils.utcnow(with_timezone=True)
        self.record()
        [event] = self.events.written
        self.assertEqual('an_event', event['event'])
        self.assertEqual('this', event['host'])
        self.assertEqual('Error', event['result'])
        self.assertEqual('the figures', event['details'])
        self.assertEqual(uuids.instance, event['instance_uuid'])
        self.assertEqual(self.context.request_id, event['request_id'])
        self.assertGreaterEqual(event['start_time'], before)
        self.assertEqual(event['start_time'], event['finish_time'])
        self.assertEqual([], self.log.records)

    def test_each_host_has_its_own(self):
        """Nova's EventReporter would finish the first one twice."""
        self.record('a', '1')
        self.record('b', '2')
        self.assertEqual(
            [('a', '1'), ('b', '2')],
            [
                (event['host'], event['details'])
                for event in self.events.written
            ],
        )

    def test_one_that_cannot_be_written(self):
        self.events.failure = RuntimeError('no database')
        self.record()
        [warning] = self.log.at('WARNING')
        self.assertIn('could not be recorded', warning)
        self.assertIn('no database', warning)

    def test_their_names_are_stable(self):
        self.assertEqual(
            [
                'compute_numa_guard_isolation_check',
                'compute_numa_guard_page_check',
            ],
            [late_check.EVENT, answers.EVENT],
        )
