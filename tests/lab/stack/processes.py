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

"""The processes of a lab: start, wait, stop."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import logging
import os
import pathlib
import signal
import subprocess
import threading
import time

from tests.lab.stack import errors, layout

LOG = logging.getLogger(__name__)

Words = Sequence[str | os.PathLike[str]]

_PROC = pathlib.Path('/proc')

# An environment variable that every process of a lab inherits.
_MARK = 'NUMA_GUARD_LAB'


@dataclasses.dataclass(frozen=True, slots=True)
class Stat:
    """What the kernel tells of a process.

    :param group: the pid of the process that leads its process group
    :param started: when it started, in clock ticks since boot
    """

    pid: int
    group: int
    started: int


def stat(pid: int) -> Stat | None:
    """Look at a process; None if there is none, or only its exit code."""
    try:
        text = (_PROC / str(pid) / 'stat').read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is a name in parentheses, with anything in it.
    fields = text.rpartition(')')[2].split()
    if fields[0] in 'ZX':
        return None
    return Stat(pid, group=int(fields[2]), started=int(fields[19]))


def everybody() -> Iterator[Stat]:
    """Every process of the machine."""
    for entry in os.listdir(_PROC):
        found = stat(int(entry)) if entry.isdigit() else None
        if found:
            yield found


def poll(
    ready: Callable[[], bool], seconds: float, interval: float = 0.1
) -> bool:
    """Wait for something; False if it did not happen in time."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            return False
        time.sleep(interval)
    return True


class Processes:
    """What runs in a lab, each with a log and a process group of its own.

    A file with the pid and the time of its start tells each of them from a
    process that has got the same pid later.
    """

    def __init__(self, layout: layout.Layout) -> None:
        self._layout = layout
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._given_up = threading.Event()

    def give_up(self) -> None:
        """Let every wait, in whatever thread, fail at once."""
        self._given_up.set()

    def start(
        self, name: str, words: Words, env: Mapping[str, str] | None = None
    ) -> None:
        """Start a process, and leave it running."""
        if self._given_up.is_set():
            raise errors.LabError(f'{name} is not started any more')
        with self._layout.log(name).open('ab') as log:
            child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                cwd=self._layout.root,
                env=self._environment(env),
            )
        self._children[name] = child
        found = stat(child.pid)
        self._file(name).write_text(
            f'{child.pid} {found.started if found else 0}\n'
        )

    def run(
        self, name: str, words: Words, env: Mapping[str, str] | None = None
    ) -> None:
        """Run a command to its end.

        :raises LabError: it failed
        """
        self.start(name, words, env)
        self.wait_for(name, lambda: self.exit_code(name) is not None, 300)
        code = self.exit_code(name)
        self._file(name).unlink()
        if code:
            raise errors.LabError(
                f'{name} failed ({code}), see {self._layout.log(name)}'
            )

    def wait_for(
        self,
        name: str,
        ready: Callable[[], bool],
        seconds: float = 180,
    ) -> None:
        """Wait until a process that was started is ready.

        :raises LabError: it has ended, or is not ready in time
        """
        log = self._layout.log(name)

        def settled() -> bool:
            return (
                self._given_up.is_set()
                or ready()
                or self.exit_code(name) is not None
            )

        in_time = poll(settled, seconds)
        if self._given_up.is_set():
            raise errors.LabError(f'no longer waiting for {name}')
        if not in_time:
            raise errors.LabError(
                f'{name} is not ready after {seconds} s, see {log}'
            )
        if not ready():
            raise errors.LabError(
                f'{name} has ended ({self.exit_code(name)}), see {log}'
            )

    def exit_code(self, name: str) -> int | None:
        """What a process ended with; None if it runs, or was not ours."""
        child = self._children.get(name)
        return child.poll() if child else None

    def pid(self, name: str) -> int | None:
        """The pid of a process that runs."""
        recorded = self._recorded(name)
        found = stat(recorded[0]) if recorded else None
        if recorded and found and found.started == recorded[1]:
            return found.pid
        return None

    def names(self) -> list[str]:
        """The processes that were started, and not stopped again."""
        return sorted(f.stem for f in self._layout.path('run').glob('*.pid'))

    def hang_up(self, name: str) -> None:
        """Send SIGHUP, for a service to read its options anew."""
        pid = self.pid(name)
        if pid is None:
            raise errors.LabError(f'{name} does not run')
        os.kill(pid, signal.SIGHUP)

    def stop(self, names: Sequence[str], seconds: float = 15) -> None:
        """End processes, and whatever they started in their groups."""
        for name in names:
            for pid in self._members(name):
                _kill(pid, signal.SIGTERM)
        end = time.monotonic() + seconds
        for name in names:
            is_gone = functools.partial(self._is_gone, name)
            poll(is_gone, end - time.monotonic())
            members = self._members(name)
            for pid in members:
                LOG.debug('%s does not end, killing %d', name, pid)
                _kill(pid, signal.SIGKILL)
            if not poll(is_gone, 10):
                raise errors.LabError(f'{name} cannot be stopped')
            self._file(name).unlink(missing_ok=True)
            self._children.pop(name, None)

    def kill(self, name: str) -> None:
        """Kill a process, and whatever it started in its group.

        :raises LabError: it is still there
        """
        if not kill_all(
            lambda: [] if self._is_gone(name) else self._members(name)
        ):
            raise errors.LabError(f'{name} cannot be killed')

    def _is_gone(self, name: str) -> bool:
        self.exit_code(name)  # collects the exit code of a child
        return not self._members(name)

    def _members(self, name: str) -> list[int]:
        """The processes of the group that a process leads."""
        recorded = self._recorded(name)
        if recorded is None:
            return []
        pid, started = recorded
        leader = stat(pid)
        if leader and leader.started != started:
            return []  # a pid is only given anew once the group is gone
        return [p.pid for p in everybody() if p.group == pid]

    def _recorded(self, name: str) -> tuple[int, int] | None:
        try:
            pid, started = self._file(name).read_text().split()
        except (FileNotFoundError, ValueError):
            return None
        return int(pid), int(started)

    def _file(self, name: str) -> pathlib.Path:
        return self._layout.path('run', f'{name}.pid')

    def clear(self) -> None:
        """Kill what has left its group, such as a daemon.

        :raises LabError: something is left
        """
        if not kill_all(self._strays):
            raise errors.LabError(f'processes {self._strays()} are left')

    def _strays(self) -> list[int]:
        """The processes in whose environment is the mark of this lab."""
        mark = f'{_MARK}={self._layout.root}'.encode()
        found = []
        for process in everybody():
            if process.pid == os.getpid():
                continue
            with contextlib.suppress(OSError):
                path = _PROC / str(process.pid) / 'environ'
                if mark in path.read_bytes().split(b'\0'):
                    found.append(process.pid)
        return found

    def _environment(self, more: Mapping[str, str] | None) -> dict[str, str]:
        """Ours, without what would change options or lead to a proxy."""
        return {
            **{
                name: value
                for name, value in os.environ.items()
                if not name.startswith(('OS_', 'PYTHON'))
                and not name.lower().endswith('_proxy')
            },
            'PYTHONUNBUFFERED': '1',
            _MARK: str(self._layout.root),
            **(more or {}),
        }


def _kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def kill_all(find: Callable[[], Sequence[int]], seconds: float = 10) -> bool:
    """Kill processes until none is found; False if some will not go."""

    def none_left() -> bool:
        pids = find()
        for pid in pids:
            _kill(pid, signal.SIGKILL)
        return not pids

    return poll(none_left, seconds)
