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

"""What the tests in the machine have in common."""

import contextlib
import os
import pathlib
import threading
import time
from typing import Any

import fixtures
import libvirt
import testtools
from testtools import content

from tests.numa.inside import host, process

_GUEST = """\
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='KiB'>{kib}</memory>
  <memoryBacking>{backing}</memoryBacking>
  <vcpu>2</vcpu>
  {numatune}
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
  </os>
  {cpu}
  <devices>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""

# As Nova writes them for a guest with one cell.
_CPU = """\
<cpu>
    <numa>
      <cell id='0' cpus='0-1' memory='{kib}' unit='KiB'/>
    </numa>
  </cpu>"""
_NUMATUNE = """\
<numatune>
    <memory mode='strict' nodeset='{node}'/>
    <memnode cellid='0' mode='strict' nodeset='{node}'/>
  </numatune>"""

# The kernel touches all of the guest's memory when it starts.
_ALL_AT_ONCE = "<allocation mode='immediate'/>"
_HUGE_PAGES = """\
<hugepages>
      <page size='2048' unit='KiB' nodeset='0'/>
    </hugepages>"""

_LOGS = pathlib.Path('/var/log/libvirt')
_LIBVIRTD_LOG = _LOGS / 'libvirtd.log'
_PIDS = pathlib.Path('/run/libvirt/qemu')

_connection: libvirt.virConnect | None = None


def connection() -> libvirt.virConnect:
    """The machine's libvirtd, once it has looked at QEMU."""
    global _connection
    if _connection is None:
        libvirt.registerErrorHandler(lambda *_: None, None)
        end = time.monotonic() + 120
        while True:
            try:
                opened = libvirt.open('qemu:///system')
                opened.getDomainCapabilities(None, 'x86_64', 'pc', 'qemu')
            except libvirt.libvirtError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)
            else:
                _connection = opened
                break
    return _connection


class MachineTestCase(testtools.TestCase):
    """A test that starts guests, and leaves none behind."""

    def setUp(self) -> None:
        super().setUp()
        seconds = int(os.environ.get('OS_TEST_TIMEOUT', 0))
        if seconds:
            self.useFixture(fixtures.Timeout(seconds, gentle=True))
        self.name = self.id().rpartition('.')[2]
        self.addOnException(self._on_exception)
        connection()

    def floating(self, size: int) -> str:
        """A guest without a NUMA topology.

        :param size: its memory in bytes, which it gets when it starts
        """
        return _GUEST.format(
            name=self.name,
            kib=size >> 10,
            backing=_ALL_AT_ONCE,
            numatune='',
            cpu='',
        )

    def affined(self, size: int, node: int, huge: bool) -> str:
        """A guest with one cell on a host node, as Nova writes it.

        :param size: its memory in bytes, which it gets when it starts
        """
        kib = size >> 10
        return _GUEST.format(
            name=self.name,
            kib=kib,
            backing=_HUGE_PAGES if huge else _ALL_AT_ONCE,
            numatune=_NUMATUNE.format(node=node),
            cpu=_CPU.format(kib=kib),
        )

    def start(self, xml: str) -> process.Process:
        """Start a guest, which ends with the test."""
        domain = connection().createXML(xml)
        self.addCleanup(domain.destroy)
        return process.Process(int(self._pid_file().read_text()))

    def pool(self, node: int, pages: int) -> None:
        """Give a node huge pages of 2 MiB until the test is over."""
        self.addCleanup(host.resize_pool, node, 0)
        self.assertEqual(pages, host.resize_pool(node, pages))

    def squeeze(self, node: int, leave: int) -> None:
        """Take memory of a node until the test is over.

        :param leave: bytes to leave free, more or less
        """
        host.drop_caches()
        self.addCleanup(host.resize_pool, node, 0)
        host.resize_pool(node, (host.free(node) - leave) // host.HUGE)
        self.assertLess(host.free(node), leave + 32 * host.MIB)

    def watch(self, size: int) -> 'Watch':
        """Look at the memory of the guest that is being started."""
        watch = Watch(self._pid_file(), size)
        self.addCleanup(watch.stop)
        return watch

    def _pid_file(self) -> pathlib.Path:
        return _PIDS / f'{self.name}.pid'

    def _on_exception(self, exc_info: Any) -> None:
        """Show what QEMU and libvirtd had to say."""
        for log in (_LOGS / 'qemu' / f'{self.name}.log', _LIBVIRTD_LOG):
            with contextlib.suppress(FileNotFoundError):
                lines = log.read_text(errors='replace').splitlines()[-40:]
                self.addDetail(
                    str(log), content.text_content('\n'.join(lines))
                )


class Watch:
    """Where the memory of a guest has been while it was starting.

    :param pid_file: where libvirtd writes the guest's process id
    :param size: of the guest's memory, in bytes
    """

    def __init__(self, pid_file: pathlib.Path, size: int) -> None:
        self.seen: list[dict[int, int]] = []
        self._pid_file = pid_file
        self._size = size
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stop(self) -> list[dict[int, int]]:
        """Look no more, and tell the pages by node of every look."""
        self._stopped.set()
        self._thread.join()
        return self.seen

    def _look(self) -> None:
        while not self._stopped.wait(0.05):
            # There may be no process yet, or no longer.
            with contextlib.suppress(OSError, ValueError):
                pid = int(self._pid_file.read_text())
                ram = process.Process(pid).ram(self._size)
                if ram is not None and ram.pages:
                    self.seen.append(ram.pages)
