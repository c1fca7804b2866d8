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

"""Many guests start at once on a host that has not pages for all of them."""

import importlib.util
import os
import subprocess
import sys
import threading
import time
import unittest

from nova_numa_guard import look, reservations
from tests.unit import base, known, machine

GUESTS = 100
ROOM = 60
MOST = int(os.environ.get('NUMA_GUARD_SEEDS', 200))
SEEDS = {
    'of_one_pool': MOST,
    'of_two_pools': MOST,
    'with_a_thief': MOST,
    'of_opaque_guests': min(16, MOST),
    'of_latecomers': min(16, MOST),
}
PARTS = 8
EACH = 4  # pages
STOLEN = 40


class Start(threading.Thread):
    """One guest: it asks, downloads, is launched, and runs or fails.

    One that fails for a reason of its own tries again.
    """

    def __init__(self, host, name, needs, failures):
        super().__init__()
        self.host, self.uuid, self.needs = host, name, needs
        self.failures = failures
        self.delay = host.random.random() * host.spread
        self.result = None

    def run(self):
        time.sleep(self.delay)
        self.result = self._start()

    def _start(self):
        host = self.host
        while True:
            granted = host.promises.promise(
                self.uuid, self.needs, host.look(self.needs), patience=60
            )
            if not granted.granted:
                return 'refused'
            try:
                time.sleep(host.moment())
                host.promises.launch(self.uuid)
                host.machine.start(
                    self.uuid,
                    self.needs,
                    step=host.step,
                    fails=self.failures > 0,
                    pause=host.moment(),
                )
                host.promises.land(self.uuid)
                return 'started'
            except machine.NoPagesError:
                return 'failed'
            except RuntimeError:
                self.failures -= 1
                host.promises.fail(self.uuid)
            finally:
                host.promises.release(granted)


class Host:
    def __init__(self, seed, totals, **values):
        self.machine = machine.Machine(totals, seed, **values)
        self.random = self.machine.random
        self.promises = reservations.Reservations()
        self.lookout = look.Lookout(self.machine, self.machine.running, {})
        self.step = self.random.randint(1, EACH)
        self.moments = (0.0, 0.0, 0.0005, 0.002)
        self.spread = 0.0  # seconds within which all ask

    def look(self, needs):
        return lambda promises: self.lookout.figures(needs, promises)

    def moment(self):
        return self.random.choice(self.moments)

    def start_all(self, needs_of):
        starts = [
            Start(
                self,
                f'guest-{index}',
                needs_of(index),
                self.random.choice((0, 0, 0, 1, 2)),
            )
            for index in range(GUESTS)
        ]
        for start in starts:
            start.start()
        return starts


class ConcurrencyTest(base.TestCase):
    """As many start as there is room for, and none fails for want of it."""

    def setUp(self):
        super().setUp()
        self.patch(reservations, 'CONFIRM', 0.02)
        self.patch(reservations, 'LOOK_AGAIN', 0.02)

    def patch(self, module, name, value):
        self.addCleanup(setattr, module, name, getattr(module, name))
        setattr(module, name, value)

    def check(self, host, starts, started):
        for start in starts:
            start.join(60)
        results = [start.result for start in starts]
        self.assertEqual(
            (started, 0, GUESTS - started),
            tuple(map(results.count, ('started', 'failed', 'refused'))),
        )
        self.assertEqual((), host.promises.promises)
        for start in starts:
            if start.result == 'started':
                host.machine.stop(start.uuid)

    def of_one_pool(self, seed):
        host = Host(seed, {0: ROOM * EACH})
        starts = host.start_all(lambda _: [known.need(EACH)])
        self.check(host, starts, ROOM)
        self.assertEqual(host.machine.totals, host.machine.free)

    def with_a_thief(self, seed):
        """An outsider touches pages meanwhile that it mapped before."""
        host = Host(seed, {0: ROOM * EACH + STOLEN})
        host.machine.reserve(STOLEN)
        starts = host.start_all(lambda _: [known.need(EACH)])
        for _ in range(STOLEN):
            time.sleep(host.moment())
            self.assertEqual(1, host.machine.touch(0, 1))
        self.check(host, starts, ROOM)
        self.assertEqual(STOLEN, host.machine.totals[0] - host.machine.free[0])

    def of_two_pools(self, seed):
        """Guests of one cell and of two, on sparse nodes."""
        host = Host(seed, {0: ROOM * EACH, 16: ROOM * EACH})
        both = [known.need(EACH), known.need(EACH, node=16)]
        starts = host.start_all(lambda _: both)
        self.check(host, starts, ROOM)
        self.assertEqual(host.machine.totals, host.machine.free)

    def of_opaque_guests(self, seed):
        """nova-compute may not trace the guests' processes.

        They take longer to start than a shortage takes to be confirmed.
        """
        host = Host(seed, {0: ROOM * EACH}, opaque=True)
        host.moments = (0.01, 0.02)
        starts = host.start_all(lambda _: [known.need(EACH)])
        self.check(host, starts, ROOM)
        self.assertEqual(host.machine.totals, host.machine.free)

    def of_latecomers(self, seed):
        """They ask while others start, and an outsider has pages."""
        host = Host(seed, {0: ROOM * EACH + STOLEN})
        host.machine.reserve(STOLEN)
        host.machine.touch(0, STOLEN)
        host.moments, host.spread, host.step = (0.001, 0.005), 0.03, 1
        starts = host.start_all(lambda _: [known.need(EACH)])
        self.check(host, starts, ROOM)
        self.assertEqual(STOLEN, host.machine.totals[0] - host.machine.free[0])

    def of_all_kinds(self):
        for scenario in SEEDS:
            for seed in range(6):
                getattr(self, scenario)(seed)


def _add(scenario, part):
    def test(self):
        for seed in range(part, SEEDS[scenario], PARTS):
            getattr(self, scenario)(seed)

    setattr(ConcurrencyTest, f'test_{scenario}_{part}', test)


for _scenario in SEEDS:
    for _part in range(PARTS):
        _add(_scenario, _part)

GREEN = """
import eventlet
eventlet.monkey_patch()
assert eventlet.patcher.is_monkey_patched('thread')
from tests.unit import test_concurrency
test_concurrency.run('of_all_kinds')
"""


def run(name):
    """Run one method of ConcurrencyTest in this process, and leave."""
    result = unittest.TextTestRunner().run(ConcurrencyTest(name))
    sys.exit(not (result.wasSuccessful() and result.testsRun))


class GreenTest(base.TestCase):
    """Nova before 2026.2 runs nova-compute on eventlet."""

    def test_green_threads(self):
        if importlib.util.find_spec('eventlet') is None:
            self.skipTest('Nova has no eventlet any more')
        found = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', GREEN],
            env={**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        self.assertEqual(0, found.returncode, found.stderr)
