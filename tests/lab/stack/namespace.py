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

"""Turn this machine into a compute host of a lab, and start its libvirtd.

Run as a script, in a mount and a UTS namespace of its own. The only argument
is JSON::

    {
        "hostname": NAME,
        "binds": [[SOURCE, TARGET], ...],
        "hugetlbfs": OPTIONS OF THE MOUNT,
        "cgroup": NAME,
        "command": [WORD, ...]
    }
"""

import json
import os
import pathlib
import socket
import subprocess
import sys

HUGETLBFS = pathlib.Path('/dev/hugepages')


def main(text: str) -> None:
    spec = json.loads(text)
    socket.sethostname(spec['hostname'])
    for source, target in spec['binds']:
        if not os.path.exists(target):
            # All hosts begin at once, and this is seen by all.
            os.makedirs(target, exist_ok=True)
        _mount('--bind', source, target)
    _hide_dbus()
    _mount_hugetlbfs(spec['hugetlbfs'])
    for controller in cgroup_mounts():
        _own_machine_cgroup(controller, spec['cgroup'])
    command = spec['command']
    os.execvp(command[0], command)


def _mount_hugetlbfs(options: str) -> None:
    """Leave one hugetlbfs, so that no other has room that ours has not."""
    for kind, place in _mounts():
        if kind == 'hugetlbfs':
            subprocess.run(['umount', place], check=True)
    HUGETLBFS.mkdir(exist_ok=True)
    _mount('-t', 'hugetlbfs', '-o', options, 'none', str(HUGETLBFS))


def _hide_dbus() -> None:
    """Keep libvirtd from asking systemd for the cgroups of its guests.

    systemd would see all hosts' guests as those of one machine, and two of
    them may have the same name.
    """
    folder = pathlib.Path('/run/dbus')
    if folder.is_dir():
        _mount('-t', 'tmpfs', 'none', str(folder))


def _own_machine_cgroup(top: pathlib.Path, name: str) -> None:
    """Give libvirtd a cgroup below which it makes those of its guests.

    During a live migration there is a guest of the same name on both hosts,
    with the same number if both hosts have started equally many.
    """
    machine = top / 'machine'
    own = machine / name
    for folder in (machine, own):
        folder.mkdir(exist_ok=True)
        if (folder / 'cgroup.controllers').exists():
            _pass_on_controllers(folder.parent)
        else:
            _inherit_cpuset(folder)
    _mount('--bind', str(own), str(machine))


def _pass_on_controllers(folder: pathlib.Path) -> None:
    """Let the children of a cgroup of version 2 use what it may use."""
    usable = (folder / 'cgroup.controllers').read_text().split()
    (folder / 'cgroup.subtree_control').write_text(
        ' '.join(f'+{controller}' for controller in usable)
    )


def _inherit_cpuset(folder: pathlib.Path) -> None:
    """Let a new cgroup of version 1 have CPUs and nodes, if it is of those."""
    for name in ('cpuset.cpus', 'cpuset.mems'):
        setting = folder / name
        if setting.exists() and not setting.read_text().strip():
            setting.write_text((folder.parent / name).read_text())


def cgroup_mounts() -> list[pathlib.Path]:
    """Where the controllers of cgroups are."""
    return [
        pathlib.Path(place)
        for kind, place in _mounts()
        if kind in ('cgroup', 'cgroup2')
    ]


def _mounts() -> list[tuple[str, str]]:
    """Type and place of every mount."""
    lines = pathlib.Path('/proc/self/mounts').read_text().splitlines()
    return [(fields[2], fields[1]) for fields in map(str.split, lines)]


def _mount(*words: str) -> None:
    subprocess.run(['mount', *words], check=True)


if __name__ == '__main__':
    main(sys.argv[1])
