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

"""The command ``guests list``."""

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib import parse

from cliff import columns
from oslo_utils import units

from nova_numa_guard import availability, overview, pools, remote, sets
from nova_numa_guard.cmd import base, domains, errors, host

COLUMNS = (
    'UUID',
    'Name',
    'Nova',
    'Kind',
    'Pinned',
    'Cells',
    'Page sizes',
    'Numatune',
    'Modes',
    'Hard reboot',
)
Key = availability.Key


class Placement(columns.FormattableColumn[dict[str, dict[str, int]] | None]):
    """Pages by host node and page size."""

    def human_readable(self) -> str:
        if self._value is None:
            return '-'
        return '\n'.join(
            f'{node}: '
            + ', '.join(f'{count} x {size}' for size, count in pages.items())
            for node, pages in self._value.items()
        )


class List(base.Lister):
    """List the guests that run on a host, and how their memory is bound.

    The UUID is Nova's too. Pinned counts the vCPUs that have a host CPU of
    their own. Cells has the host nodes of each guest cell, Page sizes are in
    KiB. Numatune is that in force: stock (Nova's own driver wrote it, and
    all of QEMU is bound), guard, confined (a floating guest on some cells
    only) or none; Modes are those of the guest cells. A guest with Hard
    reboot has Nova's own strict one, and keeps it until it is rebooted hard
    on a host whose option numatune is guard.
    """

    root = '/'  # below which the kernel's files are

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        host.add_uri(parser)
        parser.add_argument(
            '--placement',
            action='store_true',
            help='show the pages that each guest really has, by host node '
            'and page size in KiB; as root, and on the host itself. For '
            'guests with huge pages the kernel walks their page tables',
        )
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        found = host.Host(parsed_args)
        small_page = found.kernel.small_page
        kernel = None
        if parsed_args.placement:
            if parse.urlsplit(found.domains.uri).hostname:
                raise errors.CommandError(
                    f'--placement looks at processes of this host, but '
                    f'{found.domains.uri} is another'
                )
            kernel = pools.Kernel(self.root)
        rows = []
        for each in found.domains.running():
            try:
                guest = overview.of(each.root, small_page)
            except ValueError as exc:
                self.remarks.append(
                    f'How the domain {each.name} is bound cannot be told, '
                    f'and it is left out: {exc}'
                )
                continue
            row = _row(each, guest)
            if kernel is not None:
                row += (self._placement(kernel, each.name, guest),)
            rows.append(row)
        return COLUMNS + ('Placement',) * parsed_args.placement, rows

    def _placement(
        self, kernel: pools.Kernel, name: str, guest: overview.Guest
    ) -> Placement:
        """The pages of one guest, as far as they are known."""
        size = kernel.small_page
        parts: dict[str, Callable[[], dict[Key, int]]] = {
            'small': lambda: {
                (node, size): amount // units.Ki // size
                for node, amount in remote.anonymous(name, self.root).items()
            }
        }
        if any(each > size for each in guest.page_sizes):
            parts['huge'] = lambda: kernel.held(name)
        found: dict[Key, int] = {}
        unknown = []
        for kind, read in parts.items():
            try:
                found.update(read())
            except pools.UnreadableError as exc:
                unknown.append(kind)
                reason = exc
        if unknown:
            self.remarks.append(
                f'Where {name} has its {" and ".join(unknown)} pages is not '
                f'known: {reason}'
            )
        if len(unknown) == len(parts):
            return Placement(None)
        placed: dict[str, dict[str, int]] = {}
        for (node, each), count in sorted(found.items()):
            if count:
                placed.setdefault(str(node), {})[str(each)] = count
        return Placement(placed)


def _row(each: domains.Running, guest: overview.Guest) -> tuple[Any, ...]:
    return (
        each.uuid,
        each.name,
        guest.is_novas,
        guest.kind.value,
        guest.pinned,
        base.Mapped(
            {
                str(cell): sets.text(nodes) or '-'
                for cell, nodes in guest.cells.items()
            }
        ),
        base.Several(list(guest.page_sizes)),
        guest.numatune.value,
        base.Several(list(guest.modes)),
        guest.needs_reboot,
    )
