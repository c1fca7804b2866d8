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

"""Huge pages are taken by a process that Nova does not know of."""

from tests.lab import base, shared
from tests.lab.stack import client

LEFT = shared.PAGES // 2
QEMU_SAYS = 'unable to map backing store for guest RAM: Cannot allocate memory'


def shortage(available: int) -> str:
    """What the guard says of a host that has so many pages."""
    return (
        f'huge pages of 2048 KiB on host NUMA node 0: needed {shared.PAGES}, '
        f'available {available}'
    )


SHORTAGE = shortage(LEFT)


class RefusalTest(base.LabTestCase):
    """[numa_guard] page_check = enforce."""

    def test_server_goes_to_the_second_host(self) -> None:
        """The pages of the first one's hugetlbfs are taken.

        The hosts share one kernel, and its counts; what is taken from the
        kernel is lacking on both, as below.
        """
        self.outsider(leave=LEFT, host=base.FIRST)

        server = self.boot(self.lab.huge_pinned)

        self.assertEqual(base.SECOND, server.host)
        self.assertEqual([('memnode', 'strict', '0')], self.numatune(server))
        self.assertEqual([], self.traces(server, base.FIRST))

        (event,) = self.refusals(server, base.PAGE_CHECK)
        self.assertEqual(
            ('create', base.FIRST, 'Error'),
            (event.action, event.host, event.result),
        )
        self.assertIn(SHORTAGE, event.details)

        (line,) = self.warnings(base.FIRST)
        self.assertIn(f'{event.request_id} ', line)
        self.assertIn(
            f'[instance: {server.uuid}] Refused to start: {SHORTAGE}', line
        )
        self.assertEqual([], self.warnings(base.SECOND))

    def test_server_stays_on_the_first_host_that_has_the_pages(self) -> None:
        """So the outsider, and nothing else, makes the difference above."""
        self.assertEqual(base.FIRST, self.boot(self.lab.huge_pinned).host)

    def test_pages_run_out_on_every_host(self) -> None:
        left = {base.FIRST: LEFT // 2, base.SECOND: LEFT}
        self.outsider(leave=left[base.FIRST], host=base.FIRST)
        self.outsider(leave=left[base.SECOND])

        server = self.boot(self.lab.huge_pinned, status='ERROR')

        refusals = self.refusals(server, base.PAGE_CHECK)
        self.assertCountEqual(left, [event.host for event in refusals])
        for event in refusals:
            text = shortage(left[event.host])
            self.assertIn(text, event.details)
            self.assertEqual([], self.traces(server, event.host))
            (line,) = self.warnings(event.host)
            self.assertIn(f'[instance: {server.uuid}]', line)
            self.assertTrue(line.endswith(text), line)
        # All that the owner of the server is told has no numbers in it.
        self.assertEqual(
            'Exceeded maximum number of retries. Exhausted all hosts '
            'available for retrying build failures for instance '
            f'{server.uuid}.',
            server.fault,
        )

    def test_small_page_server_needs_no_huge_pages(self) -> None:
        self.outsider(leave=0)

        server = self.boot(self.lab.small_page)

        self.assertEqual(base.FIRST, server.host)
        self.assertEqual([], self.refusals(server, base.PAGE_CHECK))


class WithoutRefusalTest(base.LabTestCase):
    """What becomes of a shortage that nobody acts upon."""

    @base.run_with(base.FIRST, {'numa_guard': {'page_check': 'warn'}})
    def test_warn_mode_lets_qemu_fail(self) -> None:
        self.outsider(leave=LEFT, host=base.FIRST)

        server = self.boot(self.lab.huge_pinned)

        self.assert_failed_in_qemu(server)
        before, after = self.warnings(base.FIRST)
        self.assertIn('page_check is "warn"', before)
        self.assertTrue(before.endswith(SHORTAGE), before)
        self.assertIn(f'has not started ({SHORTAGE})', after)
        for line in (before, after):
            self.assertIn(server.uuid, line)

    @base.run_with(base.FIRST, base.OFF)
    def test_switched_off_lets_qemu_fail(self) -> None:
        self.outsider(leave=LEFT, host=base.FIRST)

        server = self.boot(self.lab.huge_pinned)

        self.assert_failed_in_qemu(server)
        self.assertEqual([], self.warnings(base.FIRST))

    def assert_failed_in_qemu(self, server: client.Server) -> None:
        """A server has been to the first host, and then gone to the other."""
        self.assertEqual(base.SECOND, server.host)
        self.assertEqual([], self.refusals(server, base.PAGE_CHECK))
        log = self.host(base.FIRST).qemu_log(server.domain)
        self.assertIn(str(log), self.traces(server, base.FIRST))
        self.assertIn(QEMU_SAYS, log.read_text())
        self.assertNotEqual([], self.logged(base.FIRST, ' ERROR ', QEMU_SAYS))
