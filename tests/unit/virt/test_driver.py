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

"""The overrides of Nova's libvirt driver."""

from importlib import metadata
import types

import fixtures
from lxml import etree
from nova import exception, objects
from nova.compute import task_states
from oslo_config import cfg

from nova_numa_guard import (
    confinement,
    fixture,
    pools,
    report,
    tuning,
    writing,
)
from nova_numa_guard.virt import driver, migration, paths
from tests.unit import base, samples
from tests.unit.virt import (
    domains,
    records,
    test_floating_cells,
    test_hooks,
    test_incoming,
    test_migration,
)

XML = samples.domain_xml((0, 1 << 20, None), (1, 1 << 20, 2048))


LIBVIRT = 'nova.virt.libvirt.driver.LibvirtDriver'


class DriverTestCase(base.TestCase):
    """A driver whose base class notes what it is called with."""

    def setUp(self):
        super().setUp()
        self.calls = []
        self.result = None
        self.topology = objects.NUMATopology(
            cells=[samples.host_cell(0), samples.host_cell(1)]
        )
        self.records = self.useFixture(records.Records())
        self.machine = self.useFixture(fixture.KernelFixture())
        self.machine.set_pool(0, 2048, total=32, free=32)
        self.machine.set_bound(2048)
        for name, result in (
            ('nova_numa_guard.pools.Kernel', self.machine.kernel),
            (f'{LIBVIRT}.get_available_nodes', ['this-node']),
            (f'{LIBVIRT}._get_host_numa_topology', self.topology),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(name, lambda *args, it=result: it)
            )
        # Which its __init__ makes.
        self.useFixture(
            fixtures.MonkeyPatch(f'{LIBVIRT}._host', domains.Host())
        )
        for name in test_hooks.overrides():
            self.useFixture(
                fixtures.MonkeyPatch(f'{LIBVIRT}.{name}', self.stock(name))
            )
        self.driver = driver.NUMAGuardDriver('virtapi')
        self.calls.clear()

    def stock(self, name):
        def record(driver, *args, **kwargs):
            self.calls.append((name, args, kwargs))
            if isinstance(self.result, Exception):
                raise self.result
            return None if name == '__init__' else self.result

        return record


class StartTest(DriverTestCase):
    def test_nova_is_started_as_ever(self):
        driver.NUMAGuardDriver('virtapi')
        driver.NUMAGuardDriver('virtapi', read_only=True)
        self.assertEqual(
            [
                ('__init__', ('virtapi', False), {}),
                ('__init__', ('virtapi', True), {}),
            ],
            self.calls,
        )

    def test_audits_end_before_nova_cleans_up(self):
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.virt.delivery.Delivery.stop',
                lambda delivery: self.calls.append('stop'),
            )
        )
        self.driver.cleanup_host('this')
        self.assertEqual(['stop', ('cleanup_host', ('this',), {})], self.calls)

    def test_init_host(self):
        self.driver.init_host('this')
        self.assertEqual([('init_host', ('this',), {})], self.calls)
        [line] = self.log.at('INFO')
        self.assertEqual(
            'NUMA guard: isolation is none, numatune guard, '
            'small_page_policy auto, page_check enforce',
            line,
        )
        self.assertIsNone(self.driver.floating_cells.confinement)

    def test_one_kernel_is_read_by_all(self):
        """And it is that of this machine."""
        made = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.pools.Kernel',
                lambda *args: made.append(args) or self.machine.kernel,
            )
        )
        found = driver.NUMAGuardDriver('virtapi')
        self.assertEqual([()], made)
        for part in (
            found.page_check.lookout,
            found.floating_cells,
            found.reporter,
        ):
            self.assertIs(self.machine.kernel, part.kernel)

    def test_the_floating_cells_are_settled(self):
        self.flags(isolation='cell', floating_cells='1')
        self.driver.init_host('this')
        self.assertEqual({1}, self.driver.floating_cells.confinement.nodes)

    def test_floating_cells_that_contradict_the_host_stop_the_service(self):
        self.flags(isolation='cell', floating_cells='7')
        exc = self.assertRaises(
            exception.InvalidConfiguration, self.driver.init_host, 'this'
        )
        self.assertIn('floating_cells has 7', str(exc))

    def test_a_bad_option_stops_the_service_before_nova_starts(self):
        for name in (
            'numatune',
            'small_page_policy',
            'page_check',
            'isolation',
            'isolation_mode',
            'mixed_hosts',
            'isolation_on_moves',
            'floating_cells',
            'floating_memory_mode',
            'refusal_ttl',
        ):
            self.raw(**{name: 'perhaps'})
            exc = self.assertRaises(
                cfg.ConfigFileValueError, self.driver.init_host, 'this'
            )
            self.assertIn(f'[numa_guard] {name}', str(exc))
        self.assertEqual([], self.calls)


