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

"""The guests on a host, told apart by kind.

Pure: figures in, figures out. What a scheduler makes anew for each host of
each request is not frozen, because Python takes four times as long to make
what is; nothing changes it all the same.
"""

import dataclasses

from nova_numa_guard import guests


@dataclasses.dataclass(slots=True, unsafe_hash=True)
class Share:
    """What a number of guests have together.

    :param guests: how many
    :param memory: MiB
    :param vcpus: of their flavors
    """

    guests: int = 0
    memory: int = 0
    vcpus: int = 0

    def __add__(self, other: 'Share') -> 'Share':
        return Share(
            self.guests + other.guests,
            self.memory + other.memory,
            self.vcpus + other.vcpus,
        )


NOBODY = Share()


@dataclasses.dataclass(frozen=True, slots=True)
class Correction:
    """What Nova's figures of a host do not tell a scheduler.

    :param reserved_memory: MiB that the host keeps from all guests
    :param reserved_cpus: CPUs that it keeps from all guests
    :param unseen_memory: MiB of affined guests that no cell of the host's
        topology shows, because it is hidden from Nova
    :param unseen_vcpus: vCPUs of affined guests less the CPUs that the cells
        show; below zero where guests pin more CPUs than they have
    :param exempt_floating: guests of no kind, without a topology
    :param exempt_affined: guests of no kind, with a topology
    """

    reserved_memory: int
    reserved_cpus: int = 0
    unseen_memory: int = 0
    unseen_vcpus: int = 0
    exempt_floating: Share = NOBODY
    exempt_affined: Share = NOBODY


@dataclasses.dataclass(slots=True)
class HostContent:
    """The guests on a host, by kind.

    Exempt guests are of no kind: they have a part in *untied*, which tells
    what is left of the host, and in nothing else.

    :param floating: MiB of the floating guests
    :param affined: MiB of the affined guests
    :param untied: MiB of all guests without a topology; and their vCPUs, if
        the CPUs of the others are known
    :param count: guests on the host; None if they are of both kinds, because
        then it is not known how many are of each
    :param estimated: whether the host has not reported its reserve, so that
        the floating guests are estimated
    """

    floating: int
    affined: int
    untied: Share = dataclasses.field(default=NOBODY, compare=False)
    count: int | None = dataclasses.field(default=None, compare=False)
    estimated: bool = dataclasses.field(default=False, compare=False)

    @property
    def mixed(self) -> bool:
        """Whether there are guests of both kinds."""
        return bool(self.floating and self.affined)

    def of(self, kind: guests.Kind) -> int:
        """MiB of the guests of one kind."""
        return self.floating if kind is guests.Kind.FLOATING else self.affined


def content(
    memory: int,
    vcpus: int,
    guests: int,
    cell_memory: int,
    cell_cpus: int | None,
    correction: Correction,
    reported: bool,
) -> HostContent:
    """Tell a host's guests apart by the memory that they use.

    Nova counts affined guests by cell, and every guest in the total; what is
    left of the total, less the reserve, is floating. (CPUs cannot tell: a
    cell's cpu_usage leaves pinned CPUs out, and a pinned guest may hold more
    CPUs than it has.) A host that has not reported its reserve has floating
    guests if it has guests and no affined ones; among affined ones they are
    believed in only if the vCPUs in use say so as well.

    :param memory: MiB in use, the host's reserve included
    :param vcpus: vCPUs in use, the host's reserve included
    :param guests: guests of either kind, those that are migrating in excluded
    :param cell_memory: MiB that affined guests use of all the host's NUMA
        cells together
    :param cell_cpus: CPUs of theirs, shared and pinned ones together; None
        if nobody needs to know: they tell which guests there are on a host
        that has affined ones and has not reported, and what is left of CPUs
        that only guests without a topology share
    :param correction: what the host has reported, or what is assumed
    :param reported: whether the host itself said so
    """
    fix = correction
    affined = cell_memory + fix.unseen_memory
    floating = memory - affined - fix.reserved_memory
    if floating < 0:
        floating = 0
    cpus = left = 0
    if cell_cpus is not None:
        cpus = cell_cpus + fix.unseen_vcpus
        left = max(0, vcpus - cpus - fix.reserved_cpus)
    if not reported:
        if not guests or (affined and vcpus <= cpus):
            floating = 0
        elif not affined:
            floating = max(1, floating)
    untied = Share(0, floating, left)
    exempt = 0
    if fix.exempt_floating is not NOBODY or fix.exempt_affined is not NOBODY:
        floating = max(0, floating - fix.exempt_floating.memory)
        affined = max(0, affined - fix.exempt_affined.memory)
        exempt = fix.exempt_floating.guests + fix.exempt_affined.guests
    count = None
    if not (floating and affined):
        count = guests - exempt if guests > exempt else 0
    return HostContent(floating, affined, untied, count, not reported)
