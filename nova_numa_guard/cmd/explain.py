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

"""Why a guest gets a host, or does not."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nova_numa_guard import logged
from nova_numa_guard.cmd import base, cloud, errors

Table = tuple[Sequence[str], Iterable[Sequence[Any]]]


class Explain(base.Lister):
    """Explain which hosts would take a guest, and why others would not.

    It runs where nova-scheduler does, and asks the guard's filter and Nova's
    NUMATopologyFilter of every host, by what Nova's databases say now. With
    ``--log`` it shows what they said when a request was scheduled. Placement
    and the other filters are not asked.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        guest = parser.add_mutually_exclusive_group(required=True)
        guest.add_argument(
            '--server',
            metavar='<uuid>',
            help='a server that exists; one that is on a host is looked at as '
            'if it were to move',
        )
        guest.add_argument(
            '--flavor',
            metavar='<name>',
            help='a new server of a flavor, by its name or id',
        )
        guest.add_argument(
            '--log',
            metavar='<file>',
            help='a log of nova-scheduler with DEBUG lines; - is stdin',
        )
        parser.add_argument(
            '--request-id',
            metavar='<req-…>',
            type=_request_id,
            help='the request to look for in the log',
        )
        parser.add_argument(
            '--image',
            metavar='<name>',
            help='with --flavor: an image, which Glance is asked for by the '
            'variables OS_* or clouds.yaml',
        )
        parser.add_argument(
            '--image-property',
            action='append',
            default=[],
            metavar='<key=value>',
            type=_property,
            help='with --flavor: a property of the image, such as '
            'hw_mem_page_size=large; may be given several times',
        )
        parser.add_argument(
            '--host', metavar='<host>', help='look at this host only'
        )
        parser.add_argument(
            '--assume-empty',
            action='store_true',
            help='as if no guests were on the hosts; PCI devices in use stay '
            'so',
        )
        cloud.add_options(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Table:
        if bool(parsed_args.log) != bool(parsed_args.request_id):
            raise errors.CommandError(
                '--log and --request-id belong together.'
            )
        if parsed_args.log:
            return self._logged(parsed_args)
        if parsed_args.server and (
            parsed_args.image or parsed_args.image_property
        ):
            raise errors.CommandError(
                '--image and --image-property are for --flavor: a server has '
                'its image.'
            )
        with cloud.reading(parsed_args):
            return self._now(parsed_args)

    def _now(self, parsed_args: argparse.Namespace) -> Table:
        from nova_numa_guard import explanation
        from nova_numa_guard.cloud import hosts, images, requests, verdicts

        if parsed_args.server:
            request = requests.of_server(parsed_args.server)
        else:
            image = {}
            if parsed_args.image:
                image = images.properties(parsed_args.image)
            image.update(parsed_args.image_property)
            request = requests.of_flavor(parsed_args.flavor, image)
        fleet = hosts.read()
        if parsed_args.host:
            fleet = fleet.named(parsed_args.host)
        found = fleet.hosts
        if parsed_args.assume_empty:
            found = tuple(map(verdicts.emptied, found))
        explainer = verdicts.Explainer(request)
        findings = [explainer.of(host) for host in found]
        kind = explainer.kind
        self.app.stderr.write(
            f'{kind} guest: {explanation.summary(findings)}\n'
        )
        self.remarks += [
            *cloud.silent(fleet.silent),
            *explainer.remarks(parsed_args.assume_empty),
        ]
        return (
            ('Host', 'Away', 'Guard', 'Guard says', 'Nova', 'Nova says'),
            [
                (
                    each.host,
                    base.Maybe(each.away or None),
                    each.guard.word.value,
                    base.Maybe(each.guard.text or None),
                    each.nova.word.value,
                    base.Maybe(each.nova.text or None),
                )
                for each in findings
            ],
        )

    def _logged(self, parsed_args: argparse.Namespace) -> Table:
        found = list(
            logged.verdicts(
                self._lines(parsed_args.log), parsed_args.request_id
            )
        )
        if not found:
            raise errors.CommandError(
                f'{parsed_args.log} has no verdict on request '
                f'{parsed_args.request_id}. Both filters write theirs at '
                'DEBUG: set [DEFAULT] debug = true for nova-scheduler.'
            )
        for each in found:
            if not each.host:
                self.app.stderr.write(f'{each.detail}\n')
        return (
            ('Time', 'Host', 'Filter', 'Reason', 'Detail'),
            [
                (
                    base.Maybe(each.time or None),
                    each.host,
                    each.by,
                    base.Maybe(each.reason or None),
                    each.detail,
                )
                for each in found
                if each.host and parsed_args.host in {None, each.host}
            ],
        )

    def _lines(self, name: str) -> Iterator[str]:
        if name == '-':
            yield from self.app.stdin
            return
        try:
            with open(name, encoding='utf-8', errors='replace') as file:
                yield from file
        except OSError as exc:
            raise errors.CommandError(
                f'{name} cannot be read: {exc.strerror}'
            ) from exc


def _property(text: str) -> tuple[str, str]:
    key, separator, value = text.partition('=')
    if not (key and separator):
        raise argparse.ArgumentTypeError(f'{text!r} is not KEY=VALUE')
    return key, value


def _request_id(text: str) -> str:
    if not logged.is_request_id(text):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a request id, such as '
            'req-0b6a1c1e-6d5e-4a0f-9d0b-3c1f6f2a9b11'
        )
    return text
