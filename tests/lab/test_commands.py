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

"""The commands for operators, and that Nova then does what they said."""

import json
import subprocess
from typing import Any

from lxml import etree

from tests.lab import base, shared
from tests.lab.stack import plan, services

WARN: plan.Options = {'numa_guard': {'isolation_mode': 'warn'}}
LEFT = shared.TINY
MEMORY = 2 * shared.PAGES
SUCCESS, WARNING = range(2)

Rows = list[dict[str, Any]]


class CommandsTestCase(base.LabTestCase):
    def run_command(
        self, words: list[str], code: int = 0, stdin: str = ''
    ) -> tuple[str, str]:
        """What a command writes to stdout, and to stderr."""
        done = subprocess.run(
            words,
            capture_output=True,
            input=stdin,
            text=True,
            timeout=120,
        )
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stdout, done.stderr

    def config_file(self, service: str) -> str:
        path = self.lab.stack.layout.etc('nova', f'{service}.conf')
        return f'--config-file={path}'


class ControllerTest(CommandsTestCase):
    """What is run where nova-scheduler is."""

    def ask(self, *words: str) -> tuple[Rows, str]:
        """The rows of a command, and what it writes to stderr."""
        out, err = self.run_command(
            [
                str(services.BIN / 'nova-numa-guard'),
                *(*words, '-f', 'json'),
                self.config_file(base.SCHEDULER),
            ]
        )
        return json.loads(out), err

    def by_host(self, *words: str) -> tuple[dict[str, dict[str, Any]], str]:
        rows, err = self.ask(*words)
        return {row['Host']: row for row in rows}, err

    def test_explain(self) -> None:
        """Before, with a server and its log, and what Nova does then."""
        self.boot(self.lab.floating, host=base.FIRST)

        found, said = self.by_host('explain', '--flavor', self.lab.huge_pinned)

        self.assertIn(
            'affined guest: 1 of 2 hosts: 1 hold floating guests\n', said
        )
        wrong = f'floating guests present: 1, {MEMORY} MiB'
        self.assertEqual(
            {
                base.FIRST: ('fails', f'floating-present: {wrong}', 'passes'),
                base.SECOND: ('passes', 'no-other-kind', 'passes'),
            },
            {
                name: (row['Guard'], row['Guard says'], row['Nova'])
                for name, row in found.items()
            },
        )
        server = self.boot(self.lab.huge_pinned)
        self.assertEqual(base.SECOND, server.host)

        found, said = self.by_host('explain', '--server', server.uuid)
        self.assertIn('of those that pass, 1 last choice\n', said)
        self.assertEqual('last choice', found[base.FIRST]['Guard'])
        self.assertEqual('holds the server', found[base.SECOND]['Away'])

        # Its one CPU for pinned guests is taken.
        found, _ = self.by_host('explain', '--flavor', self.lab.huge_pinned)
        self.assertEqual(
            'guest cell 0: host cell 0: dedicated CPUs: needed 1, available '
            '0 (1 in all, 1 claimed)',
            found[base.SECOND]['Nova says'],
        )

        (request,) = {
            event.request_id
            for event in self.client.events(server.uuid)
            if event.action == 'create'
        }
        log = self.lab.stack.layout.log(base.SCHEDULER)
        logged, _ = self.ask(
            'explain', f'--log={log}', f'--request-id={request}'
        )
        self.assertEqual(
            [(base.FIRST, 'guard', 'floating-present', wrong)],
            [
                (row['Host'], row['Filter'], row['Reason'], row['Detail'])
                for row in logged
            ],
        )

    @base.run_with(base.FIRST, WARN)
    def test_hosts(self) -> None:
        """One host is mixed, and what it is to lose is said."""
        self.reload_scheduler(WARN)
        self.boot(self.lab.floating, host=base.FIRST)
        minority = self.boot(self.lab.huge_tiny, host=base.FIRST)

        found, _ = self.by_host('hosts', 'list')

        self.assertEqual(
            {base.FIRST: 'mixed', base.SECOND: 'none'},
            {name: row['Guests'] for name, row in found.items()},
        )
        mixed = found[base.FIRST]
        self.assertEqual('host (warn)', mixed['Isolation'])
        self.assertEqual(
            [MEMORY, 2 * shared.TINY], [mixed['Floating'], mixed['Affined']]
        )
        self.assertTrue(mixed['Guard'][0].isdigit(), mixed['Guard'])

        found, _ = self.by_host('hosts', 'list', '--capacity')
        self.assertEqual({'yes'}, {found[name]['Failover'] for name in found})

        rows, said = self.ask('hosts', 'list', '--plan')
        self.assertIn('1 of 2 hosts are mixed', said)
        self.assertEqual(
            [
                {
                    'Host': base.FIRST,
                    'Dominant': 'floating',
                    'Server': minority.uuid,
                    'Kind': 'affined',
                    'Memory': 2 * shared.TINY,
                }
            ],
            rows,
        )

    def test_status(self) -> None:
        """Of a controller; two hosts are few to isolate by host."""
        out, _ = self.run_command(
            [
                str(services.BIN / 'nova-numa-guard-status'),
                self.config_file(base.SCHEDULER),
                *('upgrade', 'check', '--json'),
                *('--role=api', '--role=scheduler'),
            ],
            code=WARNING,
        )
        results = {
            each['check']: each['result'] for each in json.loads(out)['checks']
        }
        self.assertGreater(len(results), 5)
        self.assertEqual(
            {'Hosts to fail over to'},
            {name for name, result in results.items() if result != SUCCESS},
        )


