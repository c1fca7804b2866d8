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

"""Every way in which a server starts where it is, with pages and without."""

import json
import threading
import time

import fixtures

from tests.functional import base, pages


class StartTest(pages.PagesTestCase):
    def test_a_stopped_server_waits_for_pages_and_keeps_all_it_has(self):
        server = self.own()
        self.act(server, 'SHUTOFF', **{'os-stop': None})
        had = self.possessions(server)
        self.leave(100)
        self.act(server, 'SHUTOFF', **{'os-start': None})
        self.assert_refused(server)
        self.assertEqual(had, self.possessions(server))
        self.leave(256)
        self.act(server, 'ACTIVE', **{'os-start': None})
        self.assertTrue(self.domain(server).runs)
        self.assertEqual(1, len(self.events(server)))

    def test_a_running_server_reboots_on_a_full_host(self):
        """Its own pages count, and are kept for it."""
        server = self.own()
        self.leave(256)
        others = []
        for kind in ('SOFT', 'HARD'):
            before = self.domain(server).ID()
            if kind == 'HARD':
                self.meanwhile(
                    lambda: others.append(
                        self.force(self.huge, 'host1', 'ERROR')
                    )
                )
            self.act(server, 'ACTIVE', reboot={'type': kind})
            self.assertNotEqual(before, self.domain(server).ID())
            self.assertTrue(self.domain(server).runs)
            self.assertEqual([], self.events(server))
        [other] = others
        self.assertIn('needed 256, available 0', self.events(other)[-1][1])
        self.assertEqual(1, len(self.domains()))

    def test_a_server_that_died_is_not_rebooted_without_pages(self):
        """Nova calls a server that does not run after a reboot ERROR."""
        server = self.own()
        self.domain(server).destroy()
        had = self.possessions(server)
        self.leave(100)
        for kind in ('SOFT', 'HARD'):
            self.act(server, 'ERROR', reboot={'type': kind})
            self.assert_refused(server)
            self.assertEqual(had, self.possessions(server))
        self.leave(256)
        self.act(server, 'ACTIVE', reboot={'type': 'HARD'})
        self.assertTrue(self.domain(server).runs)

    def test_switches(self):
        """QEMU is left to fail; warn says so before, and off nothing."""
        server = self.boot(self.huge)
        self.act(server, 'SHUTOFF', **{'os-stop': None})
        self.leave(100)
        for mode, says in (('warn', 1), ('off', 0), ('enforce', 0)):
            self.flags(page_check_on_restart=mode, group='numa_guard')
            for status, action in (
                ('SHUTOFF', {'os-start': None}),
                ('ERROR', {'reboot': {'type': 'HARD'}}),
                ('SHUTOFF', {'os-stop': None}),
            ):
                self.log()
                self.act(server, status, **action)
                log = self.log()
                if 'os-stop' in action:
                    continue
                self.assertEqual(
                    says,
                    log.count(
                        'Starting although the kernel lacks pages, because '
                        '[numa_guard] page_check_on_restart is "warn"; QEMU '
                        f'may fail: {self.NEEDED}'
                    ),
                )
                self.assertEqual(mode != 'enforce', self.NO_MEMORY in log)
                self.assert_nothing_promised()
        self.flags(page_check_on_restart='enforce', group='numa_guard')


class PeerTest(pages.PagesTestCase):
    """Case 37: a vhost-user switch maps the RAM of a guest that has ended."""

    def setUp(self):
        super().setUp()
        self.server = self.own()
        self.leave(256)
        self.followed['host1'].keep(self.server)

    def let_go(self):
        """Let the peer go when the guest's domain has ended."""

        def work():
            while self.domain(self.server).runs:
                time.sleep(0.05)
            time.sleep(0.5)
            self.followed['host1'].let_go()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.addCleanup(thread.join, 30)

    def test_peer_lets_go_in_time(self):
        self.flags(page_wait=30, group='numa_guard')
        self.let_go()
        self.act(self.server, 'ACTIVE', reboot={'type': 'HARD'})
        self.assertTrue(self.domain(self.server).runs)
        self.assertEqual([], self.events(self.server))

    def test_peer_does_not_let_go(self):
        had = self.possessions(self.server)
        self.act(self.server, 'ERROR', reboot={'type': 'HARD'})
        self.assert_refused(self.server, '0 (after 1 s)')
        self.assertFalse(self.domain(self.server).runs)
        self.assertEqual(had, self.possessions(self.server))
        self.followed['host1'].let_go()
        self.act(self.server, 'ACTIVE', reboot={'type': 'HARD'})

    def test_rescue_waits_for_the_peer(self):
        self.flags(page_wait=30, group='numa_guard')
        self.let_go()
        self.act(self.server, 'RESCUE', rescue={'adminPass': 'secret'})
        self.assertNotIn('Starting although', self.log())


