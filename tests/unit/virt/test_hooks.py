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

"""What the guard touches of Nova is there, and is what we take it for.

Most of that no test of Nova's protects. What the package touches is read from
its own sources, so that this cannot be behind them; what a value is that a
function is handed, is in KINDS. A Nova that has changed fails here by name.
"""

import ast
import importlib
import inspect
import itertools
import pathlib
import re

import nova
from nova import exception, objects, rpc
from nova.compute import claims, manager, resource_tracker
import nova.conf
import nova.context
from nova.network import neutron
from nova.objects import base as objects_base
from nova.pci import whitelist
from nova.scheduler import host_manager
from nova.scheduler.client import report
import nova.virt
from nova.virt import driver as base_driver
from nova.virt.libvirt import driver as nova_driver
from nova.virt.libvirt import guest as libvirt_guest
from nova.virt.libvirt import host as libvirt_host

from nova_numa_guard import installed
from nova_numa_guard.virt import driver, live_migration
from tests.unit import base, sources
from tests.unit.virt import domains

LIBVIRT = nova_driver.LibvirtDriver
DRIVER = [
    sources.PACKAGE / 'virt' / name
    for name in ('driver.py', 'live_migration.py')
]

# What Nova hands us, by the name that it has in our functions. Of several the
# attribute has to be one of any.
KINDS = {
    'action_event': [objects.InstanceActionEvent],
    'aggregate': [objects.Aggregate],
    'cell': [objects.NUMACell, objects.InstanceNUMACell],
    'claim': [claims.MoveClaim],
    'context': [nova.context.RequestContext, objects.MigrationContext],
    'data': [objects.LibvirtLiveMigrateData],
    'flavor': [objects.Flavor],
    'guest': [libvirt_guest.Guest],
    'host_state': [host_manager.HostState],
    'instance': [objects.Instance],
    'migration': [objects.Migration],
    'moved': [objects.MigrationContext],
    'page': [objects.NUMAPagesTopology],
    'placement': [report.SchedulerReportClient],
    'spec_obj': [objects.RequestSpec],
    'specs': [whitelist.Whitelist],
    'topology': [objects.NUMATopology, objects.InstanceNUMATopology],
}
# Where it is a thing of ours that has such a name.
OURS = {
    'cell.page_size': 'virt/needs.py',
    'cell.shared_cpus': 'virt/floating_cells.py',
    'cell.small_memory': 'virt/floating_cells.py',
    'claim.domain_id': 'virt/',
    'claim.name': 'virt/truth.py',
    'claim.uuid': 'virt/',
    'guest.kind': 'virt/',
    'migration.MigratingGuest': 'virt/live_migration.py',
    'page.page_size': 'virt/truth.py',
}
# Modules that know Nova; the others have names of their own.
EDGES = ('virt/', 'scheduler/')


def overrides():
    """What the guard's driver has of its own, by name."""
    return {
        name: function
        for each in (driver.NUMAGuardDriver, live_migration.LiveMigration)
        for name, function in vars(each).items()
        if inspect.isfunction(function)
    }


class HooksTestCase(base.TestCase):
    def assert_none(self, problems):
        """Each is a line of what this Nova lacks, or has otherwise."""
        self.assertEqual(
            [],
            sorted(set(problems)),
            f'Nova {installed.version()} has changed, or the guard has',
        )


