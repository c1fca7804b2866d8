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

"""RabbitMQ."""

import base64
import hashlib
import json

from tests.lab.stack import config, ports, processes

SERVER = '/usr/lib/rabbitmq/bin/rabbitmq-server'
_USER = 'nova'
_SALT = b'salt'

_VHOSTS = (config.TOP, config.CELL, config.NETWORK)


def start(basics: config.Basics, processes: processes.Processes) -> None:
    """Start it, with a user and virtual hosts.

    :raises LabError: it does not start
    """
    layout, port = basics.layout, basics.port
    definitions = layout.etc('rabbitmq-definitions.json')
    definitions.write_text(json.dumps(_definitions()))
    layout.etc('rabbitmq.conf').write_text(
        f'listeners.tcp.1 = {ports.LOOPBACK}:{port["rabbitmq"]}\n'
        f'load_definitions = {definitions}\n'
        'vm_memory_high_watermark.absolute = 1GiB\n'
        'disk_free_limit.absolute = 50MB\n'
    )
    layout.etc('rabbitmq-plugins').write_text('[].\n')
    home = layout.path('rabbitmq')
    processes.start(
        'epmd',
        ['epmd', '-port', str(port['epmd']), '-address', ports.LOOPBACK],
    )
    processes.wait_for('epmd', lambda: ports.is_open(port['epmd']))
    address = ports.LOOPBACK.replace('.', ',')
    processes.start(
        'rabbitmq',
        [SERVER],
        {
            'HOME': str(home),
            # A port mapper that Erlang starts by itself outlives it.
            'ERL_AFLAGS': '-start_epmd false',
            'ERL_EPMD_ADDRESS': ports.LOOPBACK,
            'ERL_EPMD_PORT': str(port['epmd']),
            'RABBITMQ_CONFIG_FILE': str(layout.etc('rabbitmq.conf')),
            'RABBITMQ_DIST_PORT': str(port['erlang']),
            'RABBITMQ_ENABLED_PLUGINS_FILE': str(
                layout.etc('rabbitmq-plugins')
            ),
            'RABBITMQ_LOGS': '-',
            'RABBITMQ_LOG_BASE': str(home / 'log'),
            'RABBITMQ_MNESIA_BASE': str(home / 'mnesia'),
            'RABBITMQ_NODENAME': f'lab{port["rabbitmq"]}@localhost',
            'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': (
                '+sbwt none '  # two CPUs are too few to wait busily
                f'-kernel inet_dist_use_interface {{{address}}}'
            ),
        },
    )
    processes.wait_for('rabbitmq', lambda: ports.is_open(port['rabbitmq']))


def _definitions() -> dict[str, list[dict[str, str]]]:
    digest = hashlib.sha256(_SALT + config.PASSWORD.encode()).digest()
    everything = {'configure': '.*', 'write': '.*', 'read': '.*'}
    return {
        'users': [
            {
                'name': _USER,
                'password_hash': base64.b64encode(_SALT + digest).decode(),
                'hashing_algorithm': 'rabbit_password_hashing_sha256',
                'tags': '',
            }
        ],
        'vhosts': [{'name': name} for name in _VHOSTS],
        'permissions': [
            {'user': _USER, 'vhost': name, **everything} for name in _VHOSTS
        ],
    }
