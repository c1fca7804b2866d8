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

"""The command ``domain rewrite``."""

import argparse
import difflib

from cliff import command

from nova_numa_guard import domain, leaving, tuning, writing
from nova_numa_guard.cmd import errors, xml


class Rewrite(command.Command):
    """Print the XML of a domain as the guard would write it.

    Nothing but its numatune is changed, and nothing at all where the guard
    has nothing to say: of floating guests, and of confidential ones. With
    --restore it is what Nova's own driver would have written.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        xml.add(parser)
        parser.add_argument(
            '--small-page-policy',
            metavar='<policy>',
            choices=[policy.value for policy in tuning.SmallPagePolicy],
            help='the memory policy of guest cells with small pages, as '
            'small_page_policy of [numa_guard] has it: auto (the default), '
            'preferred, local or strict',
        )
        parser.add_argument(
            '--restore',
            action='store_true',
            help="print it as Nova's own driver would have written it",
        )
        parser.add_argument(
            '--node',
            metavar='<cell:node>',
            action='append',
            type=_placed,
            default=[],
            help='for --restore, the host node of a guest cell whose memnode '
            'is gone (repeatable)',
        )
        parser.add_argument(
            '--diff',
            action='store_true',
            help='print a unified diff instead; nothing if nothing changes',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.restore and parsed_args.small_page_policy:
            raise errors.CommandError(
                '--small-page-policy says nothing with --restore'
            )
        if parsed_args.node and not parsed_args.restore:
            raise errors.CommandError('--node says nothing without --restore')
        text = xml.read(parsed_args.file, self.app.stdin)
        name = xml.name(parsed_args.file)
        try:
            if parsed_args.restore:
                new = _restored(text, dict(parsed_args.node))
            else:
                policy = parsed_args.small_page_policy or 'auto'
                new = writing.apply(
                    text, writing.Writing(tuning.SmallPagePolicy(policy))
                )
        except ValueError as exc:
            raise errors.CommandError(f'{name}: {exc}') from exc
        if parsed_args.diff:
            new = _diff(text, new, name)
        self.app.stdout.write(new)
        return 0


def _restored(text: str, nodes: dict[int, int]) -> str:
    """What Nova's own driver would have written.

    :param nodes: the host node of guest cells whose memnode is gone
    :raises ValueError: more of them are gone
    """
    cells = domain.read(text).cells
    if unknown := sorted(nodes.keys() - cells.keys()):
        raise ValueError(f'--node: there is no guest cell {unknown[0]}')
    new = writing.restore(text, nodes)
    if leaving.trace(new) is leaving.Trace.UNBOUND:
        lacking = sorted(
            cells.keys() - domain.read(new).memnodes.keys() - nodes.keys()
        )
        raise ValueError(
            f'guest cell {", ".join(map(str, lacking))} has no <memnode>: '
            f'name its host node, for example --node {lacking[0]}:0'
            if lacking
            else 'its <numatune> is not one that the guard writes'
        )
    return new


def _diff(old: str, new: str, name: str) -> str:
    # Written alike, since quotes are not what has changed.
    before, after = (
        domain.to_text(domain.parse(text), f'{text}\n').splitlines(True)
        for text in (old, new)
    )
    return ''.join(
        difflib.unified_diff(before, after, name, f'{name} (rewritten)')
    )


def _placed(text: str) -> tuple[int, int]:
    cell, colon, node = text.partition(':')
    if not (colon and cell.isdecimal() and node.isdecimal()):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a guest cell and its host node, such as 0:1'
        )
    return int(cell), int(node)