class OverridesTest(HooksTestCase):
    LISTED = frozenset(
        {
            '__init__',
            '_create_guest',
            '_destroy',
            '_get_guest_xml',
            '_hard_reboot',
            '_live_migration_operation',
            '_resume_guest_after_snapshot',
            '_suspend_guest_for_snapshot',
            'check_can_live_migrate_destination',
            'cleanup_host',
            'get_available_resource',
            'init_host',
            'post_claim_migrate_data',
            'post_live_migration_at_destination',
            'reboot',
            'rebuild',
            'rescue',
            'resume',
            'resume_state_on_host_boot',
            'snapshot',
            'spawn',
            'unrescue',
        }
    )

    def test_they_are_the_listed_ones(self):
        """Whoever adds one sees here what it has to stand."""
        self.assertEqual(self.LISTED, set(overrides()))

    def test_nova_has_them(self):
        self.assert_none(
            f'LibvirtDriver.{name} is gone'
            for name in overrides()
            if not hasattr(LIBVIRT, name)
        )

    def test_parameters_that_we_name_are_where_nova_has_them(self):
        problems = []
        for name, ours in overrides().items():
            theirs = inspect.signature(getattr(LIBVIRT, name)).parameters
            named = [
                each
                for each in inspect.signature(ours).parameters.values()
                if each.kind is each.POSITIONAL_OR_KEYWORD
            ]
            for place, each in enumerate(named):
                if [each.name] != list(theirs)[place : place + 1]:
                    problems.append(
                        f'{name}: {each.name} is not parameter {place} of '
                        f'{list(theirs)}'
                    )
                elif (
                    each.default is not each.empty
                    and each.default != theirs[each.name].default
                ):
                    problems.append(
                        f'{name}: {each.name} is {theirs[each.name].default} '
                        f'by default, not {each.default}'
                    )
        self.assert_none(problems)

    def test_they_take_all_that_novas_take(self):
        """By position and by name, in full and without the defaults."""
        problems = []
        for name, ours in overrides().items():
            theirs = inspect.signature(getattr(LIBVIRT, name)).parameters
            full = list(theirs)
            needed = [
                each.name
                for each in theirs.values()
                if each.default is each.empty
            ]
            for names in (full, needed):
                for args, kwargs in (
                    (names, {}),
                    (names[:1], dict.fromkeys(names[1:])),
                ):
                    try:
                        inspect.signature(ours).bind(*args, **kwargs)
                    except TypeError as exc:
                        problems.append(f'{name} does not take {names}: {exc}')
        self.assert_none(problems)


class CallersTest(HooksTestCase):
    """Nova calls what we override, as we take it for."""

    def sources(self):
        folder = pathlib.Path(nova.__file__).parent
        for path in sorted((folder / 'compute').glob('*.py')):
            yield path, ('self', 'driver')
        for path in (folder / 'virt/driver.py', folder / LIBVIRT_FILE):
            yield path, ('self',)

    def calls(self):
        """Of each override: (where, call, arguments that are not its own)."""
        found = {name: [] for name in overrides()}
        for path, (root, *rest) in self.sources():
            for use in sources.uses(path, path.name):
                *middle, last = use.attributes or ('',)
                if (
                    (use.root, middle) == (root, rest)
                    and use.call is not None
                    and last in found
                ):
                    found[last].append((str(use), use.call, 0))
            for node in ast.walk(sources.tree(path)):
                for name in found if isinstance(node, ast.Call) else ():
                    place = sources.references(node, root, name)
                    if place is not None:
                        line = f'{path.name}:{node.lineno}: {name}'
                        found[name].append((line, node, place + 1))
        return found

    def test_every_override_takes_what_nova_passes(self):
        problems = []
        for name, calls in self.calls().items():
            ours = overrides()[name]
            if not calls and name != '__init__':
                problems.append(f'nothing in Nova calls {name} any more')
            for line, call, skip in calls:
                why = sources.mismatch(ours, call, skip, bound=False)
                if why:
                    problems.append(f'{line} passes what ours does not: {why}')
        self.assert_none(problems)

    def test_rebuild_is_told_by_name_that_it_is_an_evacuation(self):
        text = inspect.getsource(manager.ComputeManager)
        passed = re.findall(r'driver\.rebuild\(\*\*kwargs\)', text)
        self.assertEqual(1, len(passed), 'ComputeManager: driver.rebuild()')
        function = manager.ComputeManager._do_rebuild_instance
        [names] = [
            {keyword.arg for keyword in node.value.keywords}
            for node in ast.walk(sources.parsed(function))
            if isinstance(node, ast.Assign)
            and getattr(node.targets[0], 'id', '') == 'kwargs'
        ]
        self.assertLessEqual({'context', 'instance', 'evacuate'}, names)

    def test_the_driver_is_made_with_the_virtapi_alone(self):
        text = inspect.getsource(base_driver.load_compute_driver)
        self.assertRegex(
            text,
            r"import_object\(\s*'nova\.virt\.%s' % compute_driver,\s"
            r'+virtapi\)',
        )


