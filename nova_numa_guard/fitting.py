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

"""What a guest's NUMA cells lack on a host's.

Pure: cells in, words out. Whether a guest fits Nova decides
(nova.virt.hardware.numa_fit_instance_to_host), which does not say why it does
not. The conditions here are those of its ``_numa_fit_instance_cell``, all of
them looked at rather than the first. Where threads have to be packed on cores,
where PCI devices and networks are, it knows nothing.
"""

from collections.abc import Sequence
import dataclasses
import enum

# What Nova writes for a page size that is not a number of KiB.
SMALL, LARGE, ANY = -1, -2, -3


@dataclasses.dataclass(frozen=True, slots=True)
class Pages:
    """The pages of one size in a host cell.

    :param size: KiB
    :param claimed: by guests
    :param reserved: those that Nova gives to no guest
    """

    size: int
    total: int
    claimed: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        return self.total - self.claimed - self.reserved


@dataclasses.dataclass(frozen=True, slots=True)
class HostCell:
    """A NUMA cell of a host, with what affined guests have of it.

    :param pages: by size, small ones first; empty if the host has none
    :param memory: MiB, and *memory_claimed* of it
    :param shared: CPUs that guests share, and *shared_claimed* by their vCPUs
    :param dedicated: CPUs for one guest each, and *pinned* of them
    """

    id: int
    pages: tuple[Pages, ...]
    memory: int
    memory_claimed: int = 0
    shared: int = 0
    shared_claimed: int = 0
    dedicated: int = 0
    pinned: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class GuestCell:
    """A NUMA cell of a guest that looks for a host.

    :param memory: MiB
    :param page_size: KiB, or SMALL, LARGE, ANY; None if none was asked for
    :param shared: vCPUs on shared CPUs
    :param dedicated: vCPUs on CPUs of their own
    :param overhead: CPUs of its own for the emulator's threads
    :param pins: whether its CPU policy is ``dedicated`` or ``mixed``
    :param shares: whether it is ``shared`` or ``mixed``
    """

    id: int
    memory: int
    page_size: int | None = None
    shared: int = 0
    dedicated: int = 0
    overhead: int = 0
    pins: bool = False
    shares: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Ratios:
    """How often a CPU, and a MiB, may be given out to guests that share."""

    cpu: float = 1.0
    ram: float = 1.0


class What(enum.Enum):
    """What a cell may lack."""

    PAGES = 'pages'
    MEMORY = 'memory'
    SHARED = 'shared CPUs'
    DEDICATED = 'dedicated CPUs'


@dataclasses.dataclass(frozen=True, slots=True)
class Lack:
    """What a host cell lacks for a guest cell.

    :param text: with what is needed, and what is available
    :param page_size: KiB, of PAGES
    """

    what: What
    text: str
    page_size: int = 0

    @property
    def short(self) -> str:
        """In few words, to count hosts by."""
        if self.what is not What.PAGES:
            return f'short of {self.what.value}'
        if self.page_size <= 0:
            return 'short of huge pages'
        return f'short of {self.page_size} KiB pages'


@dataclasses.dataclass(frozen=True, slots=True)
class Fit:
    """What is known of a guest on a host.

    :param fits: nothing that is looked at here is in the way
    :param short: else the reason in few words
    :param text: and in all
    """

    fits: bool
    short: str = ''
    text: str = ''


def fit(
    guest: Sequence[GuestCell], host: Sequence[HostCell], ratios: Ratios
) -> Fit:
    """Why a guest does not fit a host; each of its cells needs one there."""
    if len(guest) > len(host):
        return Fit(
            False,
            'short of NUMA cells',
            f'NUMA cells: needed {len(guest)}, the host has {len(host)}',
        )
    found = {
        (mine.id, theirs.id): lacks(mine, theirs, ratios)
        for mine in guest
        for theirs in host
    }
    for mine in guest:
        here = [(theirs.id, found[mine.id, theirs.id]) for theirs in host]
        if all(lacking for _, lacking in here):
            _, nearest = min(here, key=lambda each: len(each[1]))
            return Fit(
                False,
                nearest[0].short,
                f'guest cell {mine.id}: '
                + '; '.join(
                    f'host cell {cell}: '
                    + ', '.join(lack.text for lack in lacking)
                    for cell, lacking in here
                ),
            )
    suits = {
        mine.id: [t.id for t in host if not found[mine.id, t.id]]
        for mine in guest
    }
    if _matched(suits) == len(guest):
        return Fit(True)
    first = min(suits, key=lambda cell: (len(suits[cell]), cell))
    missing = next(
        found[first, theirs.id] for theirs in host if found[first, theirs.id]
    )
    return Fit(
        False,
        missing[0].short,
        'each guest cell fits some host cell, but not all at once: '
        + ', '.join(
            f'guest cell {mine} fits host cell {" or ".join(map(str, cells))}'
            for mine, cells in suits.items()
        ),
    )