class SpawnTest(DriverTestCase):
    def setUp(self):
        super().setUp()
        self.events = self.useFixture(records.EventRecorder())
        self.driver.init_host('this')
        self.calls.clear()
        self.log.records.clear()
        self.context = samples.context()
        self.instance = samples.instance(
            samples.guest_cell(64, page_size=2048)
        )

    def spawn(self):
        self.driver.spawn(
            self.context, self.instance, 'image', [], power_on=False
        )

    def test_everything_reaches_nova(self):
        self.spawn()
        self.assertEqual(
            [
                (
                    'spawn',
                    (self.context, self.instance, 'image', []),
                    {'power_on': False},
                )
            ],
            self.calls,
        )

    def test_nova_does_nothing_for_a_guest_that_is_refused(self):
        """No image is downloaded, and no disk is made."""
        self.machine.steal(0, 2048, 1)
        self.assertRaises(exception.GroupAffinityViolation, self.spawn)
        self.assertEqual([], self.calls)

    def test_the_host_is_the_one_that_nova_said(self):
        """And not [DEFAULT] host, whatever that has become meanwhile."""
        self.machine.steal(0, 2048, 1)
        self.instance.task_state = 'rebuild_spawning'
        self.spawn()
        self.assertEqual(1, len(self.calls))
        self.config.config(host='another')
        self.spawn()
        self.instance.host = 'another'
        self.assertRaises(exception.GroupAffinityViolation, self.spawn)

    def test_a_guest_of_the_wrong_kind_is_refused(self):
        self.flags(isolation='host')
        self.records.add(host='this')
        self.assertRaises(exception.GroupAffinityViolation, self.spawn)
        self.assertEqual([], self.calls)

    def test_the_kind_is_judged_before_the_pages(self):
        """A host of the other kind is not remembered as one without pages."""
        self.flags(isolation='host')
        self.machine.steal(0, 2048, 1)
        self.records.add(host='this')
        self.assertRaises(exception.GroupAffinityViolation, self.spawn)
        [event] = self.events.written
        self.assertIn('isolation', event['event'])

    def test_the_guests_of_the_host_and_node_that_nova_has(self):
        """A migration names both."""
        self.flags(isolation='host')
        self.config.config(host='another')
        guest = self.records.add(host='there')
        self.records.move(guest, 'this').claim()
        self.assertRaises(exception.GroupAffinityViolation, self.spawn)

    def test_a_guest_that_fails_to_start_keeps_nobody_away(self):
        self.flags(isolation='host')
        self.result = exception.ImageNotFound(image_id='x')
        self.assertRaises(exception.ImageNotFound, self.spawn)
        self.result = None
        self.instance = samples.instance()
        self.spawn()

    def test_nor_does_one_that_has_no_pages(self):
        self.flags(isolation='host')
        self.machine.steal(0, 2048, 1)
        self.assertRaises(exception.GroupAffinityViolation, self.spawn)
        self.instance = samples.instance()
        self.spawn()

    def test_while_it_starts_it_keeps_others_away(self):
        self.flags(isolation='host')
        other = samples.instance(uuid='a' * 36)

        def start(*args, **kwargs):
            self.assertRaises(
                exception.GroupAffinityViolation,
                self.driver.spawn,
                self.context,
                other,
            )
            self.calls.append('started')

        self.useFixture(fixtures.MonkeyPatch(f'{LIBVIRT}.spawn', start))
        self.spawn()
        self.assertEqual(['started'], self.calls)

    def test_a_refusal_is_in_the_next_report(self):
        self.machine.steal(0, 2048, 1)
        self.assertRaises(exception.GroupAffinityViolation, self.spawn)
        self.result = {'hypervisor_hostname': 'this-node'}
        found = self.driver.get_available_resource('this-node')
        [refused] = report.decode(found['stats']['numa_guard']).refused
        self.assertEqual((0, 2048), (refused.node, refused.page_size))


