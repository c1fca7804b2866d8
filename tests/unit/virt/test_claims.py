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

"""What the running domains may use, and a libvirt that does not answer."""

import inspect
import threading
import time

import libvirt
from nova import exception
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host

from nova_numa_guard import availability, guests
from nova_numa_guard.virt import claims
from tests.unit import base, samples
from tests.unit.virt import domains

GONE, BROKEN, LONG = domains.GONE, domains.BROKEN, domains.LONG


class ClaimsTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.useFixture(domains.Library())
        self.host = domains.Host()
        self.addCleanup(self.host.answers.set)
        self.claims = claims.Claims(self.host, LONG)

    def uuids(self):
        return [claim.uuid for claim in self.claims.running()]


class RunningTest(ClaimsTestCase):
    def test_nobody_runs(self):
        self.assertEqual((), self.claims.running())

    def test_guests_with_huge_pages_and_without(self):
        self.host.add('a', 3, (0, 4096, 2048), (1, 2048, 2048))
        self.host.add('b', 4)
        self.assertEqual(
            (
                availability.Claim(
                    'a',
                    3,
                    'instance-3',
                    (
                        guests.PageNeed(0, 2048, 2),
                        guests.PageNeed(1, 2048, 1),
                    ),
                ),
                availability.Claim('b', 4, 'instance-4'),
            ),
            self.claims.running(),
        )

    def test_another_domain_that_names_no_node(self):
        self.host.add(
            'a',
            3,
            xml=samples.domain_text(
                backing='<hugepages/>', extra='<memory>4096</memory>'
            ),
        )
        [claim] = self.claims.running()
        self.assertEqual(((), ()), (claim.needs, claim.anywhere))
        self.claims = claims.Claims(self.host, LONG, default_page=2048)
        [claim] = self.claims.running()
        self.assertEqual(((), ((2048, 2),)), (claim.needs, claim.anywhere))

    def test_another_domain_with_a_cell_on_several_nodes(self):
        self.host.add(
            'a',
            3,
            xml=samples.domain_text(
                backing='<hugepages><page size="2048"/></hugepages>',
                numatune='<memnode cellid="0" nodeset="0-1"/>',
                cells='<cell id="0" memory="4096"/>',
            ),
        )
        [claim] = self.claims.running()
        self.assertEqual(((), ((2048, 2),)), (claim.needs, claim.anywhere))
        self.assert_logged('WARNING')

    def test_xml_is_read_once_for_each_start(self):
        guest = self.host.add('a', 3, (0, 4096, 2048))
        floating = self.host.add('b', 4)
        first = self.claims.running()
        self.assertEqual(first, self.claims.running())
        self.assertEqual((1, 1), (guest.read, floating.read))

        self.host.guests.remove(guest)
        again = self.host.add('a', 5, (1, 2048, 2048))
        self.assertEqual(
            {('b', 4), ('a', 5)},
            {(claim.uuid, claim.domain_id) for claim in self.claims.running()},
        )
        self.assertEqual((1, 1), (again.read, floating.read))

    def test_the_same_answer_while_nothing_changes(self):
        """By which others know it again."""
        self.host.add('a', 1)
        first = self.claims.running()
        self.assertIs(first, self.claims.running())
        self.host.add('b', 2, (0, 4096, 2048))
        second = self.claims.running()
        self.assertEqual(2, len(second))
        self.assertIs(second, self.claims.running())
        self.host.guests.pop()
        self.assertEqual(first, self.claims.running())

    def test_what_is_gone_is_forgotten(self):
        guest = self.host.add('a', 3, (0, 4096, 2048))
        self.claims.running()
        self.host.guests.clear()
        self.assertEqual([], self.uuids())
        self.host.guests.append(guest)
        self.assertEqual(['a'], self.uuids())
        self.assertEqual(2, guest.read)

    def test_xml_that_cannot_be_read(self):
        """It is left out, and said once for each start."""
        bad = [
            self.host.add('a', 3, xml='<domain'),
            self.host.add('b', 4, xml=None),
        ]
        bad[1].xml = None
        self.host.add('c', 5)
        for _ in range(2):
            self.assertEqual(['c'], self.uuids())
        [first, second] = self.log.at('WARNING')
        self.assertIn('the domain instance-3 (a) may use', first)
        self.assertIn('the domain instance-4 (b) may use', second)
        self.assertEqual([1, 1], [guest.read for guest in bad])
        bad[0].id = 6
        self.uuids()
        self.assertEqual(3, len(self.log.at('WARNING')))

    def test_one_that_ends_meanwhile(self):
        guest = self.host.add('a', 3, xml=domains.error(GONE))
        self.host.add('b', 4)
        self.assertEqual(['b'], self.uuids())
        self.assert_logged('WARNING')
        guest.xml = samples.domain_xml()
        self.assertEqual(['a', 'b'], self.uuids())

    def test_libvirt_fails(self):
        guest = self.host.add('a', 3)
        self.host.add('b', 4)
        for failure in (
            domains.error(BROKEN),
            exception.HypervisorUnavailable(),
        ):
            self.host.failure = failure
            exc = self.assertRaises(claims.UnknownError, self.claims.running)
            self.assertIn(str(failure), str(exc))
        self.host.failure = None
        guest.xml = domains.error(BROKEN)
        self.assertRaises(claims.UnknownError, self.claims.running)
        guest.xml = samples.domain_xml()
        self.assertEqual(['a', 'b'], self.uuids())

    def test_novas_objects_have_what_is_used(self):
        parameters = inspect.signature(
            libvirt_host.Host.list_guests
        ).parameters
        self.assertEqual(['self', 'only_running'], list(parameters))
        for name in ('uuid', 'id', 'name', 'get_xml_desc'):
            self.assertTrue(hasattr(libvirt_guest.Guest, name), name)
        self.assertIs(libvirt, libvirt_host.libvirt)


