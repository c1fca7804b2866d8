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

"""Many hosts: those of a fleet in change, and those of many requests."""

import itertools

from tests.functional import base

STOCK = 'libvirt.LibvirtDriver'
AFFINED = {**base.HUGE}


class HalfAFleetTest(base.GuardTestCase):
    """Half of the computes run the guard, the others Nova's driver."""

    GUARD = {'isolation': 'host', 'weight_multiplier': 0.0}

    def setUp(self):
        super().setUp()
        # Nova prefers host1, then host2, and so on.
        self.flags(ram_weight_multiplier=1000.0, group='filter_scheduler')
        for number, driver in enumerate((STOCK, base.DRIVER) * 2):
            self.start_host(
                f'host{number + 1}',
                base.pages(65536 >> number, huge=512),
                driver=driver,
            )
        self.floating = self.flavor()
        self.affined = self.flavor(memory_mb=512, **AFFINED)

    def test_neither_kind_of_host_is_mixed(self):
        for flavor in (self.floating, self.affined) * 3:
            self.boot(flavor)
        self.look()
        for flavor in (self.affined, self.floating) * 2:
            self.boot(flavor)
        self.assertEqual({'floating'}, self.guests_on('host1'))  # stock
        self.assertEqual({'affined'}, self.guests_on('host2'))  # guard

    def test_a_host_that_begins_to_report_is_judged_as_before(self):
        self.boot(self.floating)
        self.assertEqual({'floating'}, self.guests_on('host1'))
        self.flags(compute_driver=base.DRIVER)
        self.restart_compute_service('host1')
        self.boot(self.affined)
        self.boot(self.floating)
        self.assertEqual({'floating'}, self.guests_on('host1'))
        self.assertEqual({'affined'}, self.guests_on('host2'))

    def test_a_record_that_nobody_knows(self):
        self.boot(self.floating, host='host2')
        node = self.computes['host2'].manager.rt.compute_nodes['host2']
        for record in ('junk', '{"version": 99}', '[]'):
            node.stats['numa_guard'] = record
            node.save()
            server = self.boot(self.affined)
            self.assertEqual('host1', self.host_of(server))
            refused = self.boot(
                self.affined, host='host2', expected_state='ERROR'
            )
            self.assertIn('No valid host', refused['fault']['message'])
            self.gone(server, refused)


class ManyAtOnceTest(base.GuardTestCase):
    """20 servers of both kinds, asked for at once, over 6 hosts."""

    GUARD = {'isolation': 'host'}

    def setUp(self):
        super().setUp()
        self.flags(max_attempts=6, group='scheduler')
        self.flags(instances=-1, cores=-1, ram=-1, group='quota')
        for number in range(6):
            self.start_host(f'host{number}', base.pages(8192, huge=4096))

    def test_no_host_is_mixed(self):
        kinds = (self.flavor(), self.flavor(memory_mb=1024, **AFFINED))
        for flavor, count in zip(
            itertools.cycle(kinds), (3, 3, 2, 2, 4, 4, 1, 1), strict=False
        ):
            body = self._build_server(flavor_id=flavor, networks='none')
            body.update(min_count=count, max_count=count)
            self.api.post_server({'server': body})
        servers = self.api.get_servers()
        self.assertEqual(20, len(servers))
        for server in servers:
            self.settled(server, 'ACTIVE')
        contents = [self.guests_on(f'host{n}') for n in range(6)]
        self.assertEqual([], [kinds for kinds in contents if len(kinds) > 1])
        self.assertIn({'floating'}, contents)
        self.assertIn({'affined'}, contents)


class AggregatesTest(base.GuardTestCase):
    """Metadata of aggregates, for hosts that would take anything."""

    GUARD = {'isolation': 'none', 'weight_multiplier': 0.0}

    def setUp(self):
        super().setUp()
        self.flags(ram_weight_multiplier=1000.0, group='filter_scheduler')
        self.start_host('host1', base.pages(65536, huge=512))
        self.start_host('host2', base.pages(8192, huge=512))
        self.floating = self.flavor()
        self.affined = self.flavor(memory_mb=512, **AFFINED)

    def aggregate(self, name, host, **metadata):
        aggregate = self.api.post_aggregate({'aggregate': {'name': name}})
        self.api.add_host_to_aggregate(aggregate['id'], host)
        self.api.post_aggregate_action(
            aggregate['id'],
            {
                'set_metadata': {
                    'metadata': {
                        f'numa_guard:{key}': value
                        for key, value in metadata.items()
                    }
                }
            },
        )

    def test_isolation_of_some_hosts(self):
        self.aggregate('edge', 'host1', isolation='host')
        self.assertEqual('host1', self.host_of(self.boot(self.floating)))
        self.assertEqual('host2', self.host_of(self.boot(self.affined)))
        # host2 is in no aggregate.
        self.boot(self.floating, host='host2')

    def test_warn_for_some_hosts(self):
        self.aggregate(
            'edge', 'host1', isolation='host', isolation_mode='warn'
        )
        self.assertEqual('host1', self.host_of(self.boot(self.floating)))
        server = self.boot(self.affined)
        self.assertEqual('host1', self.host_of(server))
        self.assertIn(
            f'NUMA guard would have removed 1 of 2 hosts for affined guest '
            f'{server["id"]}: floating-present: 1',
            self.stdlog.logger.output,
        )

    def test_what_hosts_are_for(self):
        self.aggregate('pinned', 'host1', accepts='affined')
        self.assertEqual('host2', self.host_of(self.boot(self.floating)))
        self.assertEqual('host1', self.host_of(self.boot(self.affined)))

    def test_aggregates_that_disagree_are_named_once(self):
        self.aggregate('a', 'host1', accepts='affined')
        self.aggregate('b', 'host1', accepts='floating')
        for flavor in (self.floating, self.affined):
            self.assertEqual('host2', self.host_of(self.boot(flavor)))
        self.assertEqual(
            1,
            self.stdlog.logger.output.count(
                'NUMA guard, host host1: aggregates disagree on '
                'numa_guard:accepts: a says affined, b says floating'
            ),
        )
