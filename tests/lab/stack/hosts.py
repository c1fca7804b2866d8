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

"""Compute hosts: each with a libvirtd, huge pages and disks of its own."""

import contextlib
import json
import os
import pathlib
import pwd
import subprocess
import sys
import uuid

from tests.lab.stack import (
    cells,
    errors,
    hugepages,
    layout,
    namespace,
    plan,
    processes,
)

# What libvirtd keeps where, so that two of them can share one machine.
_FOLDERS = {
    'etc': '/etc/libvirt',
    'run': '/run/libvirt',
    'lib': '/var/lib/libvirt',
    'cache': '/var/cache/libvirt',
    'log': '/var/log/libvirt',
}

_QEMU_USER = 'libvirt-qemu'

_QEMU_CONF = f"""\
user = "root"
group = "root"
security_driver = "none"
stdio_handler = "file"
hugetlbfs_mount = "{namespace.HUGETLBFS}"
"""

# libvirt migrates only between hosts with unlike UUIDs.
_LIBVIRTD_CONF = """\
auth_unix_rw = "none"
host_uuid = "{uuid}"
"""


class ComputeHost:
    """A mount and UTS namespace that libvirtd and nova-compute share.

    Nova takes the name of the compute node from libvirtd, and looks for the
    guests' disks and huge pages where QEMU has them.

    :param cgroup: the name of the cgroup of its guests, unlike any other's
    """

    def __init__(
        self,
        host: plan.Host,
        layout: layout.Layout,
        processes: processes.Processes,
        cgroup: str,
    ) -> None:
        self.host = host
        self.name = host.name
        self.libvirtd = f'libvirtd-{host.name}'
        self._layout = layout
        self._processes = processes
        self._cgroup = cgroup

    def start(self) -> None:
        """Start libvirtd, and let it look at QEMU.

        :raises LabError: it does not start
        """
        top = self._layout.host(self.name, 'libvirt')
        for name in _FOLDERS:
            (top / name).mkdir(parents=True, exist_ok=True)
        (top / 'etc' / 'qemu').mkdir(exist_ok=True)
        (top / 'etc' / 'qemu.conf').write_text(_QEMU_CONF)
        (top / 'etc' / 'libvirtd.conf').write_text(
            _LIBVIRTD_CONF.format(
                uuid=uuid.uuid5(uuid.NAMESPACE_DNS, self.name)
            )
        )
        binds = [(str(top / name), at) for name, at in _FOLDERS.items()]
        binds.append((str(self.instances), str(self._layout.instances)))
        for name, line in _accounts():
            known = pathlib.Path('/etc', name).read_text()
            (top / name).write_text(known + line)
            binds.append((str(top / name), f'/etc/{name}'))
        if self.host.cells:
            tree = self._layout.host(self.name, 'node')
            cells.write(tree, self.host.cells, hugepages.cpus())
            binds.append((str(tree), cells.PLACE))
        size = self.host.hugetlbfs_size
        spec = {
            'hostname': self.name,
            'binds': binds,
            'hugetlbfs': f'pagesize=2M{f",size={size}" if size else ""}',
            'cgroup': self._cgroup,
            'command': ['libvirtd', '--pid-file', str(self._pid_file)],
        }
        self._processes.start(
            self.libvirtd,
            [
                *('unshare', '--mount', '--uts', '--propagation', 'private'),
                *(sys.executable, '-P', namespace.__file__, json.dumps(spec)),
            ],
        )
        self._processes.wait_for(self.libvirtd, self._answers)

    def restart_libvirtd(self) -> None:
        """Kill libvirtd, and start it again beside the guests that run on.

        :raises LabError: it does not start
        """
        # It has to be in the namespace that QEMU and nova-compute are in.
        inside = self.inside('libvirtd', '--pid-file', str(self._pid_file))
        keeper = subprocess.Popen(
            self.inside('sleep', 'infinity'), process_group=0
        )
        try:
            pid = self._processes.pid(self.libvirtd)
            self._processes.kill(self.libvirtd)
            self._processes.start(
                self.libvirtd,
                [
                    word.replace(f'--target={pid}', f'--target={keeper.pid}')
                    for word in inside
                ],
            )
            self._processes.wait_for(self.libvirtd, self._answers)
        finally:
            keeper.kill()
            keeper.wait()

    @property
    def _pid_file(self) -> pathlib.Path:
        return self._layout.host(self.name, 'libvirt') / 'pid'

    @property
    def instances(self) -> pathlib.Path:
        """The disks of the guests on this host."""
        return self._layout.host(self.name, 'instances')

    def qemu_log(self, domain: str) -> pathlib.Path:
        """What QEMU, or libvirtd on its behalf, wrote about a guest."""
        return self._layout.host(
            self.name, 'libvirt', 'log', 'qemu', f'{domain}.log'
        )

    def qemu_pid(self, domain: str) -> int:
        """The process that is a guest."""
        return int(
            self._layout.host(
                self.name, 'libvirt', 'run', 'qemu', f'{domain}.pid'
            ).read_text()
        )

    def inside(self, *words: str) -> list[str]:
        """A command line that runs a command in this host.

        :raises LabError: the host is not up
        """
        pid = self._processes.pid(self.libvirtd)
        if pid is None:
            raise errors.LabError(f'{self.libvirtd} does not run')
        return [
            *('nsenter', '--mount', '--uts', f'--target={pid}'),
            *(f'--wd={self._layout.root}', *words),
        ]

    def virsh(self, *words: str) -> str:
        """What virsh(1) prints.

        :raises LabError: it failed
        """
        done = subprocess.run(
            self._virsh(*words), capture_output=True, text=True, timeout=60
        )
        if done.returncode:
            raise errors.LabError(done.stderr.strip())
        return done.stdout

    def domains(self) -> list[str]:
        """The names of the guests that are defined."""
        return self.virsh('list', '--all', '--name').split()

    def _answers(self) -> bool:
        """Whether libvirtd has looked at QEMU, which it does when asked."""
        if not self._layout.libvirt_socket(self.name).exists():
            return False
        try:
            self.virsh('domcapabilities', '--virttype=qemu')
        except errors.LabError:
            return False
        return True

    def _virsh(self, *words: str) -> list[str]:
        return [
            *('virsh', '--connect', self._layout.libvirt_uri(self.name)),
            *words,
        ]

    def members(self) -> list[int]:
        """The processes in this host: those that see its /run/libvirt."""
        own = self._layout.host(self.name, 'libvirt', 'run')
        found = []
        for process in processes.everybody():
            seen = f'/proc/{process.pid}/root{_FOLDERS["run"]}'
            with contextlib.suppress(OSError):
                if os.path.samefile(seen, own):
                    found.append(process.pid)
        return found

    def clear(self) -> None:
        """Kill what is left of the host: guests outlive their libvirtd.

        :raises LabError: something is left
        """
        if not processes.kill_all(self.members):
            raise errors.LabError(
                f'processes {self.members()} of {self.name} cannot be killed'
            )
        for top in namespace.cgroup_mounts():
            _remove_cgroup(top / 'machine' / self._cgroup)
            with contextlib.suppress(OSError):  # others may have theirs there
                (top / 'machine').rmdir()


def _accounts() -> list[tuple[str, str]]:
    """Lines of /etc/passwd and /etc/group that Debian's libvirtd misses.

    It does not start unless there is the user that QEMU does not run as here,
    which comes with a package that starts a libvirtd for the whole machine.
    """
    try:
        pwd.getpwnam(_QEMU_USER)
    except KeyError:
        return [
            ('passwd', f'{_QEMU_USER}:x:64055:64055::/:/usr/sbin/nologin\n'),
            ('group', f'{_QEMU_USER}:x:64055:\n'),
        ]
    return []


def _remove_cgroup(folder: pathlib.Path) -> None:
    """Remove a cgroup in which no process is, and those below it."""
    for current, _, _ in os.walk(folder, topdown=False):
        os.rmdir(current)
