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

"""Reading files that the kernel makes up, some of them often."""

import os
import pathlib
import re
import weakref

# Bytes. A file of sysfs is never longer than a page of the machine
# (Documentation/filesystems/sysfs.rst in the kernel's source).
_CHUNK = 4096


class UnreadableError(Exception):
    """A file of the kernel is missing, or does not hold what it should.

    :param path: the file
    :param reason: in words
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f'cannot read {path}: {reason}')
        self.path = pathlib.Path(path)
        self.reason = reason


class KeptFiles:
    """Files that are opened once and read many times.

    Opening a file of sysfs takes ten times as long as reading it. It is for
    files that stay what they are while they exist, as those of sysfs do; a
    file that another one replaces by name is not noticed. A file of a process
    belongs elsewhere: whoever keeps it keeps the process's id as well.

    Threads may share it. Reads are by position, and a descriptor is closed
    when its last reader lets go of it: its number cannot come to mean another
    file in the middle of a read.

    :param limit: how many descriptors to keep; files beyond it are opened at
        every read. A process may commonly have 1024, and Nova needs most.
    """

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._kept: dict[str, _Descriptor] = {}

    def read(self, path: str) -> str:
        """What the file holds now.

        :raises OSError:
        """
        descriptor = self._kept.get(path)
        if descriptor is not None:
            try:
                return descriptor.read()
            except OSError:
                # ENODEV, where a NUMA node went away. If it came back, its
                # files are others by the same names.
                self._kept.pop(path, None)
        descriptor = _Descriptor(path)
        text = descriptor.read()
        if len(self._kept) < self._limit:
            self._kept[path] = descriptor
        return text

    def close(self) -> None:
        """Let go of every descriptor; the next read opens its file anew."""
        self._kept.clear()


class _Descriptor:
    """An open file, closed with the last reference to it."""

    def __init__(self, path: str) -> None:
        self._number = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._number)

    def read(self) -> str:
        content = chunk = os.pread(self._number, _CHUNK, 0)
        while len(chunk) == _CHUNK:
            chunk = os.pread(self._number, _CHUNK, len(content))
            content += chunk
        return os.fsdecode(content)


def read(path: str) -> str:
    """What a file holds that is not kept open.

    :raises UnreadableError:
    """
    try:
        with open(path, 'rb') as file:
            return os.fsdecode(file.read())
    except OSError as exc:
        raise unreadable(path, exc) from exc


def numbers(
    folder: str, name: re.Pattern[str], optional: bool = False
) -> tuple[int, ...]:
    """The numbers in the names of a folder's entries, in order.

    :param name: of an entry; its first group is the number
    :param optional: whether a folder that is missing is an empty one
    :raises UnreadableError:
    """
    try:
        entries = os.listdir(folder)
    except OSError as exc:
        if optional and isinstance(exc, FileNotFoundError):
            return ()
        raise unreadable(folder, exc) from exc
    matches = map(name.fullmatch, entries)
    return tuple(sorted(int(match[1]) for match in matches if match))


def number(path: str, text: str) -> int:
    """The one number that a file holds.

    :param path: the file, for the error
    :param text: what it holds
    :raises UnreadableError:
    """
    text = text.strip()
    if not (text.isascii() and text.isdigit()):
        raise UnreadableError(path, f'{text[:40]!r} is not a number')
    return int(text)


def unreadable(path: str, exc: OSError) -> UnreadableError:
    """The guard's error for one of the operating system's."""
    return UnreadableError(path, exc.strerror or str(exc))
