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

import inspect

import fixtures
from nova import exception, objects
from nova.virt.libvirt import driver as nova_driver
from oslo_config import cfg

from nova_numa_guard import domain, fixture, report
from nova_numa_guard.virt import driver, migration, page_check
from tests.unit import base, samples
from tests.unit.virt import test_migration, test_page_check

XML = samples.domain_xml((0, 1 << 20, None), (1, 1 << 20, 2048))


def overrides():
    """What the guard's driver has of its own, by name."""
    return {
        name: function
        for name, function in vars(driver.NUMAGuardDriver).items()
        if inspect.isfunction(function)
    }


class SignatureTest(base.TestCase):
    """Nova calls what we override, in the way that we expect."""

    def test_every_override_is_a_method_of_novas(self):
        self.assertEqual(
            {
                '__init__',
                'init_host',
                'spawn',
                '_get_guest_xml',
                '_live_migration_operation',
                'get_available_resource',
            },
            set(overrides()),
        )
        for name in overrides():
            self.assertIn(name, vars(nova_driver.LibvirtDriver), name)

    def test_every_override_takes_what_novas_takes(self):
        """By position and by name, in full and without the defaults."""
        for name, ours in overrides().items():
            nova = inspect.signature(vars(nova_driver.LibvirtDriver)[name])
            ours = inspect.signature(ours)
            full = list(nova.parameters)
            needed = [
                parameter.name
                for parameter in nova.parameters.values()
                if parameter.default is parameter.empty
            ]
            for names in (full, needed):
                ours.bind(*names)
                ours.bind(names[0], **dict.fromkeys(names[1:]))

    def test_what_we_name_is_where_nova_has_it(self):
        for name, ours in overrides().items():
            nova = vars(nova_driver.LibvirtDriver)[name]
            named = [
                parameter.name
                for parameter in inspect.signature(ours).parameters.values()
                if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
            ]
            theirs = list(inspect.signature(nova).parameters)
            self.assertEqual(theirs[: len(named)], named, name)

    def test_defaults_are_novas(self):
        for name, ours in overrides().items():
            theirs = inspect.signature(
                vars(nova_driver.LibvirtDriver)[name]
            ).parameters
            for parameter in inspect.signature(ours).parameters.values():
                if parameter.default is not parameter.empty:
                    self.assertEqual(
                        theirs[parameter.name].default, parameter.default
                    )


class DriverTestCase(base.TestCase):
    """A driver whose base class notes what it is called with."""

    def setUp(self):
        super().setUp()
        self.calls = []
        self.result = None
        for name in overrides():
            self.useFixture(
                fixtures.MonkeyPatch(
                    f'nova.virt.libvirt.driver.LibvirtDriver.{name}',
                    self.stock(name),
                )
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

    def test_init_host(self):
        self.driver.init_host('this')
        self.assertEqual([('init_host', ('this',), {})], self.calls)
        [line] = self.log.at('INFO')
        for part in ('guard', 'auto', 'enforce'):
            self.assertIn(part, line)

    def test_a_bad_option_stops_the_service_before_nova_starts(self):
        for name in (
            'numatune',
            'small_page_policy',
            'page_check',
            'isolation',
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
        self.useFixture(test_page_check.EventRecorder())
        self.machine = self.useFixture(fixture.KernelFixture())
        self.machine.set_pool(0, 2048, total=32, free=32)
        self.machine.set_bound(2048)
        self.driver.page_check = page_check.PageCheck(self.machine.kernel)
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
        self.assertRaises(exception.ComputeResourcesUnavailable, self.spawn)
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
        self.assertRaises(exception.ComputeResourcesUnavailable, self.spawn)


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
        for policy in domain.SmallPagePolicy:
            self.flags(small_page_policy=policy.value)
            self.assertEqual(domain.apply(XML, policy), self.xml())

    def test_stock_is_novas_own_string(self):
        self.flags(numatune='stock')
        for policy in domain.SmallPagePolicy:
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


class LiveMigrationTest(DriverTestCase):
    def setUp(self):
        super().setUp()
        self.guest = test_migration.FakeGuest(
            domain.apply(XML, domain.SmallPagePolicy.LOCAL)
        )

    def migrate(self, instance):
        self.driver._live_migration_operation(
            'context', instance, 'dest', False, 'data', self.guest, ['vda']
        )
        [(_, args, kwargs)] = self.calls
        self.assertEqual(
            ('context', instance, 'dest', False, 'data'), args[:5]
        )
        self.assertEqual((['vda'],), args[6:])
        self.assertEqual({}, kwargs)
        return args[5]

    def test_nova_gets_a_guest_in_its_own_language(self):
        instance = samples.instance(
            samples.guest_cell(node=0), samples.guest_cell(node=1)
        )
        guest = self.migrate(instance)
        self.assertIsInstance(guest, migration.StockGuest)
        self.assertEqual(
            domain.restore(self.guest.xml, {0: 0, 1: 1}),
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


class AvailableResourceTest(DriverTestCase):
    def setUp(self):
        super().setUp()
        self.config.config(reserved_host_memory_mb=777)

    def resources(self, **stock):
        self.result = stock
        return self.driver.get_available_resource('node1')

    def test_the_report_joins_novas_stats(self):
        found = self.resources(vcpus=8, stats={'uptime': 'long'})
        self.assertEqual(8, found['vcpus'])
        self.assertEqual({'uptime', 'numa_guard'}, set(found['stats']))
        self.assertEqual('long', found['stats']['uptime'])
        self.assertEqual(
            report.Report(reserved_memory=777),
            report.decode(found['stats']['numa_guard']),
        )
        self.assertEqual(
            [('get_available_resource', ('node1',), {})], self.calls
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
