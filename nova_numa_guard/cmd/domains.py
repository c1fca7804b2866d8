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

"""The domains that run, asked of libvirt through a read-only connection."""

import dataclasses
import threading
from typing import Any

import libvirt
from lxml import etree

from nova_numa_guard import availability, claims, domain, leaving
from nova_numa_guard.cmd import errors
from nova_numa_guard.status import domains as status_domains

# Seconds. Nobody looks at a command for longer, and libvirt may hang.
PATIENCE = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """A domain that runs.

    :param number: libvirt's id of it, another one at each start
    :param root: of its XML
    """

    uuid: str
    number: int
    name: str
    root: etree._Element

    @property
    def is_novas(self) -> bool:
        """Whether Nova made it."""
        return leaving.is_novas(self.root)


class Domains:
    """The domains of one libvirt; only what is new is asked for its XML.

    :param uri: of libvirt
    :param small_page: the host's small page size in KiB
    """

    def __init__(self, uri: str, small_page: int) -> None:
        self.uri = uri
        self._small_page = small_page
        self._known: dict[tuple[str, int], Running] = {}
        self._claims: dict[tuple[str, int], availability.Claim] = {}
        self._connection: Any = None
        self.unread: dict[str, str] = {}

    def running(self) -> tuple[Running, ...]:
        """Those that run now, by name.

        :raises errors.CommandError: libvirt does not say
        """
        answers: list[tuple[Running, ...]] = []
        failures: list[Exception] = []

        def ask() -> None:
            try:
                answers.append(self._list())
            except Exception as exc:
                failures.append(exc)

        # A thread that nobody has to wait for: libvirt may not answer, and
        # Ctrl-C does not get through to Python meanwhile.
        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asking.join(PATIENCE)
        if answers:
            return answers[0]
        reason: object = f'no answer within {PATIENCE:g} s'
        if failures:
            [reason] = failures
            if not isinstance(reason, libvirt.libvirtError):
                raise failures[0]
        raise errors.CommandError(
            f'libvirt at {self.uri} does not say which domains run: {reason}'
        )

    def claims(self) -> tuple[availability.Claim, ...]:
        """What those that run may use; ``unread`` has those left out.

        :raises errors.CommandError: libvirt does not say
        """
        found = []
        for each in self.running():
            key = each.uuid, each.number
            try:
                if key not in self._claims:
                    self._claims[key] = claims.read(
                        each.root,
                        each.uuid,
                        each.number,
                        each.name,
                        self._small_page,
                    )
            except ValueError as exc:
                # Others make domains too, of whatever kind.
                self.unread[each.name] = str(exc)
                continue
            found.append(self._claims[key])
        return tuple(found)

    def _list(self) -> tuple[Running, ...]:
        if self._connection is None:
            self._connection = status_domains.open_read_only(self.uri)
        known = {}
        for each in self._connection.listAllDomains(
            libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
        ):
            key = each.UUIDString(), each.ID()
            try:
                known[key] = self._known.get(key) or Running(
                    *key, each.name(), domain.parse(each.XMLDesc())
                )
            except libvirt.libvirtError as exc:
                if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                    raise
                # It has ended since it was listed.
        self._known = known
        return tuple(sorted(known.values(), key=lambda each: each.name))
