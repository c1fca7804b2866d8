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

"""Refusals reach the scheduler at once, and not too often."""

import collections
import inspect
import itertools
import threading
import time
import types

import fixtures
from nova.compute import manager, resource_tracker, stats

from nova_numa_guard import refusals, report
from nova_numa_guard.virt import delivery
from tests.unit import base, samples

HUGE, GIANT = (0, 2048), (1, 1048576)
EPOCH = 1_000_000.0


class Clock:
    """A time that passes only when it is told to, or waited for."""

    def __init__(self):
        self.now = 0.0
        self.events = []

    def __call__(self):
        return self.now

    def at(self, when, event):
        """Have something happen while somebody waits."""
        self.events.append((when, event))
        self.events.sort(key=lambda each: each[0])

    def wait(self, condition, seconds):
        until = self.now + seconds
        if self.events and self.events[0][0] <= until:
            self.now, event = self.events.pop(0)
            event()  # it may have changed what is waited for
        else:
            self.now = until


class Tracker:
    """Nova's tracker of one node, as far as its stats are written."""

    host = 'this'

    def __init__(self, clock, refresh):
        self.clock = clock
        self.refresh = refresh
        self.stats = collections.defaultdict(stats.Stats)
        self.compute_nodes = {'node': samples.compute_node()}
        self.old_resources = {}
        self.written = []
        self.audits = 0
        self.failure = None

    def save(self):
        """As _update() does: only what has changed."""
        node = self.compute_nodes['node']
        text = node.stats.get('numa_guard')
        old = self.old_resources.get('node')
        if old is None or text != old.stats.get('numa_guard'):
            self.written.append((self.clock(), text))
        self.old_resources['node'] = node.obj_clone()

    def abort(self):
        """A claim is given up."""
        self.compute_nodes['node'].stats = self.stats['node']
        self.save()

    def update_available_resource(self, context, node):
        assert context.is_admin
        assert node == 'node'
        self.audits += 1
        if self.failure:
            raise self.failure
        self.stats['node']['numa_guard'] = self.refresh()
        self.abort()


class DeliveryTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.clock = Clock()
        self.useFixture(
            fixtures.MonkeyPatch(
                f'{delivery.__name__}.time.time',
                lambda: EPOCH + self.clock.now,
            )
        )
        self.fresh = []
        self.refusals = refusals.Refusals()
        self.free = {}
        self.tracker = Tracker(self.clock, self.refresh)
        self.workers = []
        self.delivery = self.make(
            types.SimpleNamespace(
                _compute=types.SimpleNamespace(rt=self.tracker)
            )
        )

    def make(self, virtapi, refresh=None):
        return delivery.Delivery(
            virtapi,
            self.refusals,
            refresh or self.refresh,
            clock=self.clock,
            spawn=self.workers.append,
            wait=self.clock.wait,
        )

    def refresh(self):
        return samples.record_text(
            refused=self.refusals.current(EPOCH + self.clock.now, self.free)
        )

    def refuse(self, pool=HUGE, build=True):
        """Refuse a guest; of a build the claim is given up at once."""
        self.fresh += self.delivery.refused({pool: 8}, build)
        if build:
            self.tracker.abort()

    def work(self):
        """Let the worker work until it has nothing to do."""
        while self.workers:
            self.workers.pop(0)()

    def written(self):
        """When, and which refusals, as (time, {pool: seconds left})."""
        return [
            (
                when,
                {
                    (each.node, each.page_size): each.expires - EPOCH - when
                    for each in report.decode(text).refused
                },
            )
            for when, text in self.tracker.written
        ]


