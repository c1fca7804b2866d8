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

"""What the machine must have before a lab can start."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from tests.lab.stack import broker, config, errors, hugepages

_PROGRAMS = (
    'epmd',
    'libvirtd',
    'mariadb-install-db',
    'mariadbd',
    'mount',
    'my_print_defaults',
    'nsenter',
    'qemu-img',
    'umount',
    'unshare',
    'virsh',
    broker.SERVER,
)

_FIND_GUARD = """\
import importlib.metadata as metadata
assert any(point.name == 'numa_guard'
           for point in metadata.entry_points(group='os_vif'))
"""


def check() -> None:
    """Look for what cannot be started without.

    :raises LabError: names all that is missing
    """
    missing = [
        f'{program} (bindep.txt lists the packages)'
        for program in _PROGRAMS
        if shutil.which(program) is None
    ]
    if os.geteuid():
        missing.append('the rights of root')
    if not hugepages.POOL.is_dir():
        missing.append(f'{hugepages.POOL} (huge pages of 2 MiB)')
    if not (config.PREFIX_ETC / 'nova' / 'api-paste.ini').exists():
        missing.append(f'Nova and the other services in {sys.prefix}')
    elif not _has_guard():
        missing.append(f'nova-numa-guard, installed in {sys.prefix}')
    if missing:
        raise errors.LabError(f'the lab needs {"; ".join(missing)}')
    hugepages.cpus()


def _has_guard() -> bool:
    """Whether it is installed, and not only found in this work tree."""
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [sys.executable, '-P', '-c', _FIND_GUARD],
            cwd=pathlib.Path(elsewhere),
            capture_output=True,
        )
    return done.returncode == 0
