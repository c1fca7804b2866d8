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

"""The devstack plug-in, phase by phase, without devstack."""

import os
import pathlib
import subprocess
import sys

import fixtures
import nova.conf
from oslo_config import cfg

from nova_numa_guard import conf
from tests.unit import base

ROOT = pathlib.Path(__file__).parents[2]
STACK = ('settings', 'stack pre-install', 'stack install', 'stack post-config')
UNSTACK = ('settings', 'unstack')
DRIVER = 'numa_guard.NUMAGuardDriver'
FILTER = 'nova_numa_guard.scheduler.filters.NUMAGuardFilter'
WEIGHER = 'nova_numa_guard.scheduler.weights.NUMAGuardWeigher'
# As devstack writes it, with a section after the one that it is about.
NOVA_CONF = """
[DEFAULT]
compute_driver = libvirt.LibvirtDriver
debug = True

[filter_scheduler]
track_instance_changes = False
enabled_filters = {filters}

[libvirt]
virt_type = qemu
connection_uri = test:///default
"""


class DevstackTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.nova_conf = self.folder / 'nova.conf'
        self.nova_cpu_conf = self.folder / 'nova-cpu.conf'
        self.write('ComputeFilter,SameHostFilter')

    def write(self, filters, more=''):
        """nova.conf, as it is before the plug-in's turn."""
        self.nova_conf.write_text(NOVA_CONF.format(filters=filters) + more)

    def run_phases(self, *phases, services='n-api n-sch n-cpu', **words):
        """Run them; what they would have called, in lines.

        :raises CalledProcessError: they failed
        """
        calls = self.folder / 'calls'
        calls.write_text('')
        done = subprocess.run(
            [str(ROOT / 'tests' / 'devstack' / 'phases'), *phases],
            capture_output=True,
            text=True,
            timeout=100,
            env={
                'PATH': os.environ['PATH'],
                'PYTHON': sys.executable,
                'CALLS': str(calls),
                'NOVA_CONF': str(self.nova_conf),
                'NOVA_CPU_CONF': str(self.nova_cpu_conf),
                'NOVA_BIN_DIR': str(self.folder / 'bin'),
                'SERVICES': services,
                **words,
            },
        )
        self.stderr = done.stderr
        self.calls = calls.read_text().splitlines()
        if done.returncode:
            raise subprocess.CalledProcessError(
                done.returncode, phases, str(self.calls), done.stderr
            )
        return self.calls

    def options(self, path=None):
        """What Nova makes of the file."""
        options = cfg.ConfigOpts()
        nova.conf.scheduler.register_opts(options)
        nova.conf.compute.register_opts(options)
        conf.register_opts(options)
        options(['--config-file', str(path or self.nova_conf)])
        return options


