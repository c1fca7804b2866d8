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

"""A compute host with the page check, for tests of it."""

import types

import fixtures

from nova_numa_guard import (
    availability,
    fixture,
    guests,
    metrics,
    refusals,
    reservations,
)
from nova_numa_guard.virt import (
    answers,
    complaints,
    delivery,
    page_check,
    starts,
)
from tests.unit.virt import records


class Running:
    """claims.Claims, of domains that a test has made."""

    def __init__(self):
        self.claims = ()
        self.failure = None
        self.asked = 0

    def running(self):
        self.asked += 1
        if self.failure:
            raise self.failure
        return self.claims

    def add(self, uuid, pages, number=1, node=0, size=2048):
        need = guests.PageNeed(node, size, pages)
        self.claims += (availability.Claim(uuid, number, uuid, (need,)),)


class Host(fixtures.Fixture):
    """Its kernel has no pools yet, and nobody runs."""

    def _setUp(self):
        self.events = self.useFixture(records.EventRecorder())
        self.records = self.useFixture(records.Records())
        self.machine = self.useFixture(fixture.KernelFixture())
        self.refusals = refusals.Refusals()
        self.running = Running()
        self.metrics = metrics.Metrics()
        self.returned = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.scheduler.client.report.report_client_singleton',
                lambda: types.SimpleNamespace(
                    delete_allocation_for_instance=self.give_back
                ),
            )
        )
        # It is tested by itself; here Nova has no bus.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.virt.notification.notify', lambda *args: None
            )
        )
        self.look_at(self.machine.kernel)

    def look_at(self, kernel):
        self.desk = reservations.Reservations()
        told = delivery.Delivery(
            types.SimpleNamespace(), self.refusals, lambda: None
        )
        self.check = page_check.PageCheck(
            kernel,
            self.running,
            self.desk,
            answers.Answers(self.metrics, told),
            complaints.Complaints(self.metrics),
        )
        self.starts = starts.Starts(self.check)

    def give_back(self, context, uuid, force):
        """What placement holds for a guest."""
        self.returned.append(uuid)

    def set(self, **seconds):
        """How long what lasts, of reservations."""
        for name, value in seconds.items():
            self.useFixture(
                fixtures.MonkeyPatch(f'{reservations.__name__}.{name}', value)
            )

    def counted(self, name, **labels):
        return self.metrics.registry.get_sample_value(
            f'numa_guard_{name}_total', labels
        )
