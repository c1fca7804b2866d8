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

"""The command ``pools show``."""

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nova_numa_guard import (
    accounting,
    availability,
    facts,
    guests,
    inventory,
    pools,
    reserve,
)
from nova_numa_guard.cmd import base, errors, host

COLUMNS = (
    'Node',
    'Page size',
    'Total',
    'Free',
    'Reclaimable',
    'Reserved',
    'Claimed',
    'Unaccounted',
    'Available',
)


class Show(base.Lister):
    """Show the pages of each NUMA node of a host, and who has them.

    Page sizes are in KiB, all else is in pages; the smallest size of a node
    is that of its small pages. Reserved is what nova.conf leaves to others,
    Claimed what Nova's running guests may use, and Unaccounted what is in
    use by others. Available is what one more guest may have. Where there are
    unaccounted pages, the lines for nova.conf that cover them follow on
    stderr.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        host.add(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        try:
            found = host.Host(parsed_args)
            figures, ours, unaccounted = _look(found)
        except pools.UnreadableError as exc:
            raise errors.CommandError(exc) from exc
        self.remarks += found.remarks()
        self.remarks += _advice(figures.configured, unaccounted)
        return COLUMNS, [
            (
                row.node,
                row.page_size,
                row.total,
                row.free,
                base.Maybe(row.reclaimable),
                base.Maybe(row.reserved),
                base.Maybe(row.claimed),
                base.Maybe(row.unaccounted),
                row.available,
            )
            for row in inventory.rows(figures, ours, unaccounted)
        ]


def _look(
    found: host.Host,
) -> tuple[
    facts.Figures,
    tuple[availability.Claim, ...],
    dict[accounting.Key, int],
]:
    """The figures of every pool, Nova's guests, and what others hold.

    In the order that makes the last rather too many than too few, see
    nova_numa_guard.look.
    """
    kernel, domains = found.kernel, found.domains
    now = kernel.pools()
    ours: tuple[availability.Claim, ...] = ()
    held = {}
    if domains is not None:
        novas = {each.uuid for each in domains.running() if each.is_novas}
        ours = tuple(
            claim for claim in domains.claims() if claim.uuid in novas
        )
        bounds = {
            size: kernel.bound(size)
            for size in {pool.page_size for pool in now}
        }
        wanted = accounting.to_look_at(ours, now, bounds, ())
        for claim in ours:
            if claim.uuid in wanted:
                try:
                    held[claim.uuid] = kernel.held(claim.name)
                except pools.UnreadableError:
                    continue  # it is believed to hold what it claims
    needs = [
        *(guests.PageNeed(pool.node, pool.page_size, 1) for pool in now),
        *(
            guests.PageNeed(node, kernel.small_page, 1)
            for node in kernel.nodes()
        ),
    ]
    figures = found.lookout().figures(needs)
    ours = tuple(claim for claim in ours if claim in figures.claims)
    if not figures.complete:
        return figures, ours, {}
    counted = {claim.uuid: claim.by_pool for claim in ours}
    huge = [pool for pool in figures.pools if not pool.small]
    return (
        figures,
        ours,
        accounting.outsiders(ours, counted, held, (), huge),
    )


def _advice(
    configured: Mapping[accounting.Key, int],
    unaccounted: Mapping[accounting.Key, int],
) -> list[str]:
    if not any(unaccounted.values()):
        return []
    wanted = reserve.covering(configured, unaccounted)
    if wanted == {key: configured.get(key, 0) for key in wanted}:
        heading = 'The reserve of nova.conf covers the unaccounted pages:'
    else:
        heading = (
            'Nova must leave the unaccounted pages to those who have them. '
            'In [DEFAULT] of nova.conf, for all pools together:'
        )
    return [heading, *reserve.text(wanted)]
