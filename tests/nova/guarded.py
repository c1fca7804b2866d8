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

"""Nova's own tests, on hosts whose kernel the guard can ask for pages.

Nova's fake libvirt has no kernel beneath it. Here every compute has kernel
files that show what its libvirt shows, and its guests take pages of them, so
that the page check does what it does on a real host: a guest that starts
without its pages fails, and the test with it.
"""

import functools
import importlib
import threading

import fixtures

from nova_numa_guard import fixture, metrics, pools, reservations
from tests.functional import base, qemu
from tests.nova import stock


class Kernel(qemu.Kernel):
    """One that knows which of the guests that start were promised pages."""

    def __init__(self, kernel):
        super().__init__(kernel)
        self.reservations = reservations.Reservations()
        self.unpromised = []

    def has(self, pages):
        if pages and pages not in self._promised():
            self.unpromised.append(pages)
        return super().has(pages)

    def _promised(self):
        return [
            {
                (need.node, need.page_size): need.pages
                for need in promise.needs
                if need.page_size > pools.SMALL_PAGE
            }
            for promise in self.reservations.promises
        ]


# As an attribute of its package it is hidden by something else.
nova_fixtures = importlib.import_module('nova.tests.fixtures.nova')


class ReadersFirst(nova_fixtures.ReaderWriterLock):
    """A lock that is given to readers while a writer waits.

    Nova's CellDatabases is locked by _run_periodics() as a reader while it
    waits for an audit, which is a reader in another thread in Nova 34. With
    Nova's lock the audit would wait for any writer that waits, such as a
    request to the API, and that one for _run_periodics(): for ever, with or
    without the guard.
    """

    has_pending_writers = False


EVENT_WAIT = threading.Event.wait
START = threading.Thread.start


def start(thread):
    """Start a thread whatever Nova's test makes of events.

    One of Nova 31 replaces threading.Event.wait with what says once that an
    event of libvirt's has come. A thread that starts waits for one as well,
    and the guard starts one to ask libvirt for the domains that run.
    """
    thread._started.wait = functools.partial(EVENT_WAIT, thread._started)
    START(thread)


class WithKernel(stock.WithGuard):
    """Nova's test with the guard, and a kernel for each compute.

    :cvar CHECKED: the tests that are known to check pages, by Class.method;
        others may
    """

    CHECKED: frozenset[str] = frozenset()

    def setUp(self):
        # Some start computes in their setUp().
        self.useFixture(qemu.Domains())
        self.useFixture(
            fixtures.MockPatchObject(
                nova_fixtures, 'ReaderWriterLock', ReadersFirst
            )
        )
        self.useFixture(fixtures.MonkeyPatch('threading.Thread.start', start))
        self._drivers, self._kernels = [], []
        super().setUp()
        # Before anything of the test is undone.
        self.addCleanup(self._assert_checked)

    def start_service(self, name, *args, **kwargs):
        if name != 'compute':
            return super().start_service(name, *args, **kwargs)
        connect = getattr(self, 'mock_conn', None)
        if connect is not None:
            host_info = connect.return_value.host_info
        else:
            # Nova connects by itself, and each libvirt is the default one.
            host_info = base.fakelibvirt.HostInfo()
        kernel = Kernel(self._files(host_info).kernel)
        if connect is not None:
            # Its guests may run already: this may be a restart.
            kernel.follow(connect.return_value)
        with (
            fixtures.MonkeyPatch(
                'nova_numa_guard.pools.Kernel', lambda: kernel
            ),
            fixtures.MonkeyPatch(
                'nova_numa_guard.reservations.Reservations',
                lambda: kernel.reservations,
            ),
        ):
            service = super().start_service(name, *args, **kwargs)
        self._drivers.append(service.driver)
        self._kernels.append(kernel)
        if connect is None:
            kernel.follow(service.driver._host.get_connection())
        return service

    def _files(self, host_info):
        """Kernel files for what a fake libvirt shows of its host."""
        files = self.useFixture(fixture.KernelFixture())
        base.show_pools(files, host_info)
        for cell in host_info.numa_topology.cells:
            sizes = {page.size: page.total for page in cell.mempages}
            files.set_memory(
                cell.id,
                total=sum(size * pages for size, pages in sizes.items()),
                free=pools.SMALL_PAGE * sizes.get(pools.SMALL_PAGE, 0),
            )
        return files

    def _assert_checked(self):
        """The guard could see, and let no guest start unasked."""
        self.assertEqual(
            [], [k.unpromised for k in self._kernels if k.unpromised]
        )
        self.assertEqual(0, self._count('checks', result='unchecked'))
        for source in metrics.Source:
            self.assertEqual(
                0, self._count('unreadable', source=source.value), source
            )
        if self.is_checked():
            self.assertLess(0, self._count('checks', result='passed'))

    def is_checked(self):
        name = f'{type(self).__name__}.{self._testMethodName}'
        return name in self.CHECKED

    def _count(self, counter, **labels):
        """The sum of a counter of all computes."""
        return sum(
            sample.value
            for driver in self._drivers
            for metric in driver.metrics.registry.collect()
            if metric.name == f'numa_guard_{counter}'
            for sample in metric.samples
            if sample.name.endswith('_total')
            and labels.items() <= sample.labels.items()
        )


def suite_of(module, loader, name, checked=(), excepted=None):
    """Every test of one of Nova's modules, run with the guard's defaults.

    :param module: Nova's
    :param name: of the module that shows the tests as its own
    :param checked: tests in which guests with pages start, by Class.method;
        some may be in other series of Nova only
    :param excepted: why a test cannot pass with the guard, likewise
    """
    mixin = type('WithKernel', (WithKernel,), {'CHECKED': frozenset(checked)})
    suite = stock.suite_of(module, loader, name, mixin, excepted)
    if checked and not any(map(WithKernel.is_checked, suite)):
        raise RuntimeError(f'not in {module.__name__}: {sorted(checked)}')
    return suite
