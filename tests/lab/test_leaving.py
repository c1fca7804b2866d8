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

"""Back to Nova's own driver, with servers that the guard has started."""

import json
import subprocess

from tests.lab import base
from tests.lab.stack import plan, services

# The guard's driver, on its way out.
LEAVING: plan.Options = {'numa_guard': {'numatune': 'stock'}}

GUARDED = [('memnode', 'strict', '0')]

SUCCESS, WARNING, FAILURE = range(3)
GUESTS = 'Guests that the guard has started'
STARTS = 'Guests that start from now on'


class LeavingTest(base.LabTestCase):
    @base.run_with(base.SECOND, base.STOCK)
    def test_by_live_migration(self) -> None:
        """To a host that has Nova's driver, and back to one that has it."""
        server = self.boot(self.lab.huge_pinned, host=base.FIRST)
        self.assertEqual(GUARDED, self.numatune(server))
        code, checks = self.check(base.FIRST)
        self.assertEqual(FAILURE, code)
        self.assertEqual(WARNING, checks[STARTS][0])
        self.assert_left(f'{server.uuid} {server.domain} running', checks)

        self.configure_first(LEAVING)
        code, checks = self.check(base.FIRST)
        self.assertEqual(FAILURE, code)
        self.assertEqual(SUCCESS, checks[STARTS][0])
        self.assert_left(f'{server.uuid} {server.domain} running', checks)

        server = self.migrate(server, base.SECOND)
        self.assertEqual(base.NOVAS, self.numatune(server))
        for host in (base.FIRST, base.SECOND):
            code, checks = self.check(host)
            self.assertEqual(SUCCESS, code, str(checks))

        self.configure_first(base.STOCK)
        server = self.migrate(server, base.FIRST)
        self.assertEqual(base.NOVAS, self.numatune(server))
        code, checks = self.check(base.FIRST)
        self.assertEqual(SUCCESS, code, str(checks))

    @base.run_with(base.SECOND, base.STOCK)
    def test_by_hard_reboot_of_one_that_was_suspended(self) -> None:
        """It is resumed with what it had, and has Nova's after the reboot."""
        server = self.boot(self.lab.huge_pinned, host=base.FIRST)
        self.configure_first(LEAVING)
        server = self.client.act(server.uuid, 'suspend')
        self.assertEqual('SUSPENDED', server.status, server.fault)
        code, checks = self.check(base.FIRST)
        self.assertEqual(FAILURE, code)
        self.assert_left(f'{server.uuid} {server.domain} suspended', checks)

        server = self.client.act(server.uuid, 'resume')
        self.assertEqual('ACTIVE', server.status, server.fault)
        self.assertEqual(GUARDED, self.numatune(server))
        code, checks = self.check(base.FIRST)
        self.assertEqual(FAILURE, code)
        self.assert_left(f'{server.uuid} {server.domain} running', checks)

        server = self.client.act(server.uuid, 'reboot', {'type': 'HARD'})
        self.assertEqual('ACTIVE', server.status, server.fault)
        self.assertEqual(base.NOVAS, self.numatune(server))
        code, checks = self.check(base.FIRST)
        self.assertEqual(SUCCESS, code, str(checks))

    def configure_first(self, overrides: plan.Options) -> None:
        """Start the first nova-compute anew; its guests run on."""
        self.lab.stack.run_with(
            {base.FIRST: overrides, base.SECOND: base.STOCK}
        )

    def check(self, host: str) -> tuple[int, dict[str, tuple[int, str]]]:
        """What the command says on a host, as an operator would ask it.

        :returns: its exit code; and each check's result, and details
        """
        file = self.lab.stack.layout.etc('nova', f'{host}.conf')
        done = subprocess.run(
            self.host(host).inside(
                str(services.BIN / 'nova-numa-guard-status'),
                *(f'--config-file={file}', 'upgrade', 'check'),
                *('--json', '--leaving'),
            ),
            capture_output=True,
            text=True,
            timeout=120,
        )
        self.assertTrue(done.stdout, done.stderr)
        checks = json.loads(done.stdout)['checks']
        return done.returncode, {
            each['check']: (each['result'], each['details'] or '')
            for each in checks
        }

    def assert_left(
        self, line: str, checks: dict[str, tuple[int, str]]
    ) -> None:
        """One server is left, and this is what is said of it."""
        result, details = checks[GUESTS]
        self.assertEqual(FAILURE, result)
        self.assertEqual(
            [f'- {line}'],
            [each for each in details.split('\n') if each.startswith('- ')],
        )