class StartPathsTest(DriverTestCase):
    """Every other way in which Nova starts a guest."""

    def setUp(self):
        super().setUp()
        self.useFixture(records.EventRecorder())
        self.flags(page_wait=0, host_boot_wait=0)
        self.driver.init_host('this')
        self.calls.clear()
        self.promised = []
        self.instance = samples.instance(
            samples.guest_cell(64, page_size=2048), vm_state='active'
        )
        self.instance._context = self.context = samples.context()
        self.desk = self.driver.page_check.reservations
        self.bound = []
        self.driver.virtapi = types.SimpleNamespace(
            _compute=types.SimpleNamespace(
                network_api=types.SimpleNamespace(
                    setup_instance_network_on_host=self.bind
                )
            )
        )

    def bind(self, context, instance, host):
        self.bound.append((host, instance.pci_devices, instance.pci_requests))

    def evacuated(self):
        """As Nova hands it on: with the new host's devices."""
        self.instance.host = 'old'
        self.instance.pci_devices = objects.PciDeviceList(objects=[])
        self.instance.pci_requests = objects.InstancePCIRequests(requests=[])
        old = objects.PciDeviceList(objects=[])
        requests = objects.InstancePCIRequests(requests=[])
        self.instance.migration_context = objects.MigrationContext(
            old_pci_devices=old, old_pci_requests=requests
        )
        return [('old', old, requests)]

    def assert_bound(self, expected):
        """These very objects: they have no equality of their own."""
        self.assertEqual(
            [(host, id(one), id(other)) for host, one, other in expected],
            [(host, id(one), id(other)) for host, one, other in self.bound],
        )

    def stock(self, name):
        record = super().stock(name)

        def noted(driver, *args, **kwargs):
            if hasattr(self, 'desk'):
                self.promised.append((name, len(self.desk.promises)))
            return record(driver, *args, **kwargs)

        return noted

    def call(self, name):
        """As Nova does, by position and by name."""
        args = {
            'unrescue': (self.context, self.instance),
        }.get(name, (self.context, self.instance, 'more'))
        kwargs = {'most': 'most'} if len(args) == 3 else {}
        self.calls.clear()
        self.promised.clear()
        try:
            return getattr(self.driver, name)(*args, **kwargs)
        finally:
            for call in self.calls:
                self.assertEqual((name, args, kwargs), call)
            self.assertEqual((), self.desk.promises)

    def test_while_nova_starts_it_its_pages_are_promised(self):
        self.result = 'what Nova says'
        for name, tells in (
            ('_hard_reboot', False),
            ('reboot', False),
            ('resume', False),
            ('resume_state_on_host_boot', False),
            ('rescue', False),
            ('unrescue', False),
        ):
            found = self.call(name)
            self.assertEqual(self.result if tells else None, found)
            self.assertEqual([(name, 1)], self.promised)

    def test_nova_touches_nothing_of_a_guest_that_is_refused(self):
        self.machine.steal(0, 2048, 1)
        for name, refusal in (
            ('_hard_reboot', exception.ComputeResourcesUnavailable),
            ('reboot', exception.ComputeResourcesUnavailable),
            ('resume', exception.InstanceFaultRollback),
            ('unrescue', exception.ComputeResourcesUnavailable),
        ):
            self.assertRaises(refusal, self.call, name)
            self.assertEqual([], self.calls)

    def test_what_nova_has_begun_already_goes_on(self):
        self.machine.steal(0, 2048, 1)
        for name in ('resume_state_on_host_boot', 'rescue'):
            self.call(name)
            self.assertEqual([(name, 1)], self.promised)

    def test_a_rebuild_is_held_to_its_end(self):
        """Nova has its own way of it, and asks the driver for the parts."""
        self.result = NotImplementedError()
        for evacuate, path in (
            (False, paths.REBUILD),
            (True, paths.EVACUATION),
        ):
            self.assertRaises(
                NotImplementedError,
                self.driver.rebuild,
                self.context,
                self.instance,
                'image',
                evacuate=evacuate,
            )
            self.assertEqual(1, len(self.desk.promises))
            self.assertIs(path, self.driver.starts._holds[self.instance].path)
            self.assertEqual(
                (
                    'rebuild',
                    (self.context, self.instance, 'image'),
                    {'evacuate': evacuate},
                ),
                self.calls[-1],
            )
            self.result = None
            self.driver.spawn(self.context, self.instance, 'image')
            self.assertEqual((), self.desk.promises)
            self.result = NotImplementedError()

    def assert_evacuation_refused(self):
        self.assertRaises(
            exception.ComputeResourcesUnavailable,
            self.driver.rebuild,
            self.context,
            self.instance,
            evacuate=True,
        )

    def test_an_evacuation_is_refused_before_nova_does_anything(self):
        ports = self.evacuated()
        self.machine.steal(0, 2048, 1)
        self.assert_evacuation_refused()
        self.assertEqual([], self.calls)
        # But for the ports, which are bound to their host again.
        self.assert_bound(ports)
        self.assertIsNot(ports[0][1], self.instance.pci_devices)

    def test_ports_that_cannot_be_bound_again(self):
        self.evacuated()
        self.machine.steal(0, 2048, 1)
        self.driver.virtapi = None
        self.assert_evacuation_refused()
        warning = self.log.at('WARNING')[-1]
        self.assertIn('are bound to this host, and should be to old', warning)

    def test_nor_are_they_of_one_that_goes_on(self):
        self.evacuated()
        self.driver.rebuild(self.context, self.instance, evacuate=True)
        self.machine.steal(0, 2048, 1)
        self.driver.rebuild(self.context, self.instance)
        self.assertEqual([], self.bound)

    def test_one_that_breaks_the_isolation_as_well(self):
        asked, ports = [], self.evacuated()

        def refuse(*args):
            asked.append(args)
            raise exception.ComputeResourcesUnavailable(reason='kind')

        self.driver.late_check.check_evacuation = refuse
        self.assert_evacuation_refused()
        self.assertEqual(
            [(self.context, self.instance, 'this', 'this-node')], asked
        )
        self.assertEqual(([], ()), (self.calls, self.desk.promises))
        self.assert_bound(ports)

    def test_one_that_comes_from_another_cell_of_nova(self):
        """Nova has destroyed it there, and makes it here from a snapshot."""
        self.flags(isolation='host', isolation_on_moves='enforce')
        self.instance.task_state = task_states.RESIZE_FINISH
        self.machine.steal(0, 2048, 1)
        self.driver.spawn(self.context, self.instance, 'image', power_on=False)
        self.assertEqual(
            [
                (
                    'spawn',
                    (self.context, self.instance, 'image'),
                    {'power_on': False},
                )
            ],
            self.calls,
        )
        self.assertEqual([('spawn', 0)], self.promised)

    def test_a_soft_reboot_that_goes_on_as_a_hard_one(self):
        """Meanwhile nobody else is promised its pages."""

        def stock(nova, context, instance, *args):
            seen.append(self.desk.promises)
            nova._hard_reboot(context, instance)
            seen.append(self.desk.promises)

        seen = []
        self.useFixture(fixtures.MonkeyPatch(f'{LIBVIRT}.reboot', stock))
        self.driver.reboot(self.context, self.instance, 'net', 'SOFT')
        self.assertEqual([('_hard_reboot', 1)], self.promised)
        self.assertEqual(2, len(seen))
        self.assertIs(*seen[0], *seen[1])
        self.assertEqual((), self.desk.promises)

    def snapshot(self, stops):
        """A cold one stops the guest, and starts it in the end."""

        def stock(nova, context, instance, *args, **kwargs):
            self.calls.append(('snapshot', args, kwargs))
            nova._suspend_guest_for_snapshot(context, False, 1, instance)
            nova._destroy(instance)
            nova._resume_guest_after_snapshot(
                context, False, 1, instance, 'guest'
            )

        for name, function in (
            ('snapshot', stock),
            (
                '_needs_suspend_resume_for_snapshot',
                lambda nova, live, state: stops,
            ),
        ):
            self.useFixture(
                fixtures.MonkeyPatch(f'{LIBVIRT}.{name}', function)
            )
        self.driver.snapshot(self.context, self.instance, 'id', most='most')
        self.assertEqual(
            ('snapshot', ('id',), {'most': 'most'}), self.calls[0]
        )
        self.assertEqual((), self.desk.promises)

    def test_a_cold_snapshot(self):
        self.snapshot(stops=True)
        self.assertEqual(
            [
                ('_suspend_guest_for_snapshot', 1),
                ('_destroy', 1),
                ('_resume_guest_after_snapshot', 1),
            ],
            self.promised,
        )

    def test_a_live_snapshot(self):
        self.snapshot(stops=False)
        self.assertEqual({0}, {count for _, count in self.promised})

    def test_a_cold_snapshot_that_is_refused(self):
        self.machine.steal(0, 2048, 1)
        self.assertRaises(
            exception.ComputeResourcesUnavailable, self.snapshot, stops=True
        )
        self.assertEqual(['snapshot'], [name for name, *_ in self.calls])

    def test_when_nova_has_destroyed_it_its_pages_are_awaited(self):
        ended = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.virt.starts.Starts.ended',
                lambda starts, instance: ended.append(list(self.calls)),
            )
        )
        self.driver._destroy(self.instance)
        self.assertEqual([[('_destroy', (self.instance,), {})]], ended)

    def test_a_live_migration_that_would_find_no_pages(self):
        claim = test_incoming.Claim(self.instance)
        args = (self.context, self.instance, 'data', claim)
        self.result = 'what Nova says'
        self.assertEqual(
            self.result, self.driver.post_claim_migrate_data(*args)
        )
        self.assertEqual([('post_claim_migrate_data', args, {})], self.calls)
        self.calls.clear()
        self.machine.steal(0, 2048, 1)
        self.assertRaises(
            exception.MigrationPreCheckError,
            self.driver.post_claim_migrate_data,
            *args,
        )
        self.assertEqual([], self.calls)

    def create(self, **kwargs):
        guest = self.result = test_floating_cells.FakeGuest()
        self.assertIs(
            guest,
            self.driver._create_guest(
                self.context, '<xml/>', self.instance, **kwargs
            ),
        )
        [(_, launching)] = self.promised
        self.promised.clear()
        self.assertEqual((), self.desk.promises)
        return bool(launching)

    def test_only_guests_that_are_started_take_pages(self):
        """Not those that are only defined."""
        self.assertTrue(self.create())
        self.assertTrue(self.create(power_on=False, pause=True))
        self.assertFalse(self.create(power_on=False))