LIBVIRT_FILE = 'virt/libvirt/driver.py'


class ModulesTest(HooksTestCase):
    """Modules, functions, classes, constants and options that we name."""

    def setUp(self):
        super().setUp()
        self.useFixture(domains.Library())

    def resolve(self, use, found):
        """What is named; it goes no further than Nova's objects."""
        name = use.root
        for attribute in use.attributes:
            if not hasattr(found, attribute):
                raise LookupError(f'{use}: {name} has no {attribute}')
            found = getattr(found, attribute)
            name = f'{name}.{attribute}'
        return found

    def named(self):
        """(use, what it is), of all that is imported from Nova."""
        for path in sources.files():
            known = {}
            for name, (module, attribute) in sources.imports(path).items():
                try:
                    known[name] = sources.load(module, attribute)
                except ImportError as exc:
                    yield sources.Use(sources.where(path), name, (), 0), exc
            known['CONF'] = nova.conf.CONF
            for use in sources.uses(path):
                if use.root in known:
                    try:
                        yield use, self.resolve(use, known[use.root])
                    except LookupError as exc:
                        yield use, exc

    def test_they_are_there(self):
        found = list(self.named())
        self.assertGreater(len(found), 100)
        self.assert_none(
            f'{what}' for _, what in found if isinstance(what, Exception)
        )

    def test_they_take_what_we_pass(self):
        problems, checked = [], 0
        for use, what in self.named():
            if use.call is None or isinstance(what, Exception):
                continue
            checked += 1
            why = sources.mismatch(what, use.call) or self.lacks(what, use)
            if why:
                problems.append(f'{use}: {why}')
        self.assertGreater(checked, 25)
        self.assert_none(problems)

    def lacks(self, what, use):
        """Of what takes any argument: those that it knows nothing of."""
        if not isinstance(what, type):
            return None
        known = set(inspect.signature(what).parameters)
        if issubclass(what, objects_base.NovaObject):
            known |= set(what.fields)
        elif issubclass(what, exception.NovaException):
            known |= set(re.findall(r'%\((\w+)\)', what.msg_fmt))
        else:
            return None
        unknown = set(sources.arguments(use.call)[1]) - known
        return f'it knows no {sorted(unknown)}' if unknown else None

    def test_the_folders_of_nova_virt_can_be_added_to(self):
        self.assertIsInstance(nova.virt.__path__, list)

    def test_the_topology_that_nova_is_told_is_written_as_nova_does(self):
        self.assertTrue(
            inspect.isfunction(objects.NUMATopology._to_json),
            'NUMATopology._to_json is gone',
        )


class ValuesTest(HooksTestCase):
    """Attributes of what Nova hands us."""

    def uses(self):
        for path in sources.files():
            if not sources.where(path).startswith(EDGES):
                continue
            for use in sources.uses(path):
                name = '.'.join((use.root, *use.attributes[:1]))
                ours = OURS.get(name)
                if use.root in KINDS and not (
                    ours and use.where.startswith(ours)
                ):
                    yield use

    def test_they_are_there(self):
        found = list(self.uses())
        self.assertEqual(set(KINDS), {use.root for use in found})
        self.assert_none(
            f'{use}: none of {[kind.__name__ for kind in KINDS[use.root]]} '
            'has it'
            for use in found
            if not any(has(kind, use.attributes) for kind in KINDS[use.root])
        )

    def test_methods_take_what_we_pass(self):
        problems, checked = [], 0
        for use in self.uses():
            for kind in KINDS[use.root] if use.call is not None else ():
                function = getattr(kind, use.attributes[0], None)
                if len(use.attributes) == 1 and inspect.isfunction(function):
                    checked += 1
                    why = sources.mismatch(function, use.call, bound=False)
                    if why:
                        problems.append(f'{use}: {why}')
        self.assertGreater(checked, 5)
        self.assert_none(problems)


