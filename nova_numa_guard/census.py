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

"""The guests of one compute host, one by one, and summed.

Pure: guests in, figures out.
"""

from collections.abc import Iterable
import dataclasses

from nova_numa_guard import guests, occupancy


@dataclasses.dataclass(frozen=True, slots=True)
class HostGuest:
    """A guest that a host has, or is about to have.

    :param uuid: of the Nova instance
    :param tied: whether it has a NUMA topology
    :param exempt: whether its flavor makes it one of no kind
    :param memory: MiB
    :param vcpus: of its flavor
    :param small_memory: MiB of small pages, by host NUMA node; of affined
        guests only
    :param arriving: whether it is being built, unshelved or evacuated here,
        so that the host must still admit it
    """

    uuid: str
    tied: bool
    exempt: bool
    memory: int
    vcpus: int
    small_memory: tuple[tuple[int, int], ...] = ()
    arriving: bool = False

    @property
    def kind(self) -> guests.Kind | None:
        """Its kind; None if it is exempt."""
        return None if self.exempt else guests.kind_of(self.tied)


@dataclasses.dataclass(frozen=True, slots=True)
class Tally:
    """The guests of a host, summed by what they are."""

    floating: occupancy.Share
    affined: occupancy.Share
    exempt_floating: occupancy.Share
    exempt_affined: occupancy.Share

    @property
    def tied(self) -> occupancy.Share:
        """All guests with a topology."""
        return self.affined + self.exempt_affined

    @property
    def untied(self) -> occupancy.Share:
        """All guests without one."""
        return self.floating + self.exempt_floating


def tally(found: Iterable[HostGuest]) -> Tally:
    """Sum guests."""
    sums = {
        (tied, exempt): occupancy.NOBODY
        for tied in (False, True)
        for exempt in (False, True)
    }
    for guest in found:
        sums[guest.tied, guest.exempt] += occupancy.Share(
            1, guest.memory, guest.vcpus
        )
    return Tally(
        floating=sums[False, False],
        affined=sums[True, False],
        exempt_floating=sums[False, True],
        exempt_affined=sums[True, True],
    )


def content(found: Iterable[HostGuest]) -> occupancy.HostContent:
    """What isolation judges of a host whose guests are known one by one."""
    sums = tally(found)
    mixed = sums.floating.guests and sums.affined.guests
    return occupancy.HostContent(
        sums.floating.memory,
        sums.affined.memory,
        untied=sums.untied,
        count=None if mixed else sums.floating.guests + sums.affined.guests,
    )


def small_memory(found: Iterable[HostGuest], nodes: Iterable[int]) -> int:
    """MiB of small pages that affined guests have on some host nodes."""
    wanted = set(nodes)
    return sum(
        memory
        for guest in found
        for node, memory in guest.small_memory
        if node in wanted
    )
