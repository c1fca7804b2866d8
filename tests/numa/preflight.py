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

"""What this machine must have before it can emulate another."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sysconfig

# Next to the Python that runs this, where pip has put it.
VNG = pathlib.Path(sysconfig.get_path('scripts')) / 'vng'

# bindep.txt lists the packages. The last one makes the names of the ports
# through which the machine and vng talk.
_PROGRAMS = ('qemu-system-x86_64', 'libvirtd', 'busybox', 'udevadm')

# Modules by which the machine sees the files of this one.
_MODULES = ('9p', '9pnet_virtio', 'overlay')

_BOOT = pathlib.Path('/boot')
_LIB_MODULES = pathlib.Path('/lib/modules')


class MissingError(Exception):
    """Something that cannot be done without; the message says what."""


def check() -> None:
    """Look for what the machine needs, its kernel excepted.

    :raises MissingError: names all that is missing
    """
    if platform.machine() != 'x86_64':
        raise MissingError(
            f'the machine is an x86_64, not {platform.machine()}'
        )
    missing = [
        f'{program} (bindep.txt lists the packages)'
        for program in _PROGRAMS
        if shutil.which(program) is None
    ]
    if shutil.which('busybox') and not _is_static('busybox'):
        missing.append('a busybox without shared libraries (busybox-static)')
    if not VNG.exists():
        missing.append(f'{VNG} (tests/numa/requirements.txt)')
    if os.geteuid():
        missing.append('the rights of root')
    if missing:
        raise MissingError(f'the machine needs {"; ".join(missing)}')


def newest_kernel() -> pathlib.Path:
    """The newest kernel that can use this machine's files.

    Kernels that distributions make for their clouds may lack the modules.

    :raises MissingError: there is none
    """
    usable = [
        image
        for image in _BOOT.glob('vmlinuz-*')
        if _has_modules(image.name.removeprefix('vmlinuz-'))
    ]
    if not usable:
        raise MissingError(
            f'the machine needs a kernel in {_BOOT} and its modules '
            f'{", ".join(_MODULES)} (bindep.txt lists the package)'
        )
    return max(usable, key=lambda image: _numbers(image.name))


def _has_modules(version: str) -> bool:
    folder = _LIB_MODULES / version
    known = ''
    for name in ('modules.dep', 'modules.builtin'):
        if (folder / name).exists():
            known += (folder / name).read_text()
    return all(
        re.search(rf'/{name}\.ko\b', known, re.MULTILINE) for name in _MODULES
    )


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r'\d+', name)]


def _is_static(program: str) -> bool:
    found = shutil.which(program)
    done = subprocess.run(['ldd', str(found)], capture_output=True)
    return done.returncode != 0
