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

"""What each compute host has, by its report and Nova's figures."""

import dataclasses
import time
from typing import Any

from nova import context as nova_context
from nova import exception, objects
import nova.conf

from nova_numa_guard import (
    capacity,
    guests,
    isolation,
    occupancy,
    policies,
    report,
)
from nova_numa_guard.cloud import config, hosts, topologies
from nova_numa_guard.scheduler import host_states

CONF = nova.conf.CONF


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """A host, with what is on it.

    :param isolation: in force, whoever asks for it
    :param enforce: whether a guest of the wrong kind is kept off
    :param record: what the host reports; None if it does not
    """

    host: hosts.Host
    isolation: isolation.Isolation
    enforce: bool
    present: occupancy.HostContent
    accepts: frozenset[guests.Kind]
    record: report.Report | None

    @property
    def kinds(self) -> str:
        """In a word."""
        if self.present.mixed:
            return 'mixed'
        for kind in guests.Kind:
            if self.present.of(kind):
                return kind.value
        return 'none'

    @property
    def dominant(self) -> guests.Kind | None:
        """The kind that it has most of, or had when it last looked."""
        return isolation.dominant(
            self.present, self.record.dominant if self.record else None
        )

    @property
    def refused(self) -> list[str]:
        """Pools for want of which it lately refused guests: node:size."""
        return [
            f'{each.node}:{each.page_size}'
            for each in (self.record.refused if self.record else ())
            if each.expires > time.time()
        ]

    @property
    def pages(self) -> dict[int, dict[int, int]]:
        """Free huge pages by size in KiB, and node.

        By the kernel if the host reports them, and else by Nova.
        """
        if self.record and self.record.headroom:
            return {
                size: dict(nodes)
                for size, nodes in self.record.headroom.items()
            }
        return self.free()[1]

    def free(
        self,
    ) -> tuple[dict[int, int], dict[int, dict[int, int]], dict[int, int]]:
        """As capacity.free_in() has it."""
        topology = self.host.state.numa_topology
        return capacity.free_in(
            topologies.host_cells(topology) if topology else ()
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A server on a host.

    :param memory: MiB
    """

    uuid: str
    host: str
    kind: guests.Kind
    memory: int


def of(host: hosts.Host) -> Content:
    """What a host has; it has to have reported."""
    state = host.state
    record = host_states.whole_report_of(state)
    present = host_states.content_of(state, record)
    decision = policies.decide(
        isolation.Isolation(CONF.numa_guard.isolation),
        CONF.numa_guard.isolation_mode == 'enforce',
        host_states.wishes_of(state),
        record.isolation if record else None,
    )
    policy = isolation.Policy(
        decision.isolation,
        isolation.MixedHosts(CONF.numa_guard.mixed_hosts),
        decision.accepts,
        record.dominant if record else None,
    )
    accepts = frozenset(
        kind
        for kind in guests.Kind
        if not decision.enforce
        or isolation.judge(kind, present, policy).passes
    )
    return Content(
        host, decision.isolation, decision.enforce, present, accepts, record
    )


def free(content: Content) -> capacity.Free:
    """What a host has left."""
    state = content.host.state
    room = host_states.capacity_of(state, content.record)
    untied = content.present.untied
    memory, pages, dedicated = content.free()
    return capacity.Free(
        name=content.host.name,
        chosen=not content.host.away,
        accepts=content.accepts,
        floating=(
            room.memory_left(untied) if room else max(0, state.free_ram_mb)
        ),
        vcpus=room.cpus_left(untied) if room else None,
        memory=memory,
        pages=pages,
        dedicated=dedicated,
        content=content.present,
    )


def minority(content: Content) -> list[Server]:
    """The servers of a mixed host that are not of its dominant kind.

    :raises CloudError: the database of its cell does not answer
    """
    name = content.host.name
    with config.reading() as context:
        try:
            mapping = objects.HostMapping.get_by_host(context, name)
        except exception.HostMappingNotFound:
            return []
        with nova_context.target_cell(context, mapping.cell_mapping) as cell:
            found = objects.InstanceList.get_by_host(
                cell, name, expected_attrs=['flavor', 'numa_topology']
            )
            servers = map(_server, found)
            return sorted(
                (
                    each
                    for each in servers
                    if each and each.kind is not content.dominant
                ),
                key=lambda each: each.uuid,
            )


def _server(instance: Any) -> Server | None:
    """None for one that is of no kind."""
    if guests.is_exempt(instance.flavor.extra_specs or {}):
        return None
    return Server(
        instance.uuid,
        instance.host,
        guests.kind_of(instance.numa_topology is not None),
        instance.memory_mb,
    )
