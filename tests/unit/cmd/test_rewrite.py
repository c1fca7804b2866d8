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

"""The command ``domain rewrite``."""

from nova_numa_guard import confinement, tuning, writing
from tests.unit import samples
from tests.unit.cmd import base, runner

STOCK = samples.domain_xml((0, 4096, samples.HUGE), (1, 4096, None))
FLOATING = samples.domain_xml()


class RewriteTest(base.TestCase):
    def rewrite(self, xml, *words):
        result = runner.run('domain', 'rewrite', '-', *words, stdin=xml)
        self.assertEqual((0, ''), (result.code, result.stderr))
        return result.stdout

    def test_as_the_guard_writes_it(self):
        new = self.rewrite(STOCK)
        self.assertEqual(tuning.apply(STOCK, tuning.SmallPagePolicy.AUTO), new)
        self.assertNotEqual(STOCK, new)

    def test_policies(self):
        found = set()
        for policy in tuning.SmallPagePolicy:
            new = self.rewrite(STOCK, '--small-page-policy', policy.value)
            self.assertEqual(tuning.apply(STOCK, policy), new)
            found.add(new)
        self.assertEqual(3, len(found))  # auto is preferred, for this guest

    def test_twice(self):
        new = self.rewrite(STOCK)
        self.assertEqual(new, self.rewrite(new))

    def test_a_floating_guest(self):
        self.assertEqual(FLOATING, self.rewrite(FLOATING))
        self.assertEqual('', self.rewrite(FLOATING, '--diff'))

    def test_restored(self):
        new = self.rewrite(self.rewrite(STOCK), '--restore')
        self.assertIn('<memory mode="strict" nodeset="0,1"/>', new)
        self.assertEqual('', self.rewrite(new, '--restore', '--diff'))

    def test_restored_without_its_memnodes(self):
        local = self.rewrite(STOCK, '--small-page-policy', 'local')
        new = self.rewrite(local, '--restore', '--node', '1:1')
        self.assertIn('<memory mode="strict" nodeset="0,1"/>', new)
        self.assertIn('cellid="1" mode="strict" nodeset="1"', new)
        self.assert_fails(
            ['domain', 'rewrite', '-', '--restore'],
            'stdin: guest cell 1 has no <memnode>: name its host node, for '
            'example --node 1:0',
            stdin=local,
        )
        self.assert_fails(
            ['domain', 'rewrite', '-', '--restore', '--node', '7:0'],
            'stdin: --node: there is no guest cell 7',
            stdin=local,
        )

    def test_a_confined_guest_restored(self):
        confined = writing.apply(
            FLOATING,
            writing.Writing(
                floating=confinement.Confinement(
                    frozenset({0}), frozenset({0, 1}), confinement.Mode.STRICT
                )
            ),
        )
        self.assertIn('<numatune>', confined)
        self.assertNotIn('<numatune>', self.rewrite(confined, '--restore'))

    def test_diff(self):
        """Of what changes, and not of libvirt's quotes."""
        file = self.file('a.xml', samples.LIBVIRT_XML)
        result = runner.run('domain', 'rewrite', file, '--diff')
        self.assertEqual(
            [
                f'--- {file}',
                f'+++ {file} (rewritten)',
                '-    <memory mode="strict" nodeset="0-1"/>',
                '-    <memnode cellid="1" mode="strict" nodeset="1"/>',
                '+    <memnode cellid="1" mode="preferred" nodeset="1"/>',
            ],
            [
                line
                for line in result.stdout.splitlines()
                if line.startswith(('-', '+'))
            ],
        )

    def test_diff_without_a_newline_at_the_end(self):
        """patch(1) would take two lines for one."""
        xml = samples.domain_text(
            numatune='<memory mode="strict" nodeset="0"/>'
            '<memnode cellid="0" mode="strict" nodeset="0"/>',
            cells='<cell id="0" memory="1024"/>',
        )
        lines = self.rewrite(xml, '--diff').splitlines()
        self.assertEqual(
            ['---', '+++', '@@ ', '-<d', '+<d'], [line[:3] for line in lines]
        )

    def test_wrong_options(self):
        self.assert_misused(
            ['domain', 'rewrite', '-', '--small-page-policy', 'best'],
            "'best'",
        )
        self.assert_misused(
            ['domain', 'rewrite', '-', '--restore', '--node', '1'],
            "'1' is not a guest cell and its host node",
        )
        self.assert_fails(
            ['domain', 'rewrite', '-', '--node', '1:1'],
            '--node says nothing without --restore',
        )
        self.assert_fails(
            [
                *('domain', 'rewrite', '-', '--restore'),
                *('--small-page-policy', 'auto'),
            ],
            '--small-page-policy says nothing with --restore',
        )
