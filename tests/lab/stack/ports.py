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

"""Ports that nobody else listens on."""

import os
import socket

from tests.lab.stack import errors

LOOPBACK = '127.0.0.1'

NAMES = (
    'keystone',
    'placement',
    'glance',
    'neutron',
    'nova',
    'rabbitmq',
    'erlang',
    'epmd',
)

# Below the range from which the kernel takes the ports of connections.
_FIRST = 15000
_BLOCKS = 1000


def choose(first: int | None = None) -> dict[str, int]:
    """A port for each name.

    :param first: the first of the ports, which follow each other; None to
        look for free ones
    :raises LabError: a port is in use
    """
    if first is not None:
        found = _block(first)
        busy = [
            f'{port} ({name})'
            for name, port in found.items()
            if not _is_free(port)
        ]
        if busy:
            raise errors.LabError(
                f'somebody listens on {", ".join(busy)}; choose another first '
                'port, or none'
            )
        return found
    # Labs that start at the same time begin to look at different places.
    for step in range(_BLOCKS):
        number = (os.getpid() + step) % _BLOCKS
        found = _block(_FIRST + number * 10)
        if all(map(_is_free, found.values())):
            return found
    raise errors.LabError(
        f'no {len(NAMES)} ports in a row are free between {_FIRST} and '
        f'{_FIRST + _BLOCKS * 10}'
    )


def is_open(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        probe.settimeout(5)
        return probe.connect_ex((LOOPBACK, port)) == 0


def _block(first: int) -> dict[str, int]:
    return {name: first + number for number, name in enumerate(NAMES)}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the services do it: a connection that lingers is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(('', port))
        except OSError:
            return False
        return True
