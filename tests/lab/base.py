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

"""What the tests of the lab have in common."""

from collections.abc import Callable, Container
import functools
import os
import subprocess
import sys
from typing import Any, TypeVar

import fixtures
from lxml import etree
import testtools
from testtools import content

from tests.lab import memory, outsider, shared
from tests.lab.stack import (
    client,
    database,
    hosts,
    hugepages,
    namespace,
    nova,
    plan,
    processes,
)

# Nova's weigher for RAM prefers the first of the hosts, which has less in
# reserve. Its guests can have PAGES huge pages together, and no more.
FIRST = 'compute1'
SECOND = 'compute2'
# It pretends to have two NUMA cells. It runs, and Nova knows it, only while
# tests need it that start it.
THIRD = 'compute3'
SCHEDULER = nova.SCHEDULER

# The event of a page check that refused.
PAGE_CHECK = 'compute_numa_guard_page_check'

# Options of a nova-compute: Nova's own driver, and ours without effect.
STOCK: plan.Options = {'DEFAULT': {'compute_driver': 'libvirt.LibvirtDriver'}}
OFF: plan.Options = {
    'numa_guard': {
        'isolation': 'none',
        'isolation_mode': 'warn',
        'numatune': 'stock',
        'page_check': 'off',
        'page_check_on_restart': 'off',
        'accounting': False,
    }
}

# The <numatune> that Nova writes of a guest of one cell.
NOVAS = [('memory', 'strict', '0'), ('memnode', 'strict', '0')]

# What must do without the API's database.
CELL = (nova.CELL_CONDUCTOR, FIRST, SECOND)

_SERVICES = (SCHEDULER, *CELL, THIRD)

# What a nova-compute and a conductor write that need a database they have not.
_UPCALLS = ('CantStartEngineError', 'DBNotAllowed')


_Test = TypeVar('_Test', bound=Callable[..., None])


def run_with(
    service: str, overrides: plan.Options
) -> Callable[[_Test], _Test]:
    """Let a service run with other options when a test begins."""

    def mark(test: _Test) -> _Test:
        vars(test).setdefault('run_with', {})[service] = overrides
        return test

    return mark


def numatune(domain: etree._Element) -> list[tuple[str, str, str]]:
    """What is in the <numatune> of a domain: tags, modes and host nodes."""
    return [
        (child.tag, child.get('mode', ''), child.get('nodeset', ''))
        for child in domain.iterfind('./numatune/*')
    ]


