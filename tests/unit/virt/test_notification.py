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

"""A refusal on the notification bus: real messages, on a bus in memory."""

import json
import pathlib
import queue

import fixtures
from nova import rpc
import oslo_messaging
from oslo_messaging import conffixture
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import availability, once
from nova_numa_guard.virt import notification
from tests.unit import base, samples

DOC = pathlib.Path(__file__).parents[3] / 'doc' / 'source' / 'metrics.rst'
SHORT = (
    availability.Shortage(0, 2048, needed=32, available=8),
    availability.Shortage(1, 1048576, needed=2, available=0),
)
FREE = {(0, 2048): 16, (1, 1048576): 0}
PAYLOAD = {
    'instance_uuid': uuids.instance,
    'host': 'this',
    'reason': 'the reason',
    'pools': [
        {
            'numa_node': 0,
            'page_size_kib': 2048,
            'needed': 32,
            'available': 8,
            'free': 16,
        },
        {
            'numa_node': 1,
            'page_size_kib': 1048576,
            'needed': 2,
            'available': 0,
            'free': 0,
        },
    ],
}


class Listener(fixtures.Fixture):
    """Another service, which listens to all topics and priorities.

    Each message is its topic, priority, publisher, event type and payload.
    """

    def __init__(self):
        self._messages = queue.Queue()

    def _setUp(self):
        for topic in ('notifications', 'versioned_notifications'):
            listener = oslo_messaging.get_notification_listener(
                rpc.NOTIFICATION_TRANSPORT,
                [oslo_messaging.Target(topic=topic)],
                [Endpoint(topic, self._messages)],
                executor='threading',
            )
            listener.start()
            self.addCleanup(listener.wait)
            self.addCleanup(listener.stop)

    def next(self):
        return self._messages.get(timeout=10)

    def __len__(self):
        return self._messages.qsize()


class Endpoint:
    def __init__(self, topic, messages):
        def receive(priority):
            def method(context, publisher, event_type, payload, metadata):
                messages.put((topic, priority, publisher, event_type, payload))

            return method

        for priority in ('audit', 'debug', 'info', 'warn', 'error'):
            setattr(self, priority, receive(priority))


class NotificationTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.virt.notification._complaints',
                once.Once(),
            )
        )

    def start(self, form='unversioned', driver='messagingv2'):
        """Nova's notifications, and somebody who listens.

        Not by Nova's fixture, whose import patches the process for eventlet.
        """
        bus = self.useFixture(conffixture.ConfFixture(base.CONF))
        bus.transport_url = 'fake:/'
        # Messages that a test leaves behind are not for the next one.
        self.config.config(control_exchange=self.id())
        self.config.config(group='notifications', notification_format=form)
        self.config.config(
            group='oslo_messaging_notifications', driver=[driver]
        )
        rpc.init(base.CONF)
        self.addCleanup(rpc.cleanup)
        return self.useFixture(Listener())

    def notify(self, payload=None):
        notification.notify(
            samples.context(),
            samples.instance(),
            'this',
            payload or notification.payload('the reason', SHORT, FREE),
        )


class NotifyTest(NotificationTestCase):
    def assert_one(self, listener, topic, publisher):
        self.notify()
        self.assertEqual(
            (topic, 'error', publisher, 'numa_guard.refused', PAYLOAD),
            listener.next(),
        )
        # A second one of the first refusal would have come before this.
        self.notify({'reason': 'another', 'pools': []})
        self.assertEqual('another', listener.next()[-1]['reason'])
        self.assertEqual(0, len(listener))
        self.assertEqual([], self.log.records)

    def test_unversioned(self):
        self.assert_one(self.start(), 'notifications', 'compute.this')

    def test_versioned(self):
        self.assert_one(
            self.start('versioned'),
            'versioned_notifications',
            'nova-compute:this',
        )

    def test_both_is_one(self):
        self.assert_one(
            self.start('both'), 'versioned_notifications', 'nova-compute:this'
        )

    def test_nova_does_not_warn_of_the_event_type(self):
        log = self.useFixture(fixtures.FakeLogger('nova.rpc'))
        self.start()
        self.notify()
        self.assertEqual('', log.output)

    def test_off(self):
        listener = self.start(driver='noop')
        self.notify()
        rpc.NOTIFICATION_TRANSPORT._send_notification(
            oslo_messaging.Target(topic='notifications.info'),
            {},
            {
                'publisher_id': 'somebody',
                'event_type': 'else',
                'payload': {},
                'message_id': '1',
                'timestamp': '',
                'priority': 'INFO',
            },
            version=2.0,
        )
        self.assertEqual('somebody', listener.next()[2])
        self.assertEqual(0, len(listener))
        self.assertEqual([], self.log.records)


class FailureTest(NotificationTestCase):
    def test_nova_has_no_bus(self):
        """The unit tests do not call rpc.init()."""
        self.assertIsNone(rpc.LEGACY_NOTIFIER)
        self.notify()
        [warning] = self.log.at('WARNING')
        self.assertIn('could not be sent as a notification: Ass', warning)

    def test_a_bus_that_fails(self):
        """oslo.messaging logs it; the refusal goes on."""
        log = self.useFixture(fixtures.FakeLogger('oslo_messaging'))
        self.start()
        self.useFixture(
            fixtures.MockPatchObject(
                rpc.NOTIFICATION_TRANSPORT._driver,
                'send_notification',
                side_effect=oslo_messaging.MessageDeliveryFailure('gone'),
            )
        )
        self.notify()
        self.assertIn('Could not send notification', log.output)
        self.assertEqual([], self.log.records)

    def test_each_failure_is_a_warning_once(self):
        for _ in range(3):
            self.notify()
        self.assertEqual(1, len(self.log.at('WARNING')))
        self.assertEqual(2, len(self.log.at('DEBUG')))
        self.start()
        self.notify(payload=5)
        self.assertIn('TypeError', self.log.at('WARNING')[1])


class PayloadTest(base.TestCase):
    def test_it_is_json(self):
        payload = notification.payload('the reason', iter(SHORT), FREE)
        self.assertEqual(payload, json.loads(json.dumps(payload)))

    def test_it_is_documented(self):
        text = DOC.read_text()
        self.assertIn(f'``{notification.EVENT_TYPE}``', text)
        for key in (*PAYLOAD, *PAYLOAD['pools'][0]):
            self.assertIn(f'"{key}": ', text)
