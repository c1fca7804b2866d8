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

"""What the checks of a compute host read of it, once for all of them."""

from collections.abc import Callable
import dataclasses
import functools
import os
from typing import Any, TypeVar

import libvirt
from lxml import etree
from oslo_config import cfg

from nova_numa_guard import cells, domain, host_cells, leaving, pools
from nova_numa_guard.status import checks, domains

_T = TypeVar('_T')


@dataclasses.dataclass(frozen=True)
class Running:
    """A domain that runs, as libvirt prints it.

    :param novas: whether Nova made it
    """

    name: str
    uuid: str
    root: etree._Element
    novas: bool


class Host:
    """One compute host: its libvirt and its kernel.

    :param conf: has read the configuration of nova-compute
    :param uri: of libvirt; empty for the one that nova-compute uses
    :param root: the folder below which ``sys`` and ``proc`` are
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        uri: str = '',
        root: str | os.PathLike[str] = '/',
    ) -> None:
        self.conf = conf
        self.kernel = pools.Kernel(root)
        self._uri = uri or domains.uri(
            conf.libvirt.connection_uri, conf.libvirt.virt_type
        )

    @functools.cached_property
    def running(self) -> tuple[Running, ...]:
        """The domains that run, by name.

        :raises CannotCheckError: libvirt does not say
        """
        found = self._ask(_running, 'which guests there are')
        return tuple(sorted(found, key=lambda each: (each.name, each.uuid)))

    def numa_cells(
        self, cpu_sets: host_cells.CPUSets
    ) -> tuple[cells.HostCell, ...]:
        """The NUMA cells that libvirt knows.

        :raises CannotCheckError: it does not say
        """
        return self._ask(
            lambda connection: host_cells.read(
                connection.getCapabilities(), cpu_sets
            ),
            'which NUMA cells the host has',
        )

    def _ask(self, question: Callable[[Any], _T], what: str) -> _T:
        try:
            connection = domains.open_read_only(self._uri)
            try:
                return question(connection)
            finally:
                connection.close()
        except (libvirt.libvirtError, ValueError) as exc:
            raise checks.CannotCheckError(
                f'libvirt at {self._uri} does not say {what}: {exc}\n'
                'Run this on the compute host, as root, and see that libvirt '
                "runs: systemctl status 'libvirtd*' 'virtqemud*'. --uri URI "
                'names another libvirt.'
            ) from exc


def _running(connection: Any) -> list[Running]:
    found = []
    for each in connection.listAllDomains(
        libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE
    ):
        try:
            root = domain.parse(each.XMLDesc())
            found.append(
                Running(
                    each.name(),
                    each.UUIDString(),
                    root,
                    leaving.is_novas(root),
                )
            )
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise
    return found
