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

"""Boot a machine with several NUMA nodes, and run a command in it."""

from collections.abc import Sequence
import contextlib
import dataclasses
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from typing import IO

from tests.numa import preflight

_START = pathlib.Path(__file__).parent / 'inside' / 'start'

_TIMED_OUT = 124  # timeout(1) says so

# Under emulation a clock other than the TSC, and mitigations of what an
# emulated CPU does not suffer from, take as much time as the rest. Modules for
# devices that no test uses take a few seconds of the boot.
_KERNEL_OPTIONS = (
    'tsc=reliable',
    'clocksource=tsc',
    'mitigations=off',
    'audit=0',
    'module_blacklist=kvm,ahci,libata,lpc_ich,i2c_i801,iTCO_wdt,i6300esb,'
    'acpi_cpufreq,powernow_k8,pcspkr,psmouse',
)


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A machine under emulation.

    :param kernel: one whose modules are in /lib/modules
    :param nodes: NUMA nodes, of one CPU each
    :param memory: of each node, in MiB
    """

    kernel: pathlib.Path
    nodes: int = 2
    memory: int = 1024

    def command(self, script: str) -> list[str]:
        """The command line that boots it, runs a script, and ends it.

        :param script: what its shell is to run, as root. It gets there in
            the kernel's command line, which holds 2048 bytes
        """
        words = [
            *(str(preflight.VNG), '--run', str(self.kernel)),
            *('--disable-kvm', '--force-9p', '--user', 'root'),
            *('--cpus', str(self.nodes)),
            *('--memory', f'{self.nodes * self.memory}M'),
        ]
        for node in range(self.nodes):
            words += ['--numa', f'{self.memory}M,cpus={node}']
        for option in _KERNEL_OPTIONS:
            words += ['--append', option]
        # The last of two -smp, and of two -cpu, holds: a socket for each node,
        # and a CPU without vector instructions that are slow to emulate.
        qemu = f'-smp {self.nodes},sockets={self.nodes} -cpu qemu64'
        return [*words, f'--qemu-opts={qemu}', '--exec', script]


def run(
    machine: Machine,
    words: Sequence[str],
    *,
    timeout: int,
    verbose: bool = False,
) -> int:
    """Run a command in a machine, with the input and output of this process.

    timeout(1) leads a process group with all of the machine, and ends it in
    time even if this process is killed.

    :param timeout: seconds
    :param verbose: whether to print the kernel's messages as well
    :returns: the exit code of the command, or of what did not get to its end
    """
    command = machine.command(shlex.join([str(_START), *words]))
    if verbose:
        command.append('--verbose')
    with tempfile.TemporaryDirectory(prefix='numa-') as folder:
        process = subprocess.Popen(
            ['timeout', '--kill-after=10', str(timeout), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, 'PATH': _path(), 'TMPDIR': folder},
        )
        assert process.stdout is not None
        assert process.stderr is not None
        # QEMU opens its output anew, and would truncate a file.
        copier = threading.Thread(
            target=_copy, args=(process.stderr, sys.stderr.buffer)
        )
        copier.start()
        try:
            _copy(process.stdout, sys.stdout.buffer)
            code = process.wait()
        finally:
            _end(process)
            copier.join()
    if code == _TIMED_OUT:
        print(  # noqa: T201
            f'The machine was ended after {timeout} seconds', file=sys.stderr
        )
    return code


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy what comes, when it comes."""
    while some := os.read(source.fileno(), 1 << 16):
        target.write(some)
        target.flush()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process group of a timeout(1), if it is still there."""
    if process.poll() is None:
        process.terminate()  # and it passes the signal on
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _path() -> str:
    """Where vng finds its other half, beside itself."""
    return f'{preflight.VNG.parent}{os.pathsep}{os.environ.get("PATH", "")}'
