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

"""The command ``guests list``."""

from unittest import mock

import libvirt
import yaml

from nova_numa_guard import fixture
from nova_numa_guard.cmd import guests
from tests.unit import samples
from tests.unit.cmd import base, runner
from tests.unit.status import hosts

HUGE, GIANT = samples.HUGE, samples.GIANT


class ListTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.libvirt = self.useFixture(hosts.Libvirt())

    def list(self, *words):
        """The guests, by name."""
        result = runner.run(
            *('guests', 'list', '-f', 'yaml', '--uri', base.URI, *words)
        )
        self.assertEqual(0, result.code, result.stderr)
        self.stderr = result.stderr
        return {row['Name']: row for row in yaml.safe_load(result.stdout)}

    def test_of_the_guard(self):
        guest = self.libvirt.guest(hosts.HUGE, (1, 65536, None))
        self.assertEqual(
            {
                'UUID': guest.UUIDString(),
                'Name': 'instance-1',
                'Nova': True,
                'Kind': 'affined',
                'Pinned': 0,
                'Cells': {'0': '0', '1': '1'},
                'Page sizes': [samples.SMALL, HUGE],
                'Numatune': 'guard',
                'Modes': ['preferred', 'strict'],
                'Hard reboot': False,
            },
            self.list()['instance-1'],
        )

    def test_of_nova(self):
        self.libvirt.guest(hosts.HUGE, write=str)
        row = self.list()['instance-1']
        self.assertEqual('stock', row['Numatune'])
        self.assertIs(True, row['Hard reboot'])

    def test_floating(self):
        self.libvirt.guest()
        row = self.list()['instance-1']
        self.assertEqual(
            ('floating', {}, 'none', [], False),
            tuple(
                row[key]
                for key in (
                    *('Kind', 'Cells', 'Numatune', 'Modes', 'Hard reboot'),
                )
            ),
        )

    def test_in_order_and_only_those_that_run(self):
        for name in ('instance-3', 'instance-1', 'instance-2'):
            self.libvirt.guest(hosts.SMALL, name=name)
        self.libvirt.connection.lookupByName('instance-2').destroy()
        self.assertEqual(['instance-1', 'instance-3'], list(self.list()))

    def test_a_table(self):
        self.libvirt.guest(hosts.HUGE, (1, 65536, None))
        result = runner.run('guests', 'list', '--uri', base.URI)
        self.assertEqual((0, ''), (result.code, result.stderr))
        self.assertIn('| 0: 0, 1: 1 |', result.stdout)
        self.assertIn('| preferred, strict |', result.stdout)

    def test_a_domain_that_cannot_be_read(self):
        """It is left out, and said so; the others are not its matter."""
        self.libvirt.guest(hosts.HUGE)
        self.libvirt.guest(hosts.HUGE, name='instance-2')
        real = guests.overview.of

        def read(root, small_page):
            if root.findtext('name') == 'instance-1':
                raise ValueError('not a size')
            return real(root, small_page)

        with mock.patch.object(guests.overview, 'of', read):
            self.assertEqual(['instance-2'], list(self.list()))
        self.assertEqual(
            'How the domain instance-1 is bound cannot be told, and it is '
            'left out: not a size\n',
            self.stderr,
        )


class PlacementTest(ListTest):
    def setUp(self):
        super().setUp()
        self.kernel = self.useFixture(fixture.KernelFixture())
        self.useFixture(
            base.fixtures.MockPatchObject(
                guests.List, 'root', str(self.kernel.root)
            )
        )

    def process(self, name, pid, held, small):
        self.kernel.set_process(name, pid, held)
        scope = f'machine/qemu-{pid}-{name}.libvirt-qemu'
        for path, text in {
            f'proc/{pid}/cgroup': f'0::/{scope}/libvirt/emulator\n',
            f'sys/fs/cgroup/{scope}/memory.numa_stat': 'anon '
            + ' '.join(f'N{node}={size}' for node, size in small.items())
            + '\n',
        }.items():
            file = self.kernel.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def test_placement(self):
        self.libvirt.guest(hosts.HUGE, (1, 65536, None))
        self.libvirt.guest(hosts.SMALL, name='instance-2')
        self.process(
            *('instance-1', 71, {(0, HUGE): 32, (1, HUGE): 0}),
            {0: 4 << 20, 1: 64 << 20},
        )
        self.process('instance-2', 72, {}, {0: 0, 1: 8 << 20})
        rows = self.list('--placement')
        small, mib = str(samples.SMALL), 1024 // samples.SMALL
        self.assertEqual(
            {'0': {small: 4 * mib, '2048': 32}, '1': {small: 64 * mib}},
            rows['instance-1']['Placement'],
        )
        self.assertEqual(
            {'1': {small: 8 * mib}}, rows['instance-2']['Placement']
        )
        self.assertEqual('', self.stderr)

    def test_placement_in_a_table(self):
        self.libvirt.guest(hosts.HUGE)
        self.process('instance-1', 71, {(0, HUGE): 32}, {1: 4 << 20})
        result = runner.run('guests', 'list', '--uri', base.URI, '--placement')
        self.assertIn('| 0: 32 x 2048', result.stdout)

    def test_what_is_known_in_part(self):
        """There are machines without the guests' cgroups."""
        self.libvirt.guest(hosts.HUGE)
        self.kernel.set_process('instance-1', 71, {(0, HUGE): 32})
        rows = self.list('--placement')
        self.assertEqual({'0': {'2048': 32}}, rows['instance-1']['Placement'])
        self.assertEqual(
            'Where instance-1 has its small pages is not known: cannot read '
            f'{self.kernel.root}/proc/71/cgroup: No such file or directory\n',
            self.stderr,
        )

    def test_a_process_that_cannot_be_looked_at(self):
        self.libvirt.guest(hosts.HUGE)
        rows = self.list('--placement')
        self.assertIsNone(rows['instance-1']['Placement'])
        self.assertEqual(
            'Where instance-1 has its small and huge pages is not known: '
            'cannot read '
            f'{self.kernel.root}/run/libvirt/qemu/instance-1.pid: '
            'No such file or directory\n',
            self.stderr,
        )


