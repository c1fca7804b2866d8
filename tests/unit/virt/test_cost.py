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

"""What a guest's start costs the compute, in calls."""

from oslo_utils import uuidutils

from nova_numa_guard import (
    accounting,
    availability,
    guests,
    reservations,
    tuning,
)
from nova_numa_guard.virt import answers, claims, needs
from tests.unit import base, costs, samples
from tests.unit.virt import domains, hosts


class PageCheckTest(base.TestCase):
    def cost(self, count):
        """Of a host with so many guests that run."""
        host = self.useFixture(hosts.Host())
        libvirt = domains.Host()
        for number in range(count):
            libvirt.add(
                uuidutils.generate_uuid(),
                number + 1,
                *((node, 1 << 17, 2048) for node in range(2)),
            )
        for node in range(2):
            pages = 64 * count
            host.machine.set_pool(node, 2048, total=pages + 64, free=64)
        host.machine.set_bound(2048)
        check = host.check
        check._claims = claims.Claims(libvirt)
        instance = samples.instance(
            samples.guest_cell(64, page_size=2048, node=0)
        )
        request = answers.Request(
            samples.context(),
            'this',
            needs.pages(instance, instance.numa_topology),
            check.terms(is_restart=False),
        )

        def start():
            found = check.promise(instance, request, patience=0)
            self.assertIsInstance(found, reservations.Reservation)
            check.reservations.release(found)

        cost = costs.calls(start)
        self.assertEqual(count, len(check.figures(request.needs, ()).claims))
        return cost

    def test_each_running_guest_costs_the_same(self):
        none, few, some, many = map(self.cost, (0, 50, 100, 200))
        self.assertLess(none, few)
        self.assertEqual(2 * (some - few), many - some)
        self.assertLessEqual((some - few) / 50, 40)


class TuningTest(base.TestCase):
    def cost(self, cells):
        xml = samples.domain_xml(
            *(
                (node, 1 << 20, 2048 * (node % 2) or None)
                for node in range(cells)
            )
        )
        return costs.calls(
            lambda: tuning.apply(xml, tuning.SmallPagePolicy.AUTO)
        )

    def test_each_cell_costs_the_same(self):
        few, some, many = map(self.cost, (4, 8, 16))
        self.assertEqual(2 * (some - few), many - some)


class AuditTest(base.TestCase):
    def cost(self, count):
        """What is counted of so many guests that run."""
        uuids = [f'guest-{number}' for number in range(count)]
        needs = tuple(guests.PageNeed(node, 2048, 64) for node in (0, 1))
        claims = [
            availability.Claim(uuid, number, uuid, needs)
            for number, uuid in enumerate(uuids)
        ]
        counted = {
            uuid: {(node, 2048): 64 for node in (0, 1)} for uuid in uuids
        }
        pools = [
            availability.Pool(node, 2048, 64 * count, 0) for node in (0, 1)
        ]

        def audit():
            accounting.to_look_at(claims, pools, {}, ())
            found = accounting.outsiders(claims, counted, {}, (), pools)
            self.assertEqual({(0, 2048): 0, (1, 2048): 0}, found)

        return costs.calls(audit)

    def test_each_guest_costs_the_same(self):
        few, some, many = map(self.cost, (50, 100, 200))
        self.assertEqual(2 * (some - few), many - some)
