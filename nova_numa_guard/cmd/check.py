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

"""The command ``domain check``."""

import argparse
from collections.abc import Iterable, Sequence
import dataclasses
from typing import Any
import uuid

from nova_numa_guard import (
    availability,
    domain,
    facts,
    guests,
    pools,
    standing,
    trial,
)
from nova_numa_guard.cmd import base, errors, host, xml

COLUMNS = ('Node', 'Page size', 'Needed', 'Available', 'Short')

_VERDICTS = {
    standing.Verdict.FITS: 'The domain fits: it would start here.',
    standing.Verdict.OVERCOMMITS: 'The domain fits only if the kernel adds '
    'pages to the pools, as nr_overcommit_hugepages lets it try.',
    standing.Verdict.SHORT: 'The domain does not fit: ',
}


class Check(base.Lister):
    """Check whether a domain would start on a host, for want of pages.

    It is asked as nova-compute asks before it starts a guest, and prints
    each pool that the domain needs; page sizes are in KiB, all else is in
    pages. Small pages count where a guest cell is bound to a host node
    strictly. The verdict follows on stderr, and is the exit code: 0 if the
    domain fits, 1 if it is short of pages, 2 if that cannot be told.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        xml.add(parser)
        host.add(parser)
        parser.add_argument(
            '--exclude-uuid',
            metavar='<uuid>',
            type=_uuid,
            help='a running domain whose pages count as free, because it '
            "will have ended; without it, the domain's own UUID",
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        text = xml.read(parsed_args.file, self.app.stdin)
        root = domain.parse(text)
        found = host.Host(parsed_args)
        try:
            needs = trial.needs(domain.read(root), found.kernel.small_page)
        except ValueError as exc:
            raise errors.CommandError(
                f'{xml.name(parsed_args.file)}: {exc}'
            ) from exc
        own = parsed_args.exclude_uuid
        try:
            figures = _look(found, needs)
        except pools.UnreadableError as exc:
            raise errors.CommandError(exc) from exc
        if own is None:
            own = (root.findtext('./uuid') or '').strip()
        elif own not in {claim.uuid for claim in figures.claims}:
            raise errors.CommandError(
                f'no domain with the UUID {own} runs there'
                if figures.complete
                else '--exclude-uuid needs --uri where there is --sysfs'
            )
        outcome = standing.judge(own, needs, (), figures)
        if outcome.verdict is standing.Verdict.SHORT:
            self.code = 1
        self.remarks += found.remarks()
        self.remarks.append(
            _VERDICTS[outcome.verdict]
            + (
                '; '.join(map(str, outcome.shortages)) + '.'
                if outcome.verdict is standing.Verdict.SHORT
                else ''
            )
        )
        return COLUMNS, [
            (
                base.Maybe(
                    None if each.node == guests.ANY_NODE else each.node
                ),
                each.page_size,
                each.needed,
                each.available,
                each.short,
            )
            for each in standing.offers(own, needs, figures)
        ]


def _look(
    found: host.Host, needs: tuple[guests.PageNeed, ...]
) -> facts.Figures:
    """The figures of the pools that are needed.

    :raises pools.UnreadableError: of the kernel's files
    """
    known = frozenset((guests.ANY_NODE, *found.kernel.nodes()))
    figures = found.lookout().figures(
        need for need in needs if need.node in known
    )
    # A node that there is not has no files to read of, and no pages.
    size = found.kernel.small_page
    absent = tuple(
        availability.Pool(need.node, size, total=0, free=0, small=True)
        for need in needs
        if need.page_size == size and need.node not in known
    )
    return dataclasses.replace(figures, pools=figures.pools + absent)


def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError as exc:
        raise argparse.ArgumentTypeError(f'{text!r} is not a UUID') from exc
