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

"""Which guests of a host keep an operator from going back to Nova's driver."""

import pathlib

import libvirt
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard import leaving
from nova_numa_guard.status import advice, checks, domains, stage


class GuestsCheck:
    """The guests that libvirt knows on this host.

    :param conf: has read the configuration of nova-compute
    :param uri: of libvirt; empty for the one that nova-compute uses
    """

    name = 'Guests that the guard has started'

    def __init__(self, conf: cfg.ConfigOpts, uri: str = '') -> None:
        self._conf = conf
        self._uri = uri

    def run(self) -> upgradecheck.Result:
        uri = self._uri or domains.uri(
            self._conf.libvirt.connection_uri, self._conf.libvirt.virt_type
        )
        instances = pathlib.Path(self._conf.instances_path)
        try:
            connection = domains.open_read_only(uri)
            try:
                kept = list(domains.kept(connection, instances))
            finally:
                connection.close()
        except (libvirt.libvirtError, ValueError) as exc:
            raise checks.CannotCheckError(
                f'libvirt at {uri} does not say which guests there are: '
                f'{exc}\n'
                'Run this on the compute host, as root, and see that libvirt '
                "runs: systemctl status 'libvirtd*' 'virtqemud*'. --uri URI "
                'names another libvirt.'
            ) from exc
        return advice.result(leaving.findings(kept), stage.of(self._conf))