class CreateGuestTest(DriverTestCase):
    def setUp(self):
        super().setUp()
        self.flags(isolation='cell', floating_cells='1')
        self.driver.init_host('this')
        self.calls.clear()
        self.log.records.clear()
        self.result = test_floating_cells.FakeGuest()
        for name, text in (
            (f'run/libvirt/qemu/{self.result.name}.pid', '77'),
            ('proc/77/task/77/status', 'Mems_allowed_list:\t0-1\n'),
        ):
            path = self.machine.root / name
            path.parent.mkdir(parents=True)
            path.write_text(text)

    def create(self, *cells):
        self.instance = samples.instance(*cells)
        return self.driver._create_guest(
            'context', '<xml/>', self.instance, power_on=True, more='more'
        )

    def test_everything_reaches_nova(self):
        self.assertIs(self.result, self.create())
        self.assertEqual(
            [
                (
                    '_create_guest',
                    ('context', '<xml/>', self.instance, True, False),
                    {'more': 'more'},
                )
            ],
            self.calls,
        )

    def test_it_is_looked_whether_the_guest_is_confined(self):
        self.create()
        self.assertEqual(1, len(self.log.at('ERROR')))

    def test_affined_guests_are_not(self):
        self.create(samples.guest_cell())
        self.assertEqual([], self.log.records)

    def test_novas_errors_are_novas(self):
        self.result = exception.VirtualInterfaceCreateException()
        self.assertRaises(
            exception.VirtualInterfaceCreateException, self.create
        )


