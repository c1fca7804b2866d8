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

"""What could not be found out."""

import oslo_messaging
from oslo_utils import uuidutils

from nova_numa_guard import metrics, pools
from nova_numa_guard.virt import claims, complaints
from tests.unit import base


class ComplaintsTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.metrics = metrics.Metrics()
        self.complaints = complaints.Complaints(self.metrics)

    def counted(self, source):
        return self.metrics.registry.get_sample_value(
            'numa_guard_unreadable_total', {'source': source}
        )

    def test_once_for_each_cause(self):
        """However its text differs: a time-out names its message."""
        for what in ('no report', 'no guests'):
            for _ in range(3):
                self.complaints.add(
                    what,
                    oslo_messaging.MessagingTimeout(
                        f'no reply to {uuidutils.generate_uuid()}'
                    ),
                    metrics.Source.NOVA,
                )
            self.complaints.add(what, RuntimeError('no database'))
        self.assertEqual(
            [
                (what, error)
                for what in ('no report', 'no guests')
                for error in ('MessagingTimeout', 'RuntimeError')
            ],
            [
                tuple(line.partition('(')[0].split(': '))
                for line in self.log.at('WARNING')
            ],
        )
        self.assertEqual(6, self.counted('nova'))
        self.assertEqual(0, self.counted('kernel'))

    def test_each_file_is_a_cause(self):
        for path in ('/sys/a', '/sys/b', '/sys/a'):
            self.complaints.add(
                'no check',
                pools.UnreadableError(path, 'gone'),
                metrics.Source.KERNEL,
            )
        self.assertEqual(
            [
                'no check: cannot read /sys/a: gone',
                'no check: cannot read /sys/b: gone',
            ],
            self.log.at('WARNING'),
        )
        self.assertEqual(3, self.counted('kernel'))

    def test_libvirt(self):
        self.complaints.add('no check', claims.UnknownError('no answer'))
        self.assertEqual(['no check: no answer'], self.log.at('WARNING'))
