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

"""Live migrations to a host that are under way, by Nova's records."""

from unittest import mock

from nova import exception, objects
import oslo_messaging

from nova_numa_guard import guests, metrics
from nova_numa_guard.virt import arrivals, complaints
from tests.unit import base, samples
from tests.unit.virt import records

NEED = guests.PageNeed(0, 2048, 32)


class ArrivalsTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.records = self.useFixture(records.Records())
        self.metrics = metrics.Metrics()
        self.arrivals = arrivals.Arrivals(complaints.Complaints(self.metrics))

    def guest(self):
        return self.records.add(
            samples.guest_cell(64, page_size=2048, node=1), host='there'
        )

    def move(self, guest, dest='this', kind='live-migration', node=0):
        return self.records.move(
            guest,
            dest,
            samples.guest_cell(64, page_size=2048, node=node),
            kind=kind,
        )

    def expected(self):
        return {each.uuid: each.needs for each in self.arrivals.expected}

    def expect(self, move):
        self.arrivals.expect(move.migration.id, move.guest.uuid, [NEED])

    def test_one_comes(self):
        """From before Nova has named its host until it is over."""
        guest = self.guest()
        move = self.move(guest)
        self.assertIsNone(move.migration.dest_compute)
        self.expect(move)
        for status in ('accepted', 'queued', 'preparing', 'running'):
            move.migration.status = status
            self.arrivals.review('this')
            self.assertEqual({guest.uuid: (NEED,)}, self.expected())
        move.claim()
        self.arrivals.review('this')
        self.assertEqual({guest.uuid: (NEED,)}, self.expected())

    def test_one_is_over(self):
        for status in ('completed', 'error', 'failed', 'cancelled'):
            move = self.move(self.guest()).claim()
            self.expect(move)
            move.migration.status = status
            self.arrivals.review('this')
            self.assertEqual({}, self.expected())

    def test_one_goes_to_another_host(self):
        """A later check has failed here, and Nova tried the next."""
        move = self.move(self.guest(), dest='elsewhere')
        self.expect(move)
        move.claim()
        self.arrivals.review('this')
        self.assertEqual({}, self.expected())

    def test_one_that_nova_has_forgotten(self):
        move = self.move(self.guest())
        self.expect(move)
        self.records.migrations.clear()
        self.arrivals.review('this')
        self.assertEqual({}, self.expected())
        self.assert_logged('WARNING')

    def test_nova_does_not_answer(self):
        """Rather a start too few than one too many."""
        move = self.move(self.guest())
        self.expect(move)
        self.records.failure = oslo_messaging.MessagingTimeout()
        for _ in range(2):
            self.arrivals.review('this')
            self.assertEqual(1, len(self.expected()))
        [line] = self.log.at('WARNING')
        self.assertIn('about to migrate to this host', line)
        self.assertEqual(
            2,
            self.metrics.registry.get_sample_value(
                'numa_guard_unreadable_total', {'source': 'nova'}
            ),
        )

    def test_only_what_is_expected_is_asked_for(self):
        self.records.failure = AssertionError()
        self.arrivals.review('this')
        self.assertEqual([], self.log.records)

    def test_after_a_restart(self):
        """Of this service: Nova still has what it was told."""
        comes = self.move(self.guest()).claim()
        unclaimed = self.move(self.guest()).claim(context=False)
        over = self.move(self.guest()).claim()
        over.migration.status = 'error'
        cold = self.move(self.guest(), kind='migration').claim()
        leaves = self.move(self.guest(), dest='there').claim()
        floating = self.records.add(host='there')
        self.records.move(floating, 'this', kind='live-migration').claim()
        self.arrivals.settle('this', 'this-node')
        self.assertEqual({comes.guest.uuid: (NEED,)}, self.expected())
        self.assert_logged('WARNING')
        for other in (unclaimed, over, cold, leaves):
            self.assertNotIn(other.guest.uuid, self.expected())

    def test_one_whose_server_has_been_deleted(self):
        self.move(self.guest()).claim()
        with mock.patch.object(
            objects.Migration,
            'instance',
            new_callable=mock.PropertyMock,
            side_effect=exception.InstanceNotFound(instance_id='x'),
        ):
            self.arrivals.settle('this', 'this-node')
        self.assertEqual({}, self.expected())
        self.assert_logged('WARNING')

    def test_a_restart_while_nova_does_not_answer(self):
        self.records.failure = oslo_messaging.MessagingTimeout()
        self.arrivals.settle('this', 'this-node')
        self.assertEqual({}, self.expected())
        self.assertEqual(1, len(self.log.at('WARNING')))