class GuestXMLTest(DriverTestCase):
    def setUp(self):
        super().setUp()
        self.result = XML
        self.instance = samples.instance()

    def xml(self):
        return self.driver._get_guest_xml(
            'context', self.instance, 'network', image_meta='image'
        )

    def test_everything_reaches_nova(self):
        self.xml()
        self.assertEqual(
            [
                (
                    '_get_guest_xml',
                    ('context', self.instance, 'network'),
                    {'image_meta': 'image'},
                )
            ],
            self.calls,
        )

    def test_the_policy_is_the_option(self):
        for policy in tuning.SmallPagePolicy:
            self.flags(small_page_policy=policy.value)
            self.assertEqual(tuning.apply(XML, policy), self.xml())

    def test_the_flavor_has_the_last_word(self):
        for policy in tuning.SmallPagePolicy:
            self.instance.flavor = samples.flavor(mem_policy=policy.value)
            for option in tuning.SmallPagePolicy:
                self.flags(small_page_policy=option.value)
                self.assertEqual(tuning.apply(XML, policy), self.xml())
        self.assert_logged('WARNING')

    def test_a_flavor_that_says_nothing_we_know(self):
        """The API refuses it, but older ones did not."""
        self.flags(small_page_policy='local')
        for text in ('junk', '', 'STRICT'):
            self.log.records.clear()
            self.instance.flavor = samples.flavor(mem_policy=text)
            self.assertEqual(
                tuning.apply(XML, tuning.SmallPagePolicy.LOCAL), self.xml()
            )
            self.assert_logged(
                'WARNING',
                f'The flavor has numa_guard:mem_policy={text}, which is none '
                'of auto, preferred, local, strict; small_page_policy is used '
                'instead',
            )

    def test_where_numatune_is_stock_the_flavor_does_not_count(self):
        self.flags(numatune='stock')
        self.instance.flavor = samples.flavor(mem_policy='local')
        self.assertIs(XML, self.xml())

    def test_the_policies_differ(self):
        self.assertEqual(
            3,
            len(
                {
                    tuning.apply(XML, policy)
                    for policy in tuning.SmallPagePolicy
                }
            ),
        )

    def test_stock_is_novas_own_string(self):
        self.flags(numatune='stock')
        for policy in tuning.SmallPagePolicy:
            self.flags(small_page_policy=policy.value)
            self.assertIs(XML, self.xml())

    def test_stock_does_not_even_parse(self):
        self.flags(numatune='stock')
        self.result = 'junk'
        self.assertEqual('junk', self.xml())
        self.assert_logged('WARNING')

    def test_floating_guests_get_novas_own_string(self):
        self.result = samples.domain_xml()
        self.assertIs(self.result, self.xml())

    def test_xml_that_cannot_be_read_stays_as_it_is(self):
        self.result = '<network/>'
        self.assertIs(self.result, self.xml())
        [warning] = self.log.at('WARNING')
        self.assertIn('<numatune> stays as Nova wrote it', warning)
        self.assertIn('network', warning)

    def test_novas_errors_are_novas(self):
        self.result = exception.RealtimeMaskNotFoundOrInvalid()
        self.assertRaises(exception.RealtimeMaskNotFoundOrInvalid, self.xml)


