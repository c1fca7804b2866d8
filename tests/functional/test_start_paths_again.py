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

"""Servers that are stopped for a snapshot or a rebuild, and started again."""

import fixtures
from nova import exception
from nova.image import glance

from tests.functional import pages


class SnapshotTest(pages.PagesTestCase):
    """A cold snapshot saves the guest's memory, and starts it again."""

    def setUp(self):
        super().setUp()
        self.flags(disable_libvirt_livesnapshot=True, group='workarounds')
        self.server = self.own()
        self.leave(256)

    def snapshot(self):
        return self.act(self.server, createImage={'name': 'snapshot'})

    def test_on_a_full_host(self):
        before = self.domain(self.server).ID()
        self.assertEqual('ACTIVE', self.snapshot()['status'])
        self.assertTrue(self.domain(self.server).runs)
        self.assertNotEqual(before, self.domain(self.server).ID())
        self.assertNotIn('Starting although', self.log())

    def test_others_get_pages_while_the_image_is_uploaded(self):
        """The guest has started again, and it may take hours."""
        self.leave(512)
        self.followed['host1'].may_look = False
        update, others = glance.API.update, []

        def upload(*args, **kwargs):
            others.append(self.force(self.huge, 'host1'))
            return update(*args, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch('nova.image.glance.API.update', upload)
        )
        self.snapshot()
        self.assertEqual(['ACTIVE'], [other['status'] for other in others])

    def test_peer_does_not_let_go(self):
        """It is tried: its next start would delete what is in its memory.

        The guest is off then, and that is on the disk.
        """
        self.followed['host1'].keep(self.server)
        self.snapshot()
        log = self.log()
        self.assertIn('because it was stopped for the snapshot', log)
        self.assertIn(f'{self.SHORTAGE}available 0', log)
        self.assertIn(self.NO_MEMORY, log)
        self.assertTrue(self.domain(self.server).hasManagedSaveImage(0))


class RebuildTest(pages.PagesTestCase):
    def setUp(self):
        super().setUp()
        self.server = self.own()
        self.leave(256)
        self.image = self.glance.auto_disk_config_enabled_image['id']

    def test_nobody_gets_the_pages_while_it_is_down(self):
        others = []
        self.meanwhile(
            lambda: others.append(self.force(self.huge, 'host1', 'ERROR'))
        )
        self.act(self.server, 'ACTIVE', rebuild={'imageRef': self.image})
        self.assertTrue(self.domain(self.server).runs)
        self.assertNotIn('Starting although', self.log())
        [other] = others
        self.assertIn('needed 256, available 0', self.events(other)[-1][1])

    def test_peer_does_not_let_go(self):
        """It waits once, although Nova stops the guest twice."""
        self.flags(page_wait=3, group='numa_guard')
        self.followed['host1'].keep(self.server)
        self.act(self.server, 'ERROR', rebuild={'imageRef': self.image})
        log = self.log()
        why = 'the rebuild has removed the guest already'
        self.assert_tried(self.server, why, log)
        self.assertEqual(1, log.count(why))
        self.followed['host1'].let_go()
        self.act(self.server, 'ACTIVE', rebuild={'imageRef': self.image})

    def test_one_that_fails_keeps_no_pages_from_others(self):
        """Nova does not tell the driver that it gave up before spawn()."""

        def fail(*args, **kwargs):
            raise exception.CinderConnectionFailed(reason='no answer')

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.volume.cinder.API.attachment_update', fail
            )
        )
        self.act(self.server, 'ERROR', rebuild={'imageRef': self.image})
        self.assert_nothing_promised()
        self.force(self.huge, 'host1', 'ACTIVE')