class StackTest(DevstackTestCase):
    def test_nova_has_the_driver_the_filter_and_the_weigher(self):
        self.run_phases(*STACK)
        options = self.options()
        self.assertEqual(DRIVER, options.compute_driver)
        scheduler = options.filter_scheduler
        self.assertEqual(
            [
                'ComputeFilter',
                'SameHostFilter',
                'NUMAGuardFilter',
                'NUMATopologyFilter',
            ],
            scheduler.enabled_filters,
        )
        self.assertEqual(
            ['nova.scheduler.filters.all_filters', FILTER],
            scheduler.available_filters,
        )
        self.assertEqual(
            ['nova.scheduler.weights.all_weighers', WEIGHER],
            scheduler.weight_classes,
        )
        self.assertIs(False, scheduler.track_instance_changes)
        self.assertIn('virt_type = qemu', self.nova_conf.read_text())

    def test_it_is_installed_with_what_builds_libvirt_python(self):
        self.assertIn(
            f'setup_develop -bindep=compile {ROOT}', self.run_phases(*STACK)
        )
        self.assertIn(
            f'setup_develop {ROOT}', self.run_phases(*STACK, DISTRO='rocky')
        )

    def test_tempest_is_told_of_the_filters(self):
        for before, after in {
            'A,NUMATopologyFilter,B': 'A,NUMAGuardFilter,NUMATopologyFilter,B',
            'A,NUMAGuardFilter,NUMATopologyFilter': None,
            'A': 'A,NUMAGuardFilter,NUMATopologyFilter',
        }.items():
            calls = self.run_phases(
                'settings', 'settings', NOVA_FILTERS=before
            )
            self.assertEqual([f'NOVA_FILTERS={after or before}'], calls)

    def test_again_changes_nothing(self):
        self.run_phases(*STACK)
        before = self.nova_conf.read_text()
        self.run_phases(*STACK, *STACK)
        self.assertEqual(before, self.nova_conf.read_text())

    def test_what_other_plug_ins_have_listed_stays(self):
        self.write(
            'Other,NUMATopologyFilter',
            '[filter_scheduler]\n'
            'available_filters = nova.scheduler.filters.all_filters\n'
            'available_filters = other.Filter\n'
            'weight_classes = other.Weigher\n',
        )
        for _ in range(2):
            self.run_phases(*STACK)
            scheduler = self.options().filter_scheduler
            self.assertEqual(
                ['Other', 'NUMAGuardFilter', 'NUMATopologyFilter'],
                scheduler.enabled_filters,
            )
            self.assertEqual(
                ['nova.scheduler.filters.all_filters', 'other.Filter', FILTER],
                scheduler.available_filters,
            )
            self.assertEqual(
                ['other.Weigher', WEIGHER], scheduler.weight_classes
            )

    def test_hosts_with_one_of_the_services(self):
        self.run_phases(*STACK, services='n-sch n-api')
        self.assertEqual(
            'libvirt.LibvirtDriver', self.options().compute_driver
        )
        self.assertIn(FILTER, self.nova_conf.read_text())
        self.write('ComputeFilter')
        self.run_phases(*STACK, services='n-cpu')
        self.assertEqual(DRIVER, self.options().compute_driver)
        self.assertNotIn(FILTER, self.nova_conf.read_text())

    def test_a_hypervisor_that_is_not_libvirts(self):
        calls = self.run_phases(*STACK, 'stack extra', VIRT_DRIVER='fake')
        self.assertEqual(
            'libvirt.LibvirtDriver', self.options().compute_driver
        )
        self.assertIn(
            "warn VIRT_DRIVER is fake: nova-numa-guard's driver is libvirt's, "
            'and is left out',
            calls,
        )


class OptionsTest(DevstackTestCase):
    def variables(self, **values):
        return {f'NUMA_GUARD_{k.upper()}': v for k, v in values.items()}

    def test_each_can_be_set(self):
        """And each that there is: the list is the guard's own."""
        texts = {
            'floating_cells': '0-1',
            'metrics_textfile': '/var/guard.prom',
            'metrics_address': '192.0.2.1',
        }
        values = {}
        for opt in conf.OPTS:
            choices = [*(getattr(opt.type, 'choices', None) or [7])]
            values[opt.name] = str(texts.get(opt.name, choices[-1]))
        values['accounting'] = 'False'
        self.run_phases(*STACK, **self.variables(**values))
        group = self.options().numa_guard
        self.assertEqual(
            values,
            {name: str(group[name]).replace('7.0', '7') for name in values},
        )

    def test_those_that_are_not_set_are_the_guards(self):
        self.run_phases(
            *STACK, **self.variables(isolation='host', page_check='')
        )
        text = self.nova_conf.read_text()
        self.assertEqual(
            ['isolation = host', 'unsupported_nova = warn'],
            sorted(text.split('[numa_guard]\n')[1].strip().splitlines()),
        )

    def test_one_that_is_set_no_more(self):
        self.run_phases(*STACK, **self.variables(isolation='host'))
        self.run_phases(*STACK)
        self.assertNotIn('isolation =', self.nova_conf.read_text())


