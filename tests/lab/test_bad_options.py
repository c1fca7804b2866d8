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

"""A service with a value that the guard does not know does not start."""

from tests.lab import base


class BadOptionsTest(base.LabTestCase):
    def test_compute_stops_at_a_bad_page_check(self) -> None:
        self.check(base.FIRST, 'page_check', 'maybe', 'enforce, warn, off')

    def test_scheduler_stops_at_a_bad_isolation(self) -> None:
        self.check(base.SCHEDULER, 'isolation', 'bogus', 'none, host, cell')

    def check(
        self, service: str, option: str, value: str, allowed: str
    ) -> None:
        stack = self.lab.stack

        code = stack.run_to_end(service, {'numa_guard': {option: value}})

        self.assertEqual(1, code)
        (line,) = self.logged(service, ' CRITICAL nova ')
        self.assertIn(f'[numa_guard] {option}: ', line)
        self.assertIn(str(stack.layout.etc('nova', f'{service}.conf')), line)
        self.assertTrue(
            line.endswith(
                f'Valid values are [{allowed}], but found {value!r}'
            ),
            line,
        )