def lacks(guest: GuestCell, host: HostCell, ratios: Ratios) -> list[Lack]:
    """All that a host cell lacks for a guest cell."""
    found = _memory(guest, host)
    if guest.pins:
        found += _dedicated(guest, host)
    if guest.shares:
        found += _shared(guest, host, ratios)
    return found


def _memory(guest: GuestCell, host: HostCell) -> list[Lack]:
    sizes = {pages.size: pages for pages in host.pages}
    if guest.page_size is None and not host.pages:
        free = host.memory - (host.memory_claimed if guest.pins else 0)
        if guest.memory <= free:
            return []
        return [_short_of_memory(guest.memory, free)]
    if guest.page_size is None:
        small = sizes[min(sizes)]
        return _pages(guest, small, small.free if guest.pins else small.total)
    ordered = sorted(sizes, reverse=True)
    wanted = {SMALL: ordered[-1:], LARGE: ordered[:-1], ANY: ordered}.get(
        guest.page_size, [guest.page_size]
    )
    tried: list[Lack] = []
    for size in wanted:
        if size not in sizes:
            tried.append(
                Lack(What.PAGES, f'it has no pages of {size} KiB', size)
            )
            continue
        lacking = _pages(guest, sizes[size], sizes[size].free)
        if not lacking:
            return []
        tried += lacking
    if not tried:
        return [Lack(What.PAGES, 'it has no huge pages')]
    if len(tried) == 1:
        return tried
    return [Lack(What.PAGES, ' and '.join(each.text for each in tried))]


def _pages(guest: GuestCell, pages: Pages, free: int) -> list[Lack]:
    """
    :param free: pages that count as such
    """
    memory = guest.memory * 1024
    if memory % pages.size:
        return [
            Lack(
                What.PAGES,
                f'{guest.memory} MiB are no whole number of pages of '
                f'{pages.size} KiB',
                pages.size,
            )
        ]
    needed = memory // pages.size
    if needed <= free:
        return []
    return [
        Lack(
            What.PAGES,
            f'pages of {pages.size} KiB: needed {needed}, available '
            f'{max(0, free)} ({pages.total} in all, {pages.claimed} claimed, '
            f'{pages.reserved} reserved)',
            pages.size,
        )
    ]


def _dedicated(guest: GuestCell, host: HostCell) -> list[Lack]:
    needed = guest.dedicated + guest.overhead
    free = host.dedicated - host.pinned
    if needed <= free:
        return []
    emulator = (
        f' ({guest.overhead} of them for the emulator)'
        if guest.overhead
        else ''
    )
    return [
        Lack(
            What.DEDICATED,
            f'dedicated CPUs: needed {needed}{emulator}, available {free} '
            f'({host.dedicated} in all, {host.pinned} claimed)',
        )
    ]


def _shared(guest: GuestCell, host: HostCell, ratios: Ratios) -> list[Lack]:
    found = []
    limit = host.shared * ratios.cpu
    if guest.shared > host.shared:
        found.append(
            Lack(
                What.SHARED,
                f'shared CPUs: needed {guest.shared}, it has {host.shared}',
            )
        )
    elif host.shared_claimed + guest.shared > limit:
        found.append(
            Lack(
                What.SHARED,
                f'shared CPUs: needed {guest.shared}, available '
                f'{max(0, int(limit) - host.shared_claimed)} ({host.shared} '
                f'in all, given out {ratios.cpu:g} times, '
                f'{host.shared_claimed} claimed)',
            )
        )
    limit = host.memory * ratios.ram
    if host.memory_claimed + guest.memory > limit:
        found.append(
            Lack(
                What.MEMORY,
                f'memory: needed {guest.memory} MiB, available '
                f'{max(0, int(limit) - host.memory_claimed)} ({host.memory} '
                f'in all, given out {ratios.ram:g} times, '
                f'{host.memory_claimed} claimed)',
            )
        )
    return found


def _short_of_memory(needed: int, free: int) -> Lack:
    return Lack(
        What.MEMORY,
        f'memory: needed {needed} MiB, available {max(0, free)}',
    )


def _matched(suits: dict[int, list[int]]) -> int:
    """How many of the guest's cells find a host cell of their own at once."""
    taken: dict[int, int] = {}

    def place(mine: int, tried: set[int]) -> bool:
        for cell in suits[mine]:
            if cell in tried:
                continue
            tried.add(cell)
            if cell not in taken or place(taken[cell], tried):
                taken[cell] = mine
                return True
        return False

    return sum(place(mine, set()) for mine in suits)
