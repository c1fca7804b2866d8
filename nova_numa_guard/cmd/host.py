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

"""The host that a command looks at, as its options say."""

import argparse
import functools
from typing import Any

from nova_numa_guard import availability, collected, look, pools, reserve
from nova_numa_guard.cmd import errors, novaconf

Key = availability.Key


def add_uri(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where libvirt is."""
    parser.add_argument(
        '--uri',
        metavar='<uri>',
        help='where libvirt is; without it, where the configuration of '
        'nova-compute says',
    )
    parser.add_argument(
        '--config-file',
        metavar='<file>',
        action='append',
        help='a configuration file of nova-compute, instead of those that it '
        'finds itself (repeatable)',
    )


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which host is meant."""
    parser.add_argument(
        '--sysfs',
        metavar='<dir>',
        help='a copy of /sys, of whichever machine, to be looked at instead '
        'of this host: it has <dir>/devices/system/node and '
        '<dir>/kernel/mm/hugepages. Guests are not known then, unless --uri '
        'says where they are, nor is the reserve, unless --reserved or '
        '--config-file does',
    )
    add_uri(parser)
    parser.add_argument(
        '--reserved',
        metavar='<node:N,size:KIB,count:PAGES>',
        action='append',
        type=_entry,
        help='pages of a pool that Nova must leave to others, as '
        "reserved_huge_pages of nova.conf has it, instead of nova.conf's "
        '(repeatable)',
    )


def _entry(text: str) -> dict[str, str]:
    entry = dict(part.partition(':')[::2] for part in text.split(','))
    try:
        pages = reserve.read([entry])
    except ValueError as exc:
        raise argparse.ArgumentTypeError(str(exc)) from exc
    if any(number < 0 for key, count in pages.items() for number in key) or (
        min(pages.values()) < 0
    ):
        raise argparse.ArgumentTypeError(f'{text!r} has a number below zero')
    return entry


class Host:
    """The host that is meant.

    :param words: the command's, parsed
    :raises errors.CommandError: its files cannot be read
    """

    def __init__(self, words: argparse.Namespace) -> None:
        self._words = words
        self._sysfs = getattr(words, 'sysfs', None)
        try:
            self.kernel: pools.Kernel = (
                pools.Kernel()
                if self._sysfs is None
                else collected.Kernel(self._sysfs)
            )
        except pools.UnreadableError as exc:
            raise errors.CommandError(exc) from exc

    @functools.cached_property
    def _conf(self) -> Any:
        return novaconf.read(self._words.config_file)

    @functools.cached_property
    def domains(self) -> Any:
        """Its domains, as cmd.domains.Domains; None if nobody knows them."""
        if self._sysfs is not None and not self._words.uri:
            return None
        # What takes a tenth of a second is imported by who needs it.
        from nova_numa_guard.cmd import domains
        from nova_numa_guard.status import domains as uris

        return domains.Domains(
            self._words.uri
            or uris.uri(
                self._conf.libvirt.connection_uri,
                self._conf.libvirt.virt_type,
            ),
            self.kernel.small_page,
        )

    @functools.cached_property
    def reserved(self) -> dict[Key, int]:
        """Pages that Nova must leave to others, by pool.

        :raises errors.CommandError: the configuration is not what it should
            be
        """
        entries = self._words.reserved
        if entries is None:
            if self._sysfs is not None and not self._words.config_file:
                return {}
            entries = self._conf.reserved_huge_pages or ()
        try:
            return reserve.read(entries)
        except ValueError as exc:
            raise errors.CommandError(
                f'[DEFAULT] reserved_huge_pages: {exc}'
            ) from exc

    def remarks(self) -> list[str]:
        """What could not be found out, in words."""
        unread = {} if self.domains is None else self.domains.unread
        return [
            f'What the domain {name} may use is not known, and left out: '
            f'{reason}'
            for name, reason in sorted(unread.items())
        ]

    def lookout(self) -> look.Lookout:
        """Who reads the figures."""
        return look.Lookout(
            self.kernel,
            lambda: None if self.domains is None else self.domains.claims(),
            self.reserved,
            self.kernel.small_page,
        )
