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

"""Run the tests of tests/numa/inside on a machine with several NUMA nodes.

QEMU emulates the machine, so that it needs neither KVM nor such hardware. It
has the kernel of a Debian or Ubuntu package and, for its root, a view of this
machine's own: the same programs, the same Python environment, the same
sources. What it writes is gone when it ends. It needs root, and the packages
that bindep.txt lists for "numa".

Exit codes: 0, the tests passed; 1, they failed, or the machine did; 2, wrong
usage; 77, this machine cannot run it, and the reason is printed. If the
environment variable NUMA_MACHINE_REQUIRED is 1, that is 1 instead of 77.
"""

import argparse
import contextlib
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

from tests.numa import interpreter, preflight

REQUIRED = 'NUMA_MACHINE_REQUIRED'
NOT_RUN = 77


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='python -m tests.numa',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        'regex',
        nargs='*',
        help='run only the tests in whose names one of these is found',
    )
    parser.add_argument(
        '--kernel',
        type=pathlib.Path,
        help='a kernel; the default is the newest of /boot that has modules',
    )
    parser.add_argument(
        '--nodes',
        type=int,
        choices=(2, 4),
        default=2,
        help='NUMA nodes of the machine; the default is %(default)s',
    )
    parser.add_argument(
        '--timeout',
        type=int,
        default=900,
        metavar='SECONDS',
        help='end the machine after so long; the default is %(default)s',
    )
    parser.add_argument(
        '--verbose', action='store_true', help="show the kernel's messages"
    )
    return parser


def main() -> int:
    args = _parser().parse_args()
    try:
        preflight.check()
        kernel = args.kernel or preflight.newest_kernel()
    except preflight.MissingError as exc:
        print(f'Not run: {exc}', flush=True)  # noqa: T201
        return 1 if os.environ.get(REQUIRED) == '1' else NOT_RUN
    python = [
        *(sys.executable, '-m', interpreter.__name__),
        *(f'--kernel={kernel}', f'--nodes={args.nodes}'),
        f'--timeout={args.timeout}',
        *(['--verbose'] if args.verbose else []),
        '--',
    ]
    return _stestr(python, args.regex)


def _stestr(python: list[str], regex: list[str]) -> int:
    """Run stestr, which lists the tests, and has a Python run them."""
    # Let SIGTERM run what ends the machine.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    environment = {
        **os.environ,
        'OS_TEST_PATH': str(pathlib.Path(__file__).parent / 'inside'),
        'PYTHON': shlex.join(python),
    }
    process = subprocess.Popen(
        [sys.executable, '-m', 'stestr', 'run', '--serial', *regex],
        stdin=subprocess.DEVNULL,
        env=environment,
        process_group=0,
    )
    try:
        return min(process.wait(), 1)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process group, and wait until it has ended the machine."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        while True:
            os.killpg(process.pid, 0)
            time.sleep(0.1)


if __name__ == '__main__':
    sys.exit(main())
