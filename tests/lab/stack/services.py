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

"""Keystone, placement, glance and neutron: a schema, then a server each."""

import pathlib
import sys

from tests.lab.stack import catalog, config, layout, processes, rest, wsgi

BIN = pathlib.Path(sys.executable).parent


class Services:
    """The services that Nova needs.

    Each method makes one of them, and may run in a thread of its own.
    """

    def __init__(
        self, basics: config.Basics, processes: processes.Processes
    ) -> None:
        self._basics = basics
        self._layout: layout.Layout = basics.layout
        self._processes = processes

    def configure(self) -> None:
        """Write the files of all of them."""
        for name, options in (
            ('keystone/keystone.conf', config.keystone(self._basics)),
            ('placement/placement.conf', config.placement(self._basics)),
            ('glance/glance-api.conf', config.glance(self._basics)),
            ('neutron/neutron.conf', config.neutron(self._basics)),
        ):
            config.write(self._layout.etc(name), options)

    def keystone(self) -> None:
        """Make it, and tell it of all the others."""
        manage = self._manage('keystone', 'keystone-manage')
        manage('db_sync')
        manage('fernet_setup', '--keystone-user=root', '--keystone-group=root')
        url = f'{self._basics.url("keystone")}/v3'
        manage(
            'bootstrap',
            f'--bootstrap-password={config.PASSWORD}',
            f'--bootstrap-public-url={url}',
            f'--bootstrap-internal-url={url}',
            f'--bootstrap-region-id={config.REGION}',
        )
        self.serve('keystone', 'keystone.wsgi.api')
        self.wait('keystone')
        catalog.fill(self._basics)

    def placement(self) -> None:
        self._manage('placement', 'placement-manage')('db', 'sync')
        self.serve('placement', 'placement.wsgi.api')

    def glance(self) -> None:
        self._manage('glance', 'glance-manage')('db_sync')
        self.serve('glance', 'glance.wsgi.api')

    def neutron(self) -> None:
        self._manage('neutron', 'neutron-db-manage')('upgrade', 'head')
        self.serve(
            'neutron',
            'neutron.wsgi.api',
            OS_NEUTRON_CONFIG_FILES='neutron.conf',
        )

    def serve(self, name: str, module: str, **env: str) -> None:
        """Start the API of a service."""
        folder = {f'OS_{name.upper()}_CONFIG_DIR': str(self._layout.etc(name))}
        self._processes.start(
            name,
            [
                *(sys.executable, '-P', wsgi.__file__),
                *(module, str(self._basics.port[name])),
            ],
            {**folder, **env},
        )

    def wait(self, name: str) -> None:
        """Wait for the API of a service.

        :raises LabError: it does not start
        """
        self._processes.wait_for(
            name, rest.answers(self._basics.url(name) + '/')
        )

    def _manage(self, service: str, program: str) -> 'Manage':
        return Manage(
            self._processes,
            f'manage-{service}',
            program,
            f'--config-dir={self._layout.etc(service)}',
        )


class Manage:
    """A command line for the database of a service.

    :param name: of the log
    """

    def __init__(
        self,
        processes: processes.Processes,
        name: str,
        program: str,
        *words: str,
    ) -> None:
        self._processes = processes
        self._name = name
        self._words = [str(BIN / program), *words]

    def __call__(self, *words: str) -> None:
        """Run it.

        :raises LabError: it failed
        """
        self._processes.run(self._name, [*self._words, *words])