class ConfinedXMLTest(DriverTestCase):
    """Under isolation by cell, floating guests have cells of their own."""

    def setUp(self):
        super().setUp()
        self.flags(isolation='cell', floating_cells='1')
        self.driver.init_host('this')
        self.log.records.clear()

    def xml(self, stock):
        self.result = stock
        return self.driver._get_guest_xml(
            'context', samples.instance(), 'network'
        )

    def test_floating_guests(self):
        for numatune in ('guard', 'stock'):
            self.flags(numatune=numatune)
            xml = self.xml(samples.domain_xml())
            root = etree.fromstring(xml)
            self.assertEqual('16-23', root.find('vcpu').get('cpuset'))
            self.assertEqual(
                {'mode': 'restrictive', 'nodeset': '1'},
                dict(root.find('numatune/memory').attrib),
            )

    def test_by_the_mode_that_is_set(self):
        self.flags(floating_memory_mode='strict')
        self.driver.init_host('this')
        self.assertEqual(
            confinement.apply(
                samples.domain_xml(),
                confinement.Confinement(
                    frozenset({1}),
                    frozenset(range(16, 24)),
                    confinement.Mode.STRICT,
                ),
            ),
            self.xml(samples.domain_xml()),
        )

    def test_affined_guests_are_as_ever(self):
        self.assertEqual(
            tuning.apply(XML, tuning.SmallPagePolicy.AUTO), self.xml(XML)
        )
        self.flags(numatune='stock')
        self.assertIs(XML, self.xml(XML))

    def test_under_any_other_isolation_floating_guests_are_as_ever(self):
        for word in ('none', 'host'):
            self.flags(isolation=word)
            self.driver = driver.NUMAGuardDriver('virtapi')
            self.driver.init_host('this')
            stock = samples.domain_xml()
            self.assertIs(stock, self.xml(stock))

    def test_xml_that_cannot_be_read_stays_as_it_is(self):
        for junk in ('<network/>', '<domain/>', 'junk'):
            self.log.records.clear()
            self.assertIs(junk, self.xml(junk))
            self.assertEqual(1, len(self.log.at('WARNING')))