class ComputeTest(CommandsTestCase):
    """What is run on a compute host, that has no limit of hugetlbfs."""

    def words(self, *words: str) -> list[str]:
        return self.host(base.SECOND).inside(
            str(services.BIN / 'nova-numa-guard'), *words
        )

    def ask(self, *words: str, code: int = 0, stdin: str = '') -> Any:
        """The rows of a command, and what it writes to stderr."""
        uri = self.lab.stack.layout.libvirt_uri(base.SECOND)
        out, err = self.run_command(
            self.words(*words, '-f', 'json', f'--uri={uri}'), code, stdin
        )
        return json.loads(out), err

    def test_others_have_pages(self) -> None:
        """One server fits, an outsider comes, another one does not."""
        server = self.boot(self.lab.huge_pinned, host=base.SECOND)
        free = self._free_pages - shared.PAGES
        self.outsider(leave=LEFT)

        rows, said = self.ask('pools', 'show')
        (row,) = [row for row in rows if row['Page size'] == 2048]
        self.assertEqual(
            [shared.PAGES, free - LEFT, LEFT],
            [row[name] for name in ('Claimed', 'Unaccounted', 'Available')],
        )
        reserve = f'node:0,size:2048,count:{free - LEFT}'
        self.assertIn(f'reserved_huge_pages = {reserve}\n', said)
        result, details = self.status()['Huge pages that others hold']
        self.assertEqual(WARNING, result)
        self.assertIn(reserve, details)

        (row,), _ = self.ask('guests', 'list', '--placement')
        self.assertEqual(server.uuid, row['UUID'])
        self.assertEqual(
            ['affined', 1, {'0': '0'}, [2048], 'guard', False],
            [
                row[name]
                for name in (
                    *('Kind', 'Pinned', 'Cells', 'Page sizes'),
                    *('Numatune', 'Hard reboot'),
                )
            ],
        )
        self.assertEqual(shared.PAGES, row['Placement']['0']['2048'])

        xml = self.host(base.SECOND).virsh('dumpxml', server.domain)
        rows, _ = self.ask('domain', 'check', '-', stdin=xml)
        self.assertEqual([0], [row['Short'] for row in rows])
        other = xml.replace(server.uuid, server.uuid[::-1])
        rows, said = self.ask('domain', 'check', '-', code=1, stdin=other)
        self.assertEqual([shared.PAGES - LEFT], [row['Short'] for row in rows])
        text = (
            'huge pages of 2048 KiB on host NUMA node 0: needed '
            f'{shared.PAGES}, available {LEFT}'
        )
        self.assertIn(text, said)

        refused = self.boot(
            self.lab.huge_shared, host=base.SECOND, status='ERROR'
        )
        (event,) = self.refusals(refused, base.PAGE_CHECK)
        self.assertIn(text, event.details)

    def test_rewrite(self) -> None:
        """A guest's XML, as Nova has it and as the guard has it."""
        server = self.boot(self.lab.huge_shared, host=base.SECOND)
        xml = self.host(base.SECOND).virsh('dumpxml', server.domain)
        stock, _ = self.run_command(
            self.words('domain', 'rewrite', '-', '--restore'), stdin=xml
        )
        guarded, _ = self.run_command(
            self.words('domain', 'rewrite', '-'), stdin=stock
        )
        self.assertEqual(
            [base.NOVAS, self.numatune(server)],
            [
                base.numatune(etree.fromstring(text))
                for text in (stock, guarded)
            ],
        )
        diff, _ = self.run_command(
            self.words('domain', 'rewrite', '-', '--diff'), stdin=stock
        )
        self.assertIn('\n-    <memory mode="strict" nodeset="0"/>', diff)
        diff, _ = self.run_command(
            self.words('domain', 'rewrite', '-', '--diff'), stdin=guarded
        )
        self.assertEqual('', diff)

    def status(self) -> dict[str, tuple[int, str]]:
        """The result of each check, and its details."""
        out, _ = self.run_command(
            self.host(base.SECOND).inside(
                str(services.BIN / 'nova-numa-guard-status'),
                self.config_file(base.SECOND),
                *('upgrade', 'check', '--json', '--role=compute'),
            ),
            code=WARNING,
        )
        return {
            each['check']: (each['result'], each['details'] or '')
            for each in json.loads(out)['checks']
        }
