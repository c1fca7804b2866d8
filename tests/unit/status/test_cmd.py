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

"""The command as a whole, against libvirt's own test driver."""

import contextlib
import io
import json
import pathlib
import sys
from unittest import mock

import fixtures
import libvirt
import os_vif

from nova_numa_guard.status import checks, cmd
from tests.unit import base
from tests.unit.status import hosts
from tests.unit.virt import domains as fakes

GUARD = 'numa_guard.NUMAGuardDriver'
NOVA = 'libvirt.LibvirtDriver'
OPTIONS, RELEASE, STARTS, GUESTS, DRIVER = (
    'Options of [numa_guard]',
    'Release of Nova',
    'Guests that start from now on',
    'Guests that the guard has started',
    "The guard's driver",
)


class CommandTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(hosts.Libvirt())
        self.folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.configure(GUARD, numatune='stock')

    def configure(self, driver, uri=hosts.URI, **options):
        lines = [
            '[DEFAULT]',
            f'compute_driver = {driver}' if driver else '',
            f'instances_path = {self.folder}',
            '[libvirt]',
            f'connection_uri = {uri}',
            '[numa_guard]',
            *(f'{name} = {value}' for name, value in options.items()),
        ]
        self.file = self.folder / 'nova.conf'
        self.file.write_text('\n'.join(lines))

    def call(self, *words):
        """The exit code, and what is written to stdout and stderr."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cmd.main([*words])
        self.assertNotIn('Traceback', out.getvalue() + err.getvalue())
        return code, out.getvalue(), err.getvalue()

    def leave(self, *words):
        """The exit code, and the result of each check, with its details."""
        code, out, err = self.call(
            f'--config-file={self.file}',
            *('upgrade', 'check', '--json', '--leaving', *words),
        )
        self.assertEqual('', err)
        return code, {
            each['check']: (each['result'], each['details'])
            for each in json.loads(out)['checks']
        }


class LeavingTest(CommandTestCase):
    def test_nothing_is_left(self):
        self.libvirt.guest(hosts.HUGE, write=str)
        code, checks = self.leave()
        self.assertEqual(0, code)
        self.assertEqual([OPTIONS, STARTS, GUESTS], list(checks))
        self.assertEqual((0, None), checks[GUESTS])

    def test_a_guest_is_left(self):
        guest = self.libvirt.guest(hosts.HUGE)
        self.libvirt.guest(hosts.HUGE, name='instance-2', write=str)
        code, checks = self.leave()
        self.assertEqual(2, code)
        result, details = checks[GUESTS]
        self.assertEqual(2, result)
        self.assertIn(f'- {guest.UUIDString()} instance-1 running', details)
        self.assertNotIn('instance-2', details)
        self.assertIn('; or hard-reboot it', details)

    def test_more_would_follow(self):
        for options in (
            {},
            {'numatune': 'guard'},
            {'numatune': 'stock', 'isolation': 'cell'},
        ):
            self.configure(GUARD, **options)
            code, checks = self.leave()
            self.assertEqual(1, code)
            result, details = checks[STARTS]
            self.assertEqual(1, result)
            self.assertIn('restart nova-compute', details)

    def test_the_driver_is_novas_already(self):
        """What [numa_guard] says is in force no more."""
        self.configure(NOVA, numatune='guard', isolation='cell')
        self.assertEqual(0, self.leave()[0])
        self.libvirt.guest(hosts.HUGE)
        code, checks = self.leave()
        self.assertEqual(2, code)
        self.assertIn('compute_driver again', checks[GUESTS][1])

    def test_the_configuration_is_another_services(self):
        self.configure('')
        code, checks = self.leave()
        self.assertEqual(1, code)
        self.assertIn('--config-file', checks[STARTS][1])

    def test_another_libvirt(self):
        self.configure(GUARD, uri='qemu+unix:///system?socket=/nowhere')
        self.assertEqual(255, self.leave()[0])
        self.configure(
            GUARD, uri='qemu+unix:///system?socket=/nowhere', numatune='stock'
        )
        self.assertEqual(0, self.leave('--uri', hosts.URI)[0])

    def test_libvirt_does_not_answer(self):
        """That is neither success nor failure; the rest is told."""
        uri = 'qemu+unix:///system?socket=/nowhere'
        self.configure(GUARD, uri=uri)
        code, checks = self.leave()
        self.assertEqual(255, code)
        self.assertEqual(1, checks[STARTS][0])
        result, details = checks[GUESTS]
        self.assertEqual(2, result)
        self.assertIn('could not be done', details)
        self.assertIn(uri, details)
        self.assertIn('/nowhere', details)

    def test_libvirt_goes_away_meanwhile(self):
        self.libvirt.guest(hosts.HUGE)
        with mock.patch.object(
            libvirt.virDomain,
            'XMLDesc',
            side_effect=fakes.error(fakes.BROKEN),
        ):
            code, checks = self.leave()
        self.assertEqual(255, code)
        self.assertIn('could not be done', checks[GUESTS][1])

    def test_libvirt_where_nova_looks_for_it(self):
        for virt_type, uri in (
            ('kvm', 'qemu:///system'),
            ('lxc', 'lxc:///'),
            ('parallels', 'parallels:///system'),
        ):
            self.file.write_text(f'[libvirt]\nvirt_type = {virt_type}\n')
            with mock.patch.object(
                libvirt, 'openReadOnly', side_effect=fakes.error(fakes.BROKEN)
            ) as opened:
                self.leave()
            opened.assert_called_once_with(uri)

    def test_a_bad_option(self):
        for option in ('numatune', 'isolation'):
            self.configure(GUARD, **{option: 'bogus'})
            code, checks = self.leave()
            self.assertEqual(2, code)
            for name in (OPTIONS, STARTS):
                result, details = checks[name]
                self.assertEqual(2, result)
                self.assertIn(f'[numa_guard] {option}', details)

    def test_the_table(self):
        """A server's line is whole, and no wider than a terminal."""
        guest = self.libvirt.guest(hosts.HUGE)
        code, out, _ = self.call(
            f'--config-file={self.file}', 'upgrade', 'check', '--leaving'
        )
        self.assertEqual(2, code)
        line = f'| - {guest.UUIDString()} instance-1 running '
        self.assertIn(f'\n{line}', out)
        self.assertLessEqual(max(map(len, out.split('\n'))), 80)