class SuspendTest(pages.PagesTestCase):
    def test_a_suspended_server_is_not_resumed_without_pages(self):
        """Nova would delete its memory image, as of all that fails there."""
        server = self.own()
        self.act(server, 'SUSPENDED', suspend=None)
        had = self.possessions(server)
        self.assertTrue(had['memory image'])
        other = self.boot(self.huge)
        self.leave(256)
        self.act(server, 'SUSPENDED', resume=None)
        self.assert_refused(server, '0')
        self.assertEqual(had, self.possessions(server))
        self.gone(other)
        self.act(server, 'ACTIVE', resume=None)
        self.assertTrue(self.domain(server).runs)
        self.assertFalse(self.domain(server).hasManagedSaveImage(0))
        self.assertIn('hugepages', self.domain(server).XMLDesc(0))


class PersistentMemoryTest(pages.PagesTestCase):
    HOSTS = ()
    NAMESPACES = [
        {
            'dev': 'namespace0.0',
            'mode': 'devdax',
            'size': 1 << 32,
            'daxregion': {
                'align': 1 << 21,
                'devices': [{'chardev': 'dax0.0', 'size': 1 << 32}],
            },
            'name': 'ns_0',
            'numa_node': 0,
        }
    ]

    def setUp(self):
        self.zeroed = []
        for name, replacement in (
            ('get_pmem_namespaces', lambda: json.dumps(self.NAMESPACES)),
            ('cleanup_vpmem', self.zeroed.append),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova.privsep.libvirt.{name}', replacement
                )
            )
        super().setUp()
        self.flags(pmem_namespaces='4GB:ns_0', group='libvirt')
        self.start_host('host1', base.pages(16384, huge=512))

    def test_a_refusal_zeroes_none(self):
        """Nova zeroes it where a start fails, as it does at a hard reboot."""
        flavor = self.flavor(memory_mb=512, **base.HUGE, **{'hw:pmem': '4GB'})
        server = self.boot(flavor)
        self.assertIn('/dev/dax0.0', self.domain(server).XMLDesc(0))
        self.act(server, 'SUSPENDED', suspend=None)
        self.leave(100)
        self.act(server, 'SUSPENDED', resume=None)
        self.assert_refused(server)
        self.leave(256)
        self.act(server, 'ACTIVE', resume=None)
        self.act(server, 'SHUTOFF', **{'os-stop': None})
        self.leave(100)
        self.act(server, 'SHUTOFF', **{'os-start': None})
        self.assert_refused(server)
        self.assertEqual([], self.zeroed)


class RescueTest(pages.PagesTestCase):
    def test_rescue_and_unrescue_on_a_full_host(self):
        server = self.own()
        self.leave(256)
        self.act(server, 'RESCUE', rescue={'adminPass': 'secret'})
        self.act(server, 'ACTIVE', unrescue=None)
        self.assertTrue(self.domain(server).runs)
        self.assertEqual([], self.events(server))
        self.assertNotIn('Starting although', self.log())

    def test_rescue_is_not_refused(self):
        """It has been powered off already, so that QEMU may as well try."""
        server = self.own()
        self.leave(100)
        self.act(server, 'ERROR', rescue={'adminPass': 'secret'})
        self.assert_tried(server, 'it was powered off for the rescue')
        self.leave(256)
        self.act(server, 'ACTIVE', reboot={'type': 'HARD'})

    def test_a_rescued_server_that_died_is_not_unrescued_without_pages(self):
        """Nova calls it ERROR then, whatever the driver says."""
        server = self.own()
        self.act(server, 'RESCUE', rescue={'adminPass': 'secret'})
        self.domain(server).destroy()
        had = self.possessions(server)
        self.assertIn('unrescue.xml', str(had['files']))
        self.leave(100)
        self.act(server, 'ERROR', unrescue=None)
        self.assert_refused(server)
        self.assertEqual(had, self.possessions(server))
        self.leave(256)
        self.act(server, 'ACTIVE', reboot={'type': 'HARD'})