class LiveMigrationTest(DriverTestCase):
    def setUp(self):
        super().setUp()
        self.guest = test_migration.FakeGuest(
            tuning.apply(XML, tuning.SmallPagePolicy.LOCAL)
        )
        self.context = samples.context()
        self.there = writing.Writing(tuning.SmallPagePolicy.STRICT)
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.virt.guest_xml.there', self.written_there
            )
        )

    def written_there(self, host, instance):
        self.assertEqual('dest', host)
        return self.there

    def migrate(self, instance):
        self.driver._live_migration_operation(
            self.context,
            instance,
            'dest',
            False,
            'data',
            self.guest,
            ['vda'],
        )
        [(_, args, kwargs)] = self.calls
        self.assertEqual(
            (self.context, instance, 'dest', False, 'data'), args[:5]
        )
        self.assertEqual((['vda'],), args[6:])
        self.assertEqual({}, kwargs)
        return args[5]

    def test_nova_gets_a_guest_in_its_own_language(self):
        instance = samples.instance(
            samples.guest_cell(node=0), samples.guest_cell(node=1)
        )
        guest = self.migrate(instance)
        self.assertIsInstance(guest, migration.MigratingGuest)
        self.assertEqual(
            tuning.restore(self.guest.xml, {0: 0, 1: 1}),
            guest.get_xml_desc(),
        )
        self.assertIn('nodeset="0,1"', guest.get_xml_desc())

    def test_nodes_are_those_of_the_instance(self):
        instance = samples.instance(
            samples.guest_cell(node=17), samples.guest_cell(node=1)
        )
        self.assertIn(
            '<memnode cellid="0" mode="strict" nodeset="17"/>',
            self.migrate(instance).get_xml_desc(),
        )

    def test_a_floating_guest(self):
        self.guest.xml = samples.domain_xml()
        guest = self.migrate(samples.instance())
        self.assertIs(self.guest.xml, guest.get_xml_desc())

    def test_a_floating_guest_that_is_confined(self):
        """The destination may have no such cells."""
        self.guest.xml = confinement.apply(
            samples.domain_xml(),
            confinement.Confinement(frozenset({1}), frozenset({16})),
        )
        guest = self.migrate(samples.instance())
        self.assertIn('<numatune>', self.guest.xml)
        self.assertNotIn('numatune', guest.get_xml_desc())

    def test_the_destination_gets_its_own(self):
        instance = samples.instance(
            samples.guest_cell(node=0), samples.guest_cell(node=1)
        )
        self.migrate(instance).migrate('uri', destination_xml=XML)
        self.assertEqual(
            [
                (
                    'uri',
                    {
                        'destination_xml': tuning.apply(
                            XML, tuning.SmallPagePolicy.STRICT
                        )
                    },
                )
            ],
            self.guest.migrated,
        )

    def check(self, instance):
        """What a source is told of this host, without the guard or with it."""
        self.result = objects.LibvirtLiveMigrateData(
            dst_cpu_shared_set_info={1, 2}
        )
        args = (self.context, instance, 'source', 'dest', False)
        found = self.driver.check_can_live_migrate_destination(
            *args, disk_over_commit=True
        )
        self.assertEqual(
            [
                (
                    'check_can_live_migrate_destination',
                    args,
                    {'disk_over_commit': True},
                )
            ],
            self.calls,
        )
        self.calls.clear()
        return found.dst_cpu_shared_set_info

    def test_one_that_cannot_come_leaves_no_file_here(self):
        self.useFixture(records.EventRecorder())
        self.machine.steal(0, 2048, 1)
        self.assertRaises(
            exception.MigrationPreCheckError,
            self.driver.check_can_live_migrate_destination,
            self.context,
            samples.instance(
                samples.guest_cell(64, page_size=2048, node=1),
                vm_state='active',
            ),
            'source',
            'dest',
        )
        self.assertEqual([], self.calls)

    def test_cpus_of_a_floating_guest_that_comes(self):
        floating, affined = (
            samples.instance(),
            samples.instance(samples.guest_cell()),
        )
        self.assertEqual({1, 2}, self.check(floating))
        self.driver.floating_cells.confinement = confinement.Confinement(
            frozenset({1}), frozenset({16, 17})
        )
        self.assertEqual({16, 17}, self.check(floating))
        self.assertEqual({1, 2}, self.check(affined))

    def test_one_has_come(self):
        seen = []
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_numa_guard.virt.floating_cells.FloatingCells'
                '.verify_arrival',
                lambda cells, *args: seen.append((args, list(self.calls))),
            )
        )
        args = (self.context, 'instance', 'network')
        self.driver.post_live_migration_at_destination(
            *args, block_migration=True
        )
        self.assertEqual(
            [
                (
                    ('instance', self.driver._host),
                    [
                        (
                            'post_live_migration_at_destination',
                            args,
                            {'block_migration': True},
                        )
                    ],
                )
            ],
            seen,
        )

    def test_what_is_under_way_is_known_at_start(self):
        guest = self.records.add(samples.guest_cell(), host='there')
        self.records.move(
            guest,
            'this',
            samples.guest_cell(64, page_size=2048),
            kind='live-migration',
        ).claim()
        self.driver.init_host('this')
        [expected] = self.driver.page_check.arrivals.expected
        self.assertEqual(guest.uuid, expected.uuid)