class AnyHostTest(CommandTestCase):
    """Without --leaving."""

    def check(self, *words):
        code, out, _ = self.call(
            f'--config-file={self.file}', 'upgrade', 'check', '--json', *words
        )
        return code, {
            each['check']: (each['result'], each['details'])
            for each in json.loads(out)['checks']
        }

    def test_the_configuration_is_of_no_service(self):
        """libvirt is not asked: it need not be there."""
        self.configure('')
        self.assertEqual(
            (
                0,
                {OPTIONS: (0, None), RELEASE: (0, None), DRIVER: (0, None)},
            ),
            self.check(),
        )

    def test_a_compute(self):
        self.libvirt.guest(hosts.HUGE)
        self.configure(GUARD)
        found = self.check()
        self.assertEqual(
            (
                [OPTIONS, RELEASE, DRIVER, 'compute_driver'],
                'vm.zone_reclaim_mode',
            ),
            (list(found[1])[:4], list(found[1])[-1]),
        )
        self.assertEqual(found, self.check('--role=compute'))

    def test_a_controller(self):
        """What its database says is another test's."""
        self.configure('')
        text = self.file.read_text()
        self.file.write_text(
            f'{text}\n[api_database]\nconnection = sqlite:////nowhere/a\n'
        )
        with mock.patch.object(
            cmd.roles,
            '_fleet',
            side_effect=checks.CannotCheckError('no database'),
        ):
            code, found = self.check()
            self.assertEqual(255, code)
            self.assertIn('no database', found['Hosts to fail over to'][1])
            both = self.check('--role', 'api', '--role', 'scheduler')
            self.assertEqual((code, found), both)
            _, api = self.check('--role', 'api')
        self.assertEqual(
            [OPTIONS, RELEASE, 'Extra specs in nova-api'], list(api)
        )
        self.assertIn('Filter of nova-scheduler', found)
        self.assertNotIn('compute_driver', found)

    def test_which_files_are_read(self):
        for words, prog in (
            ((), 'nova-compute'),
            (('--role=api',), 'nova-api'),
            (('--role', 'scheduler'), 'nova-scheduler'),
            (('--role', 'api', '--role', 'scheduler'), 'nova-compute'),
        ):
            with mock.patch.object(
                cmd.cfg, 'find_config_files', return_value=[str(self.file)]
            ) as found:
                self.call('upgrade', 'check', '--help', *words)
            found.assert_any_call(project='nova', prog=prog)

    def test_a_bad_option(self):
        self.configure(GUARD, page_check='maybe')
        code, checks = self.check()
        self.assertEqual(2, code)
        self.assertIn('[numa_guard] page_check', checks[OPTIONS][1])
        self.assertIn(str(self.file), checks[OPTIONS][1])

    def test_the_driver_is_not_found(self):
        for broken in (
            mock.patch.dict(sys.modules, {'nova.virt.numa_guard': None}),
            mock.patch.object(
                os_vif, 'initialize', side_effect=RuntimeError('broken')
            ),
        ):
            with broken:
                code, checks = self.check()
            self.assertEqual(2, code)
            self.assertEqual(0, checks[OPTIONS][0])
            self.assertIn(GUARD, checks[DRIVER][1])

    def test_there_is_no_configuration(self):
        with (
            mock.patch.object(cmd.cfg, 'find_config_files', return_value=[]),
            mock.patch.object(cmd.cfg, 'find_config_dirs', return_value=[]),
        ):
            code, out, _ = self.call('upgrade', 'check')
        self.assertEqual(1, code)
        self.assertIn('No configuration file was found', out)

    def test_it_reads_what_nova_compute_reads(self):
        self.configure(GUARD, page_check='maybe')
        with mock.patch.object(
            cmd.cfg, 'find_config_files', return_value=[str(self.file)]
        ) as found:
            self.assertEqual(2, self.call('upgrade', 'check')[0])
        found.assert_any_call(project='nova', prog='nova-compute')


class WordsTest(CommandTestCase):
    def test_wrong_words(self):
        """For argparse that is 2, which would be a failure."""
        for words in ((), ('upgrade',), ('upgrade', 'chekc'), ('--nonsense',)):
            code, _, err = self.call(*words)
            self.assertEqual(255, code)
            self.assertIn('usage: nova-numa-guard-status', err)

    def test_help(self):
        code, out, _ = self.call('upgrade', '--help')
        self.assertEqual(0, code)
        self.assertIn('--leaving', out)

    def test_no_such_file(self):
        code, _, err = self.call(
            '--config-file=/nowhere/nova.conf', 'upgrade', 'check'
        )
        self.assertEqual(255, code)
        self.assertIn('/nowhere/nova.conf', err)
        self.assertEqual(1, err.count('\n'))