class StuckTest(ClaimsTestCase):
    def stick(self):
        """libvirt does not answer, and a caller has found that out."""
        self.host.answers.clear()
        self.claims = claims.Claims(self.host, 0.05)
        exc = self.assertRaises(claims.UnknownError, self.claims.running)
        self.assertEqual('no answer within 0.05 s', str(exc))

    def test_nobody_waits_longer_than_the_time_out(self):
        self.host.answers.clear()
        started = time.monotonic()
        self.stick()
        self.assertLess(time.monotonic() - started, LONG / 2)

    def test_it_is_not_asked_again_until_it_has_answered(self):
        self.stick()
        self.claims._timeout = LONG
        started = time.monotonic()
        for _ in range(3):
            self.assertRaises(claims.UnknownError, self.claims.running)
        self.assertLess(time.monotonic() - started, LONG / 2)
        self.assertEqual(1, self.host.listings)

    def test_it_is_well_again(self):
        self.host.add('a', 3)
        self.stick()
        self.claims._timeout = LONG
        self.host.answers.set()
        deadline = time.monotonic() + LONG
        while not self.claims._asked.done():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.001)
        self.host.guests.clear()
        self.host.add('b', 4)
        self.assertEqual(['b'], self.uuids())
        self.assertEqual(2, self.host.listings)

    def test_the_thread_does_not_outlive_the_process(self):
        self.stick()
        [thread] = [
            each for each in threading.enumerate() if each.name == 'numa-guard'
        ]
        self.assertTrue(thread.daemon)
        self.host.answers.set()
        thread.join(LONG)
        self.assertFalse(thread.is_alive())

    def test_two_callers(self):
        """The second gets an answer that is not older than its question."""
        self.host.add('a', 3)
        self.host.answers.clear()
        found = {}

        def ask(name):
            found[name] = self.uuids()

        threads = [
            threading.Thread(target=ask, args=(name,), daemon=True)
            for name in ('first', 'second')
        ]
        threads[0].start()
        self.assertTrue(self.host.asked.wait(LONG))
        threads[1].start()
        time.sleep(0.02)
        self.assertEqual(1, self.host.listings)
        self.host.answers.set()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual({'first': ['a'], 'second': ['a']}, found)
        self.assertEqual(2, self.host.listings)

    def test_the_second_caller_does_not_wait_either(self):
        self.host.answers.clear()
        self.claims = claims.Claims(self.host, 0.2)
        found = []

        def ask():
            started = time.monotonic()
            try:
                self.claims.running()
            except claims.UnknownError:
                found.append(time.monotonic() - started)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        self.assertEqual(4, len(found))
        self.assertLess(max(found), LONG / 2)
        self.assertEqual(1, self.host.listings)
