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

"""Where everything is in the folder of a lab."""

import os
import pathlib

from tests.lab.stack import errors

# A client's socket address holds 107 bytes.
_SOCKET_LIMIT = 107

DATABASES = (
    'keystone',
    'placement',
    'glance',
    'neutron',
    'nova_api',
    'nova_cell0',
    'nova_cell1',
)


class Layout:
    """The folder that holds all of a lab.

    :param root: the folder
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = pathlib.Path(root).resolve()

    def path(self, *parts: str) -> pathlib.Path:
        """A path below the folder."""
        return self.root.joinpath(*parts)

    def etc(self, *parts: str) -> pathlib.Path:
        """A file of configuration."""
        return self.path('etc', *parts)

    def log(self, name: str) -> pathlib.Path:
        """What a process wrote."""
        return self.path('log', f'{name}.log')

    def host(self, name: str, *parts: str) -> pathlib.Path:
        """Something of a compute host."""
        return self.path('hosts', name, *parts)

    @property
    def state(self) -> pathlib.Path:
        """What 'down' has to know of 'up'."""
        return self.path('lab.json')

    @property
    def instances(self) -> pathlib.Path:
        """The folder that each host sees its own disks in.

        It is the same path on every host, as live migration needs it.
        """
        return self.path('instances')

    @property
    def database_socket(self) -> pathlib.Path:
        return self.path('run', 'db.sock')

    def database_url(self, name: str) -> str:
        return (
            f'mysql+pymysql://root@localhost/{name}?charset=utf8mb4'
            f'&unix_socket={self.database_socket}'
        )

    def libvirt_socket(self, host: str) -> pathlib.Path:
        return self.host(host, 'libvirt', 'run', 'libvirt-sock')

    def libvirt_uri(self, host: str) -> str:
        """The URI of a host's libvirtd, as seen from any host.

        :param host: its name, or its address
        """
        return f'qemu+unix:///system?socket={self.libvirt_socket(host)}'

    def create(self, hosts: dict[str, str]) -> None:
        """Make the folders.

        :param hosts: the address of each host by its name
        :raises LabError: the folder will not do
        """
        if self.root.exists() and any(self.root.iterdir()):
            raise errors.LabError(
                f'{self.root} is not empty; a lab starts in a new folder'
            )
        for name in hosts:
            excess = len(str(self.libvirt_socket(name))) - _SOCKET_LIMIT
            if excess > 0:
                raise errors.LabError(
                    f'the path {self.root} is {excess} characters too long '
                    f'for a socket in it'
                )
        for folder in (
            'etc',
            'glance',
            'instances',
            'keys',
            'lock',
            'log',
            'neutron',
            'nova',
            'rabbitmq',
            'run',
        ):
            self.path(folder).mkdir(parents=True)
        for name, address in hosts.items():
            self.host(name, 'instances').mkdir(parents=True)
            # Nova finds the other libvirtd by the address of its host.
            self.host(address).symlink_to(name)
