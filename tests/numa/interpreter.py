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

"""A Python that runs on a machine with several NUMA nodes.

stestr runs the Python that the environment variable PYTHON names: once to
list the tests, which needs no other machine, and once to run them.
"""

import argparse
import os
import pathlib
import signal
import sys

from tests.numa import machine


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f'python -m {__name__}', description=__doc__
    )
    parser.add_argument('--kernel', type=pathlib.Path, required=True)
    parser.add_argument('--nodes', type=int, required=True)
    parser.add_argument('--timeout', type=int, required=True)
    parser.add_argument('--verbose', action='store_true')
    parser.add_argument('words', nargs='+', help="Python's own arguments")
    return parser


def main() -> int:
    args = _parser().parse_args()
    words = [sys.executable, *args.words]
    if '--list' in words:
        os.execv(sys.executable, words)
    # Let SIGTERM run what ends the machine.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return machine.run(
        machine.Machine(args.kernel, args.nodes),
        words,
        timeout=args.timeout,
        verbose=args.verbose,
    )


if __name__ == '__main__':
    sys.exit(main())