class ErrorsTest(base.TestCase):
    def test_no_libvirt(self):
        uri = f'qemu+unix:///system?socket={self.folder}/none'
        result = runner.run('guests', 'list', '--uri', uri)
        self.assertEqual((2, ''), (result.code, result.stdout))
        [line] = result.stderr.splitlines()
        self.assertIn(f'libvirt at {uri} does not say which domains', line)

    def test_a_uri_that_is_none(self):
        result = runner.run('guests', 'list', '--uri', 'somewhere')
        self.assertEqual((2, ''), (result.code, result.stdout))
        [line] = result.stderr.splitlines()
        self.assertIn('libvirt at somewhere does not say', line)

    def test_the_uri_of_the_configuration(self):
        conf = self.file(
            'other.conf',
            f'[libvirt]\nconnection_uri = test://{self.folder}/none.xml\n',
        )
        result = runner.run('guests', 'list', '--config-file', conf)
        self.assertEqual((2, ''), (result.code, result.stdout))
        [line] = result.stderr.splitlines()
        self.assertIn(f'libvirt at test://{self.folder}/none.xml', line)

    def test_a_configuration_that_may_not_be_read(self):
        result = runner.run(
            'guests', 'list', '--config-file', self.folder / 'none.conf'
        )
        self.assertEqual((2, ''), (result.code, result.stdout))
        self.assertIn("Nova's configuration cannot be read", result.stderr)

    def test_placement_on_another_host(self):
        self.useFixture(
            base.fixtures.MockPatch(
                'nova_numa_guard.cmd.domains.Domains.running',
                side_effect=AssertionError,
            )
        )
        uri = 'qemu+ssh://compute7/system'
        self.assert_fails(
            ['guests', 'list', '--placement', '--uri', uri],
            '--placement looks at processes of this host, but '
            f'{uri} is another',
        )

    def test_wrong_options(self):
        self.assert_misused(['guests', 'list', '--placed'], '--placed')


class ManyTest(base.TestCase):
    """A host with a hundred guests."""

    def setUp(self):
        super().setUp()
        node = [
            '<node><cpu><mhz>6000</mhz><model>i686</model>'
            '<active>8</active><nodes>2</nodes><sockets>2</sockets>'
            '<cores>2</cores><threads>1</threads></cpu>'
            '<memory>800000000</memory>'
        ]
        for index in range(100):
            node.append(
                samples.nova_guest(
                    hosts.HUGE,
                    name=f'instance-{index:08x}',
                    uuid=f'00000000-0000-4000-8000-{index:012x}',
                )
            )
        self.uri = f'test://{self.file("node.xml", "".join(node))}'
        with open(self.folder / 'node.xml', 'a') as file:
            file.write('</node>')

    def test_each_command(self):
        xml = self.file('a.xml', samples.domain_xml((0, 4096, HUGE)))
        commands = {
            'guests list': (),
            'pools show': (),
            'domain check': (xml,),
        }
        for name, words in commands.items():
            with mock.patch.object(
                libvirt.virDomain,
                'XMLDesc',
                autospec=True,
                side_effect=libvirt.virDomain.XMLDesc,
            ) as asked:
                result = runner.run(
                    *name.split(), *words, '-f', 'json', '--uri', self.uri
                )
            self.assertIn(result.code, (0, 1), result.stderr)
            # It is what takes the time, and each is looked at twice or more.
            self.assertEqual(100, asked.call_count, name)
        self.assertEqual(
            100,
            len(
                runner.run(
                    'guests', 'list', '-f', 'json', '--uri', self.uri
                ).json
            ),
        )