class AvailableResourceTest(DriverTestCase):
    def resources(self, **stock):
        self.result = {'hypervisor_hostname': 'this-node', **stock}
        return self.driver.get_available_resource('this-node')

    def test_the_report_joins_novas_stats(self):
        self.config.config(reserved_host_memory_mb=777)
        found = self.resources(vcpus=8, stats={'uptime': 'long'})
        self.assertEqual(8, found['vcpus'])
        self.assertEqual({'uptime', 'numa_guard'}, set(found['stats']))
        self.assertEqual('long', found['stats']['uptime'])
        self.assertEqual(
            samples.record(
                reserved=777,
                headroom={2048: {0: 32}},
                written=writing.Writing(tuning.SmallPagePolicy.AUTO),
                guard=metadata.version('nova-numa-guard'),
            ),
            report.decode(found['stats']['numa_guard']),
        )
        self.assertEqual(
            [('get_available_resource', ('this-node',), {})], self.calls
        )

    def test_a_nova_without_stats(self):
        self.assertEqual({'numa_guard'}, set(self.resources()['stats']))

    def test_the_scheduler_needs_it_whatever_is_on_here(self):
        for numatune, check in (('guard', 'off'), ('stock', 'off')):
            self.flags(numatune=numatune, page_check=check)
            self.assertIn('numa_guard', self.resources()['stats'])

    def test_nova_keeps_it_as_it_is(self):
        """The field takes text only, and the filter reads it back."""
        node = objects.ComputeNode(stats=self.resources()['stats'])
        self.assertIsNotNone(report.decode(node.stats['numa_guard']))

    def test_the_guests_are_those_of_the_host_that_nova_said(self):
        self.driver.init_host('this')
        self.config.config(host='another')
        self.records.add(host='this')
        self.records.add(host='another')
        record = report.decode(self.resources()['stats']['numa_guard'])
        self.assertEqual(1, record.floating.guests)

    def test_metrics_show_what_was_found(self):
        folder = self.useFixture(fixtures.TempDir())
        self.flags(
            metrics_textfile=folder.join('guard.prom'), isolation='host'
        )
        self.driver.init_host('this')
        self.records.add(host='this', flavor=samples.flavor(300, 1))
        self.resources()
        value = self.driver.metrics.registry.get_sample_value
        for name, labels, expected in (
            ('guest_memory_bytes', {'kind': 'floating'}, 300 << 20),
            ('guest_memory_bytes', {'kind': 'affined'}, 0),
            ('isolation', {'isolation': 'host'}, 1),
        ):
            self.assertEqual(expected, value(f'numa_guard_{name}', labels))

    def test_before_that_those_of_the_option(self):
        self.config.config(host='another')
        self.driver = driver.NUMAGuardDriver('virtapi')
        self.records.add(host='another')
        record = report.decode(self.resources()['stats']['numa_guard'])
        self.assertEqual(1, record.floating.guests)

    def test_floating_cells_are_hidden_from_filters_and_claims_only(self):
        """By the other topology Nova writes guests' XML: it stays whole."""
        self.flags(accounting=False)
        text = self.topology._to_json()
        self.assertEqual(
            text, self.resources(numa_topology=text)['numa_topology']
        )
        self.flags(isolation='cell', floating_cells='1')
        self.driver.init_host('this')
        found = self.resources(numa_topology=text)['numa_topology']
        cells = objects.NUMATopology.obj_from_db_obj(found).cells
        self.assertEqual([0], [cell.id for cell in cells])
        whole = self.driver._get_host_numa_topology()
        self.assertEqual([0, 1], [cell.id for cell in whole.cells])
        self.assertNotIn(
            '_get_host_numa_topology', vars(driver.NUMAGuardDriver)
        )

    def test_nova_is_told_of_live_pools(self):
        """But guests' XML is written by what it knows."""
        self.machine.set_pool(0, 2048, total=32, free=12)
        text = self.topology._to_json()
        found = self.resources(numa_topology=text)['numa_topology']
        cells = objects.NUMATopology.obj_from_db_obj(found).cells
        page = cells[0].mempages[1]
        self.assertEqual((32, 20), (page.total, page.reserved))
        whole = self.driver._get_host_numa_topology()
        self.assertEqual(0, whole.cells[0].mempages[1].total)

    def test_an_audit_does_not_end_for_what_cannot_be_read(self):
        self.records.failure = RuntimeError('no database')
        self.machine.kernel.pools = self.unreadable
        self.assertIn('numa_guard', self.resources()['stats'])
        self.assertEqual(2, len(self.log.at('WARNING')))

    def unreadable(self, *args):
        raise pools.UnreadableError(self.machine.root, 'gone')
