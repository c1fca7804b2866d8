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

"""The command ``hosts list``."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nova_numa_guard.cmd import base, cloud

if TYPE_CHECKING:
    from nova_numa_guard.cloud import contents

Table = tuple[Sequence[str], Iterable[Sequence[Any]]]


class List(base.Lister):
    """List the compute hosts, and what guests each has.

    It runs where nova-scheduler does. Guests is the kinds that a host holds:
    floating, affined, mixed or none, and with them MiB of each. Free pages are
    huge ones, by page size in KiB and host NUMA node, as the host last
    reported them. Refused has the pools (node:size) for want of which it
    lately refused guests.

    ``--capacity`` shows what is left, and for whom. Floating is MiB of small
    pages for floating guests, Affined is MiB in pages of any size for affined
    ones. Stranded is what no guest can have that the host takes. Largest cell
    is MiB by page size in KiB. Failover is whether the other hosts have room
    for what the host holds, by sums.

    ``--plan`` shows the servers that are the minority of their host: those
    that isolation by host, with ``mixed_hosts = dominant``, has die out there.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            '--capacity',
            action='store_true',
            help='show what is left on each host, and for whom',
        )
        what.add_argument(
            '--plan',
            action='store_true',
            help='show the servers that are the minority of a mixed host',
        )
        parser.add_argument(
            '--host', metavar='<host>', help='look at this host only'
        )
        cloud.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        with cloud.reading(parsed_args):
            from nova_numa_guard.cloud import contents, hosts

            fleet = hosts.read()
            if parsed_args.host:
                # The others' room counts for its failover.
                fleet.named(parsed_args.host)
            self.remarks += cloud.silent(fleet.silent)
            self.remarks += [
                f'Host {host.name} has not reported yet.'
                for host in fleet.hosts
                if not host.reported
            ]
            found = [contents.of(h) for h in fleet.hosts if h.reported]
            show = _listed
            if parsed_args.capacity:
                show = _capacity
            elif parsed_args.plan:
                show = self._plan
            columns, rows = show(found)
            wanted = {None, parsed_args.host} if parsed_args.host else None
            return columns, [
                row for row in rows if wanted is None or row[0] in wanted
            ]

    def _plan(self, found: list['contents.Content']) -> Table:
        from nova_numa_guard.cloud import contents

        mixed = [each for each in found if each.present.mixed]
        servers = [(each, contents.minority(each)) for each in mixed]
        self.app.stderr.write(
            f'enable dominant: {len(mixed)} of {len(found)} hosts are mixed'
            + (', and these servers are the minority\n' if mixed else '\n')
        )
        return (
            ('Host', 'Dominant', 'Server', 'Kind', 'Memory'),
            [
                (
                    each.host.name,
                    each.dominant.value if each.dominant else '',
                    server.uuid,
                    server.kind.value,
                    server.memory,
                )
                for each, here in servers
                for server in here
            ],
        )


def _listed(found: list['contents.Content']) -> Table:
    return (
        (
            'Host',
            'Zone',
            'Away',
            'Guard',
            'Isolation',
            'Guests',
            'Floating',
            'Affined',
            'Free pages',
            'Refused',
        ),
        [
            (
                each.host.name,
                each.host.zone,
                base.Maybe(each.host.away or None),
                base.Maybe(_guard(each)),
                each.isolation.value + ('' if each.enforce else ' (warn)'),
                each.kinds,
                each.present.floating,
                each.present.affined,
                Pages(_text_keys(each.pages)),
                base.Several(each.refused),
            )
            for each in found
        ],
    )


def _capacity(found: list['contents.Content']) -> Table:
    from nova_numa_guard import capacity
    from nova_numa_guard.cloud import contents

    free = [contents.free(each) for each in found]
    lost = capacity.unplaceable(free)
    return (
        (
            'Host',
            'Away',
            'Accepts',
            'Floating',
            'vCPUs',
            'Affined',
            'Free pages',
            'Dedicated CPUs',
            'Stranded',
            'Stranded CPUs',
            'Largest cell',
            'Failover',
        ),
        [
            (
                each.name,
                base.Maybe(known.host.away or None),
                base.Several(sorted(kind.value for kind in each.accepts)),
                each.floating,
                base.Maybe(each.vcpus),
                each.affined,
                Pages(_text_keys(each.pages)),
                base.Mapped(
                    {str(cell): n for cell, n in each.dedicated.items()}
                ),
                each.stranded,
                each.stranded_cpus,
                base.Mapped(
                    {str(size): n for size, n in each.largest_cell.items()}
                ),
                'no room for '
                + ' and '.join(kind.value for kind in lost[each.name])
                if each.name in lost
                else 'yes',
            )
            for known, each in zip(found, free, strict=True)
        ],
    )


class Pages(base.Mapped):
    """Free huge pages by size and node."""

    def human_readable(self) -> str:
        return (
            '\n'.join(
                f'{size}: '
                + ', '.join(f'{node}: {n}' for node, n in nodes.items())
                for size, nodes in self._value.items()
            )
            or '-'
        )


def _text_keys(
    pages: Mapping[int, Mapping[int, int]],
) -> dict[str, Any]:
    return {
        str(size): {str(node): free for node, free in sorted(nodes.items())}
        for size, nodes in sorted(pages.items())
    }


def _guard(each: 'contents.Content') -> str | None:
    """Its version; "yes" if it reports without saying that."""
    return (each.record.guard or 'yes') if each.record else None