class BuildTest(DeliveryTestCase):
    def test_the_claim_that_is_given_up_writes_it(self):
        self.refuse()
        self.assertEqual([(0, {HUGE: 300})], self.written())
        self.work()
        self.assertEqual(0, self.tracker.audits)
        self.assertLess(self.clock.now, delivery.INTERVAL)

    def test_it_is_not_given_up_in_time(self):
        """As when networks take long to be detached, or it is no claim."""
        self.delivery.refused({HUGE: 8}, True)
        self.work()
        [(when, pools)] = self.written()
        self.assertEqual({HUGE}, set(pools))
        self.assertLessEqual(when, delivery.INTERVAL)
        self.tracker.abort()
        self.work()
        self.assertEqual(1, self.tracker.audits)

    def test_an_audit_that_began_before_comes_between(self):
        old = self.refresh()
        self.delivery.refused({HUGE: 8}, True)
        self.tracker.stats['node']['numa_guard'] = old
        self.tracker.abort()
        self.work()
        when, pools = self.written()[-1]
        self.assertEqual({HUGE}, set(pools))
        self.assertLessEqual(when, delivery.INTERVAL)

    def test_an_audit_that_began_afterwards_knows_it(self):
        self.delivery.refused({HUGE: 8}, True)
        self.clock.now = 1
        self.refusals.add({GIANT: 0}, EPOCH, 300)
        self.tracker.update_available_resource(
            types.SimpleNamespace(is_admin=True), 'node'
        )
        self.work()
        self.assertEqual(1, self.tracker.audits)

    def test_others_that_follow_are_written_together(self):
        self.refuse()
        self.clock.at(1, lambda: self.refuse(GIANT))
        self.clock.at(2, self.refuse)
        self.work()
        self.assertEqual(
            [(0, {HUGE: 300}), (5, {HUGE: 297, GIANT: 296})], self.written()
        )
        self.assertEqual(1, self.tracker.audits)

    def test_later_ones_are_written_at_once(self):
        self.refuse()
        self.work()
        self.clock.now = 5
        self.refuse()
        self.assertEqual([0, 5], [when for when, _ in self.written()])

    def test_there_was_no_audit_yet(self):
        self.delivery = self.make(self.delivery._virtapi, lambda: None)
        self.refuse()
        self.work()
        self.assertEqual(1, self.tracker.audits)

    def test_no_record_can_be_made(self):
        """The refusal is raised all the same."""

        def fail():
            raise OSError('no record')

        self.delivery = self.make(self.delivery._virtapi, fail)
        self.refuse()
        self.work()
        self.assertEqual(1, self.tracker.audits)
        self.assertIn('no record', self.log.at('WARNING')[0])

    def test_none_is_reported(self):
        self.flags(refusal_ttl=0)
        self.refuse()
        self.assertEqual([], self.workers)
        self.assertNotIn('numa_guard', self.tracker.stats['node'])
        self.assertEqual([], self.fresh)


class OtherPathsTest(DeliveryTestCase):
    def test_an_audit_is_made_by_the_worker(self):
        self.refuse(build=False)
        self.assertEqual([], self.written())
        self.work()
        self.assertEqual([(0, {HUGE: 300})], self.written())

    def test_audits_are_kept_apart(self):
        self.refuse(build=False)
        self.work()
        self.clock.now = 1
        self.refuse(build=False)
        self.clock.at(3, lambda: self.refuse(GIANT, build=False))
        self.work()
        self.assertEqual(
            [0, delivery.INTERVAL], [when for when, _ in self.written()]
        )
        self.assertEqual({HUGE, GIANT}, set(self.written()[-1][1]))

    def test_one_thread_at_a_time_and_only_while_there_is_something(self):
        for _ in range(3):
            self.refuse(build=False)
        self.assertEqual(1, len(self.workers))
        self.work()
        self.delivery.request_audit()
        self.assertEqual(1, len(self.workers))
        self.work()
        self.assertEqual(2, self.tracker.audits)
        self.assertFalse(self.delivery._working)

    def test_an_audit_that_fails(self):
        self.tracker.failure = RuntimeError('no placement')
        self.delivery.request_audit()
        self.work()
        [line] = self.log.at('WARNING')
        self.assertIn('no placement', line)
        self.tracker.failure = None
        self.delivery.request_audit()
        self.work()
        self.assertEqual(2, self.tracker.audits)

    def test_there_is_no_thread(self):
        def fail(function):
            raise RuntimeError("can't start new thread")

        self.delivery._spawn = fail
        self.refuse()
        self.refuse(build=False)
        self.assertEqual(2, len(self.log.at('WARNING')))
        self.delivery._spawn = self.workers.append
        self.delivery.request_audit()
        self.work()
        self.assertEqual(1, self.tracker.audits)

    def test_there_is_no_tracker(self):
        for virtapi in (
            None,
            'virtapi',
            types.SimpleNamespace(_compute=types.SimpleNamespace()),
        ):
            self.delivery = self.make(virtapi)
            for build in (True, False):
                self.delivery.refused({HUGE: 8}, build)
            self.delivery.request_audit()
        self.assertEqual([], self.workers)
        self.assertEqual(1, len(self.refusals.current(EPOCH, {})))
        self.assert_logged('WARNING')

    def test_it_is_a_thread(self):
        """Of the real kind: not the caller's, and not one that stays."""
        threads = []
        done = threading.Event()

        def audit(context, node):
            threads.append(threading.current_thread())
            done.set()

        self.tracker.update_available_resource = audit
        found = delivery.Delivery(
            self.delivery._virtapi, self.refusals, self.refresh
        )
        found.request_audit()
        self.assertTrue(done.wait(30))
        [thread] = threads
        self.assertIsNot(threading.current_thread(), thread)
        self.assertTrue(thread.daemon)
        thread.join(30)
        self.assertFalse(thread.is_alive())


