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

import threading
import time

from nova_numa_guard import look, reservations
from tests.unit import base, machine

GUESTS = 100
ROOM = 60
SEEDS = 200
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
        self.result = None

    def run(self):
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
    def __init__(self, seed, totals):
        self.machine = machine.Machine(totals, seed)
        self.random = self.machine.random
        self.promises = reservations.Reservations()
        self.lookout = look.Lookout(self.machine, self.machine.running, {})
        self.step = self.random.randint(1, EACH)

    def look(self, needs):
        return lambda promises: self.lookout.figures(needs, promises)

    def moment(self):
        return self.random.choice((0.0, 0.0, 0.0005, 0.002))

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
        self.patch(reservations, 'LOOK_AGAIN', 0.005)

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
        starts = host.start_all(lambda _: [machine.need(EACH)])
        self.check(host, starts, ROOM)
        self.assertEqual(host.machine.totals, host.machine.free)

    def with_a_thief(self, seed):
        """An outsider touches pages meanwhile that it mapped before."""
        host = Host(seed, {0: ROOM * EACH + STOLEN})
        host.machine.reserve(STOLEN)
        starts = host.start_all(lambda _: [machine.need(EACH)])
        for _ in range(STOLEN):
            time.sleep(host.moment())
            self.assertEqual(1, host.machine.touch(0, 1))
        self.check(host, starts, ROOM)
        self.assertEqual(STOLEN, host.machine.totals[0] - host.machine.free[0])

    def of_two_pools(self, seed):
        """Guests of one cell and of two, on sparse nodes."""
        host = Host(seed, {0: ROOM * EACH, 16: ROOM * EACH})
        both = [machine.need(EACH), machine.need(EACH, node=16)]
        starts = host.start_all(lambda _: both)
        self.check(host, starts, ROOM)
        self.assertEqual(host.machine.totals, host.machine.free)


def _add(scenario, part):
    def test(self):
        for seed in range(part, SEEDS, PARTS):
            getattr(self, scenario)(seed)

    setattr(ConcurrencyTest, f'test_{scenario}_{part}', test)


for _scenario in ('of_one_pool', 'of_two_pools', 'with_a_thief'):
    for _part in range(PARTS):
        _add(_scenario, _part)