class LabTestCase(testtools.TestCase):
    """A test that boots servers, and leaves nothing behind."""

    upcalls_expected = False

    def setUp(self) -> None:
        super().setUp()
        seconds = int(os.environ.get('OS_TEST_TIMEOUT', 0))
        if seconds:
            self.useFixture(fixtures.Timeout(seconds, gentle=True))
        self.lab = shared.lab()
        self.client = self.lab.client
        self.addOnException(self._on_exception)
        self._servers: list[str] = []
        self._left: list[str] = []
        self._written = {name: self._log_size(name) for name in _SERVICES}
        test = getattr(self, self._testMethodName)
        self.lab.stack.run_with(getattr(test, 'run_with', {}))
        self._free_pages = hugepages.free()
        self._memory_used = self.client.memory_used()
        self.addCleanup(self.assert_nothing_left)
        self.addCleanup(self._assert_no_upcalls)

    def boot(
        self,
        flavor: str,
        host: str = '',
        status: str | Container[str] = ('ACTIVE',),
        forced: bool = False,
    ) -> client.Server:
        """Boot a server, which is deleted after the test.

        :param host: the only host that the filters are to look at
        :param status: what becomes of it, or what may
        :param forced: no filter is asked
        """
        uuid = self.ask_for(flavor, host, forced)
        server = self.client.settled(uuid)
        expected = (status,) if isinstance(status, str) else status
        self.assertIn(server.status, expected, server.fault)
        return server

    def ask_for(
        self, flavor: str, host: str = '', forced: bool = False
    ) -> str:
        """Ask for a server as boot() does, and do not wait for it."""
        uuid = self.client.boot(
            self.id().rpartition('.')[2], self.lab.image, flavor, host, forced
        )
        self._servers.append(uuid)
        self._left.append(uuid)
        self.addCleanup(self._delete_servers)
        return uuid

    def migrate(self, server: client.Server, host: str) -> client.Server:
        """Live-migrate a server; Nova must be content with it."""
        source = server.host
        done = ['completed'] * (1 + len(self.client.migrations(server.uuid)))
        server = self.client.act(
            server.uuid,
            'os-migrateLive',
            {'host': host, 'block_migration': 'auto'},
        )
        self.assertEqual('ACTIVE', server.status, server.fault)
        self.assertEqual(host, server.host)
        # The source has things to do when the server is active already.
        processes.poll(lambda: self.client.migrations(server.uuid) == done, 60)
        self.assertEqual(done, self.client.migrations(server.uuid))
        self.assertEqual([server.domain], self.host(host).domains())
        self.assertEqual([], self.host(source).domains())
        return server

    def host(self, name: str) -> hosts.ComputeHost:
        return self.lab.stack.hosts[name]

    def reload_scheduler(self, overrides: plan.Options) -> None:
        """Have the scheduler read other options until the test is over."""
        self.addCleanup(self.lab.stack.reload_scheduler, {})
        self.lab.stack.reload_scheduler(overrides)

    def outsider(self, leave: int, host: str = '') -> Callable[[], object]:
        """Take huge pages behind Nova's back until the test is over.

        :param leave: pages that guests can still have
        :param host: leave so many on this host only; without it, on all
        :returns: what lets go of them before
        """
        if host:
            pid = self.lab.stack.processes.pid(self.host(host).libvirtd)
            room = os.statvfs(f'/proc/{pid}/root{namespace.HUGETLBFS}')
            taken = room.f_bavail - leave
            inside = self.host(host).inside
            file = [str(namespace.HUGETLBFS / 'outsider')]
        else:
            taken = hugepages.free() - leave
            inside, file = lambda *words: list(words), []
        process = subprocess.Popen(
            inside(
                *(sys.executable, '-P', outsider.__file__),
                *(str(taken), str(hugepages.cpus()[0]), *file),
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.communicate)
        assert process.stdout is not None
        self.assertEqual('taken\n', process.stdout.readline())

        def let_go() -> None:
            process.communicate()

        return let_go

    def logged(self, service: str, *words: str) -> list[str]:
        """The lines with all of some words that a service has written.

        Of those that it has written since the test began.
        """
        path = self.lab.stack.layout.log(service)
        if not path.exists():
            return []  # it has never run
        with path.open('rb') as log:
            log.seek(self._written[service])
            lines = log.read().decode(errors='replace').splitlines()
        return [line for line in lines if all(word in line for word in words)]

    def warnings(self, host: str) -> list[str]:
        """What the guard has warned of on a host."""
        return self.logged(host, ' WARNING nova_numa_guard.')

    def refusals(
        self, server: client.Server, event: str
    ) -> list[client.Event]:
        """The events of a name that hosts have left of a server."""
        return [
            found
            for found in self.client.events(server.uuid)
            if found.name == event
        ]

    def traces(self, server: client.Server, host: str) -> list[str]:
        """What a server has left on a host; with nothing, it was never there.

        Not all of it vanishes once the server is somewhere else.
        """
        there = self.host(host)
        found = [name for name in there.domains() if name == server.domain]
        paths = (
            there.qemu_log(server.domain),
            there.instances / server.uuid,
        )
        return found + [str(path) for path in paths if path.exists()]

    def node(self, host: str) -> database.ComputeNode:
        """Nova's record of a host, as its next audit writes it."""
        tracker = functools.partial(
            self.logged, host, ' nova.compute.resource_tracker '
        )
        known = len(tracker())

        def audited() -> bool:
            """From beginning to end: one may be under way."""
            begun = False
            for line in tracker()[known:]:
                begun = begun or 'Auditing locally available' in line
                if begun and 'record updated for' in line:
                    return True
            return False

        self.assertTrue(processes.poll(audited, 60), host)
        return database.compute_node(self.lab.stack.layout, host)

    def upcalls(self) -> list[str]:
        """What the cell has written of needing more than it has."""
        return [
            line
            for service in (*CELL, THIRD)
            for word in _UPCALLS
            for line in self.logged(service, word)
        ]

    def domain(self, server: client.Server) -> etree._Element:
        """The XML of a server's running guest."""
        return etree.fromstring(
            self.host(server.host).virsh('dumpxml', server.domain)
        )

    def numatune(self, server: client.Server) -> list[tuple[str, str, str]]:
        """What is in <numatune>: tags, modes and host nodes."""
        return numatune(self.domain(server))

    def mappings(self, server: client.Server) -> list[memory.Mapping]:
        """The memory of a server's QEMU."""
        return memory.mappings(self.host(server.host).qemu_pid(server.domain))

    def ram(
        self, server: client.Server, mebibytes: int
    ) -> tuple[memory.Mapping, set[str]]:
        """The mapping that is the guest's RAM, and the others' policies."""
        found = self.mappings(server)
        self.assertGreater(len(found), 10)
        ram = [one for one in found if one.size == mebibytes << 20]
        self.assertEqual(1, len(ram), str(ram))
        return ram[0], {one.policy for one in found if one not in ram}

    def assert_nothing_left(self) -> None:
        """Once the servers are deleted, hosts are as they were before."""
        for uuid in self._servers:
            self.assertEqual({}, self.client.allocations(uuid), uuid)
        for name, host in self.lab.stack.running.items():
            self.assertEqual([], host.domains(), name)
            disks = set(os.listdir(host.instances))
            self.assertEqual(set(), disks & {*self._servers}, name)
        processes.poll(lambda: hugepages.free() == self._free_pages, 10)
        self.assertEqual(self._free_pages, hugepages.free())
        processes.poll(
            lambda: self.client.memory_used() == self._memory_used, 60
        )
        self.assertEqual(self._memory_used, self.client.memory_used())

    def _delete_servers(self) -> None:
        """Delete those that are left, the first time that this is called."""
        left, self._left = self._left, []
        self.client.delete(*left)

    def _assert_no_upcalls(self) -> None:
        if not self.upcalls_expected:
            self.assertEqual([], self.upcalls())

    def _log_size(self, service: str) -> int:
        try:
            return self.lab.stack.layout.log(service).stat().st_size
        except FileNotFoundError:
            return 0

    def _on_exception(self, exc_info: Any) -> None:
        """Show what the services had to say, and keep their logs."""
        if issubclass(exc_info[0], self.skipException):
            return
        self.lab.failed = True
        for service in _SERVICES:
            path = self.lab.stack.layout.log(service)
            loud = self.logged(service, ' ERROR ')
            loud += self.logged(service, ' nova_numa_guard.')
            self.addDetail(
                str(path), content.text_content('\n'.join(loud[-40:]))
            )