class UnstackTest(DevstackTestCase):
    def assert_undone(self, *phases):
        before = self.nova_conf.read_text()
        self.run_phases(*STACK, NUMA_GUARD_ISOLATION='host')
        self.nova_cpu_conf.write_text(self.nova_conf.read_text())
        for _ in range(2):
            self.run_phases(*phases)
            for path in (self.nova_conf, self.nova_cpu_conf):
                self.assertEqual(before.strip(), path.read_text().strip())

    def test_it_is_as_it_was(self):
        for phases in (UNSTACK, ('settings', 'clean')):
            self.write('ComputeFilter,NUMATopologyFilter')
            self.assert_undone(*phases)

    def test_what_is_not_the_plug_ins_stays(self):
        self.write(
            'NUMATopologyFilter',
            '\n[filter_scheduler]\n'
            'available_filters = nova.scheduler.filters.all_filters\n'
            'available_filters = other.Filter\n'
            'weight_classes = other.Weigher\n',
        )
        self.assert_undone(*UNSTACK)

    def test_a_section_that_others_have_added_to(self):
        self.run_phases(*STACK)
        text = self.nova_conf.read_text()
        self.nova_conf.write_text(
            text.rstrip() + '\nmore = 1\n\n[workarounds]\nmine = 2\n'
        )
        self.run_phases(*UNSTACK)
        text = self.nova_conf.read_text()
        self.assertNotIn('numa_guard', text)
        self.assertNotIn('more', text)
        self.assertIn('\n[workarounds]\nmine = 2\n', text)

    def test_a_driver_that_is_not_the_guards_stays(self):
        self.run_phases(*STACK)
        self.nova_conf.write_text(
            self.nova_conf.read_text().replace(DRIVER, 'other.Driver')
        )
        self.run_phases(*UNSTACK)
        self.assertEqual('other.Driver', self.options().compute_driver)

    def test_without_files(self):
        self.nova_conf.unlink()
        self.run_phases('settings', 'clean')

    def test_only_clean_uninstalls(self):
        def uninstalled(*phases, **words):
            calls = self.run_phases(*phases, **words)
            return [line for line in calls if 'pip_uninstall' in line]

        self.assertEqual([], uninstalled(*UNSTACK))
        self.assertEqual(
            ['pip_uninstall nova-numa-guard from the system'],
            uninstalled('settings', 'clean'),
        )
        venv = str(self.folder)
        self.assertEqual(
            [f'pip_uninstall nova-numa-guard from {venv}'],
            uninstalled(
                *('settings', 'clean'), GLOBAL_VENV='True', DEVSTACK_VENV=venv
            ),
        )


class ExtraTest(DevstackTestCase):
    """It looks at what it has done, by the guard's own command."""

    def setUp(self):
        super().setUp()
        command = self.folder / 'bin' / 'nova-numa-guard-status'
        command.parent.mkdir()
        command.write_text(
            f'#!/bin/sh\nexport PYTHONPATH={ROOT}\n'
            f"exec {sys.executable} -c 'import sys; "
            'from nova_numa_guard.status import cmd; '
            'sys.exit(cmd.main())\' "$@"\n'
        )
        command.chmod(0o755)

    def extra(self, **words):
        """As devstack starts nova-compute in between."""
        self.run_phases(*STACK, **words)
        self.nova_cpu_conf.write_text(self.nova_conf.read_text())
        return self.run_phases('settings', 'stack extra', **words)

    def test_it_is_well(self):
        calls = self.extra(NUMA_GUARD_ISOLATION='host')
        self.assertEqual(2, len(calls), calls)

    def test_a_warning_does_not_stop_it(self):
        self.extra()
        command = self.folder / 'bin' / 'nova-numa-guard-status'
        for code in (1, 255):
            command.write_text(f'#!/bin/sh\nexit {code}\n')
            calls = self.run_phases('settings', 'stack extra')
            self.assertIn(
                'warn nova-numa-guard-status has warnings (see above)', calls
            )

    def test_a_bad_option_stops_devstack(self):
        self.assertRaises(
            subprocess.CalledProcessError,
            self.extra,
            NUMA_GUARD_ISOLATION='hosts',
        )
        self.assertIn('die nova-compute cannot be what', self.calls[-1])

    def test_a_driver_of_local_conf(self):
        self.run_phases(*STACK)
        self.nova_cpu_conf.write_text(
            self.nova_conf.read_text().replace(DRIVER, 'other.Driver')
        )
        calls = self.run_phases('settings', 'stack extra')
        self.assertIn(
            f'warn compute_driver is other.Driver in {self.nova_cpu_conf}: '
            'nova-numa-guard is not in this nova-compute',
            calls,
        )


class ShellTest(DevstackTestCase):
    def test_its_options_are_as_they_were(self):
        for xtrace in ('', '1'):
            calls = self.run_phases(
                *STACK, *UNSTACK, 'clean', 'no such phase', XTRACE=xtrace
            )
            self.assertNotIn("the shell's options", calls)

    def test_nothing_of_it_is_traced(self):
        self.run_phases(*STACK, XTRACE='1')
        self.assertIn('+ for phase in', self.stderr)
        self.assertNotIn('function', self.stderr)
        self.assertNotIn('iniset', self.stderr)