def has(kind, attributes):
    """Whether a class has an attribute, and what is in that field its own."""
    for attribute in attributes:
        if not hasattr(kind, attribute) and not any(
            attribute in sources.assigned(vars(each)['__init__'])
            for each in kind.__mro__[:-1]
            if '__init__' in vars(each)
        ):
            return False
        field = getattr(kind, 'fields', {}).get(attribute)
        name = getattr(getattr(field, '_type', None), '_obj_name', None)
        if name is None:
            return True
        kind = getattr(objects, name)
    return True


class DriverTest(HooksTestCase):
    """What the driver takes from the class that it extends."""

    def test_methods_that_it_calls(self):
        problems = []
        own = (
            overrides().keys()
            | sources.assigned(driver.NUMAGuardDriver.__init__)
            | sources.assigned(driver.NUMAGuardDriver.init_host)
        )
        set_there = sources.assigned(LIBVIRT.__init__) | sources.assigned(
            base_driver.ComputeDriver.__init__
        )
        for use in itertools.chain.from_iterable(map(sources.uses, DRIVER)):
            name = use.attributes[0] if use.attributes else ''
            if use.root not in ('self', 'super()') or (
                use.root == 'self' and name in own
            ):
                continue
            if not hasattr(LIBVIRT, name) and name not in set_there:
                problems.append(f'{use}: LibvirtDriver has no {name}')
            elif use.call is not None and len(use.attributes) == 1:
                why = sources.mismatch(
                    getattr(LIBVIRT, name), use.call, bound=False
                )
                if why:
                    problems.append(f'{use}: {why}')
        self.assert_none(problems)

    def test_the_compute_manager_is_behind_the_virtapi(self):
        """The tracker, and the network, are found in no other way."""
        self.assertIn(
            '_compute', sources.assigned(manager.ComputeVirtAPI.__init__)
        )
        self.assertLessEqual(
            {'rt', 'network_api', 'driver'},
            sources.assigned(manager.ComputeManager.__init__),
        )

    def test_the_tracker(self):
        tracker = resource_tracker.ResourceTracker
        self.assertLessEqual(
            {'compute_nodes', 'stats', 'old_resources'},
            sources.assigned(tracker.__init__),
        )
        inspect.signature(tracker.update_available_resource).bind(
            'self', 'context', 'node'
        )
        # It writes its stats itself, when a claim is given up.
        self.assertIn(
            'self.stats[', inspect.getsource(tracker._copy_resources)
        )

    def test_the_network(self):
        inspect.signature(neutron.API.setup_instance_network_on_host).bind(
            'self', 'context', 'instance', 'host'
        )

    def test_libvirt(self):
        inspect.signature(libvirt_host.Host.list_guests).bind(
            'self', only_running=True
        )
        text = inspect.getsource(libvirt_guest.Guest)
        for name in ('uuid', 'id', 'name'):
            self.assertIsInstance(
                inspect.getattr_static(libvirt_guest.Guest, name), property
            )
        self.assertIn('def migrate', text)

    def test_the_notifier_inside_the_notifier(self):
        self.assertIn(
            'notifier', sources.assigned(rpc.LegacyValidatingNotifier.__init__)
        )


class MigrationTest(HooksTestCase):
    """StockGuest stands in for a guest in a live migration."""

    def test_what_is_read_of_the_guest(self):
        """All XML that Nova reads there, it reads by get_xml_desc()."""
        used = set()
        for name in ('driver', 'migration'):
            module = importlib.import_module(f'nova.virt.libvirt.{name}')
            used |= {
                use.attributes
                for use in sources.uses(module.__file__, name)
                if use.root == 'guest' and 'xml' in '.'.join(use.attributes)
            }
        self.assertEqual({('get_xml_desc',)}, used)