class StopTest(DeliveryTestCase):
    """The service stops."""

    def setUp(self):
        super().setUp()
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.addCleanup(self.goes_on.set)

        def audit(context, node):
            self.tracker.audits += 1
            self.begun.set()
            self.goes_on.wait(30)

        self.tracker.update_available_resource = audit
        self.delivery = delivery.Delivery(
            self.delivery._virtapi, self.refusals, self.refresh
        )

    def test_what_waits_is_not_begun(self):
        self.delivery._may_write = time.monotonic() + 60
        self.delivery.request_audit()
        self.delivery.stop()
        self.assertFalse(self.delivery._working)
        self.assertEqual(0, self.tracker.audits)

    def test_what_was_begun_ends_before(self):
        self.delivery.request_audit()
        self.assertTrue(self.begun.wait(30))
        threading.Timer(0.1, self.goes_on.set).start()
        self.delivery.stop()
        self.assertTrue(self.goes_on.is_set())
        self.assertFalse(self.delivery._working)

    def test_one_that_hangs_is_left(self):
        self.useFixture(
            fixtures.MonkeyPatch(f'{delivery.__name__}.INTERVAL', 0.1)
        )
        self.delivery.request_audit()
        self.assertTrue(self.begun.wait(30))
        self.delivery.stop()
        self.assertTrue(self.delivery._working)

    def test_there_is_none(self):
        self.delivery.stop()
        self.assertFalse(self.delivery._working)

    def test_it_may_start_again(self):
        self.delivery.stop()
        self.delivery.request_audit()
        self.assertTrue(self.begun.wait(30))


class ManyTest(DeliveryTestCase):
    def storm(self, build):
        """500 refusals in 25 seconds, of two pools."""
        for number in range(500):
            self.clock.at(
                number / 20,
                lambda n=number: self.refuse((HUGE, GIANT)[n % 2], build),
            )
        while self.clock.events:
            self.clock.wait(None, 1)
            self.work()
        self.work()

    def test_one_write_in_five_seconds_and_each_pool_told_once(self):
        for build in (True, False):
            self.tracker.written.clear()
            self.storm(build)
            times = [when for when, _ in self.written()]
            self.assertLessEqual(len(times), 7)
            for one, other in itertools.pairwise(times):
                self.assertLessEqual(delivery.INTERVAL, other - one)
            # The last refusal is known, and in time.
            when, pools = self.written()[-1]
            self.assertLessEqual(when, 24.95 + delivery.INTERVAL)
            self.assertEqual({HUGE, GIANT}, set(pools))
            self.assertAlmostEqual(300 - when + 24.95, pools[GIANT])
            self.assertEqual(2, len(self.fresh))
            self.clock.now = 0.0
            self.delivery = self.make(self.delivery._virtapi)

    def test_it_is_told_again_after_it_has_expired(self):
        self.refuse()
        self.refuse()
        self.clock.now = 299.9
        self.refuse()
        self.clock.now = 599.8
        self.refuse()
        self.assertEqual(1, len(self.fresh))
        self.clock.now = 900
        self.refuse()
        self.assertEqual(2, len(self.fresh))


class NovaTest(base.TestCase):
    """What is used of Nova is there."""

    def test_the_tracker(self):
        self.assertEqual(
            ['self', 'context', 'nodename', 'startup'],
            list(
                inspect.signature(
                    resource_tracker.ResourceTracker.update_available_resource
                ).parameters
            ),
        )
        source = inspect.getsource(resource_tracker.ResourceTracker.__init__)
        for name in ('host', 'stats', 'compute_nodes', 'old_resources'):
            self.assertIn(f'self.{name} = ', source)

    def test_the_claim_that_is_given_up_takes_the_stats_along(self):
        tracker = resource_tracker.ResourceTracker
        self.assertIn(
            '_update_usage_from_instance',
            inspect.getsource(tracker.abort_instance_claim),
        )
        self.assertIn(
            'cn.stats = stats',
            inspect.getsource(tracker._update_usage_from_instance),
        )

    def test_the_way_to_the_tracker(self):
        compute = types.SimpleNamespace(reportclient=None)
        self.assertIs(compute, manager.ComputeVirtAPI(compute)._compute)
        self.assertIn(
            'self.rt = ', inspect.getsource(manager.ComputeManager.__init__)
        )
