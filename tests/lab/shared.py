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

"""The lab that all tests of a run share.

It is brought up for the first test, and taken down when the run ends. If the
environment variable OS_LAB_DIR names the folder of a lab that is up, as
``python -m tests.lab up`` makes it, the tests use that one, and leave it up.
"""

import atexit
import os
import pathlib
import shutil
import signal
import sys
import tempfile

from tests.lab.stack import client, errors, hugepages, rest, stack

VARIABLE = 'OS_LAB_DIR'

# 2 MiB pages of the guests that have huge pages.
PAGES = 32
TINY = 8


class Lab:
    """A stack, and what the tests of a run have in common on it."""

    def __init__(self, the_stack: stack.Stack) -> None:
        self.stack = the_stack
        self.client = client.Client(rest.Rest(the_stack.basics))
        self.failed = False
        name = f'test-{os.getpid()}'
        self.image = self.client.image(name, bytes(1 << 20))

        def flavor(
            kind: str, memory: int, specs: dict[str, str], vcpus: int = 1
        ) -> str:
            return self.client.flavor(f'{name}-{kind}', memory, specs, vcpus)

        huge = {'hw:mem_page_size': '2048'}
        self.floating = flavor('floating', 2 * PAGES, {})
        self.huge_shared = flavor('huge-shared', 2 * PAGES, huge)
        self.huge_pinned = flavor(
            'huge-pinned', 2 * PAGES, {'hw:cpu_policy': 'dedicated', **huge}
        )
        self.huge_tiny = flavor('huge-tiny', 2 * TINY, huge)
        # A size that no other mapping of QEMU has.
        self.small_page_memory = 96
        self.small_page = flavor(
            'small-page', self.small_page_memory, {'hw:numa_nodes': '1'}
        )
        self.two_cells = flavor(
            'two-cells', 2 * PAGES, {'hw:numa_nodes': '2'}, vcpus=2
        )


_lab: Lab | None = None
_failure: BaseException | None = None


def lab() -> Lab:
    """The lab of this run.

    :raises LabError: it did not come up
    """
    global _lab, _failure
    if _failure is not None:
        raise errors.LabError(f'there is no lab: {_failure}')
    if _lab is None:
        try:
            _lab = _find() or _make()
        except BaseException as exc:
            _failure = exc
            raise
    return _lab


def start_host(name: str) -> None:
    """Start a host that was not started with the lab.

    :raises LabError: it does not start
    """
    try:
        lab().stack.start_host(name)
    except BaseException:
        lab().failed = True
        raise


def stop_host(name: str) -> None:
    """Stop a host, and have Nova forget it.

    :raises LabError: something is left
    """
    lab().stack.stop_host(name)


def _find() -> Lab | None:
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    hugepages.lock()
    the_stack = stack.Stack.load(folder)
    atexit.register(the_stack.run_with, {})
    return Lab(the_stack)


def _make() -> Lab:
    folder = pathlib.Path(tempfile.mkdtemp(prefix='lab-'))
    the_stack = stack.Stack.up(folder)
    atexit.register(_end, the_stack)
    # atexit does nothing for a process that a signal ends.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    return Lab(the_stack)


def _end(the_stack: stack.Stack) -> None:
    the_stack.down()
    keep = ('etc', 'log') if _lab is None or _lab.failed else ()
    for entry in the_stack.layout.root.iterdir():
        if entry.name in keep:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    if not keep:
        the_stack.layout.root.rmdir()
