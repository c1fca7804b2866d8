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

"""The configuration of the services that Nova needs."""

import pathlib
import sys

from tests.lab.stack import layout, plan, ports

PASSWORD = 'secret'
REGION = 'RegionOne'

# The virtual hosts of RabbitMQ: of the API, the scheduler and the conductor
# beside them, of the cell, and of Neutron. No message leaves its own.
TOP = 'top'
CELL = 'cell1'
NETWORK = 'network'

# Where wheels put what is not a module.
PREFIX_ETC = pathlib.Path(sys.prefix) / 'etc'


def write(path: pathlib.Path, options: plan.Options) -> None:
    """Write an ini file; a list gives an option several times."""
    lines = []
    for section, values in options.items():
        lines.append(f'[{section}]')
        for name, value in values.items():
            for one in value if isinstance(value, list) else [value]:
                lines.append(f'{name} = {one}')
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('\n'.join(lines) + '\n')


class Basics:
    """What the configuration of every service refers to.

    :param port: ports by name
    """

    def __init__(self, layout: layout.Layout, port: dict[str, int]) -> None:
        self.layout = layout
        self.port = port

    def url(self, service: str) -> str:
        return f'http://{ports.LOOPBACK}:{self.port[service]}'

    def transport_url(self, vhost: str) -> str:
        """A virtual host of RabbitMQ."""
        return (
            f'rabbit://nova:{PASSWORD}@{ports.LOOPBACK}:'
            f'{self.port["rabbitmq"]}/{vhost}'
        )

    def auth(self) -> dict[str, str]:
        """How a service shows who it is."""
        return {
            'auth_type': 'password',
            'auth_url': self.url('keystone'),
            'username': 'admin',
            'password': PASSWORD,
            'project_name': 'admin',
            'user_domain_id': 'default',
            'project_domain_id': 'default',
            'region_name': REGION,
        }

    def token(self) -> dict[str, str]:
        """How a service learns who its callers are."""
        return {
            **self.auth(),
            'www_authenticate_uri': self.url('keystone'),
            'service_token_roles_required': 'true',
        }

    def lock(self) -> dict[str, str]:
        return {'lock_path': str(self.layout.path('lock'))}


def keystone(basics: Basics) -> plan.Options:
    keys = {'key_repository': str(basics.layout.path('keys'))}
    return {
        'database': {'connection': basics.layout.database_url('keystone')},
        'fernet_tokens': keys,
        'fernet_receipts': keys,
        'credential': keys,
        'token': {'expiration': '86400'},
    }


def placement(basics: Basics) -> plan.Options:
    return {
        'placement_database': {
            'connection': basics.layout.database_url('placement')
        },
        'keystone_authtoken': basics.token(),
    }


def glance(basics: Basics) -> plan.Options:
    return {
        'DEFAULT': {'enabled_backends': 'local:file'},
        'database': {'connection': basics.layout.database_url('glance')},
        'glance_store': {'default_backend': 'local'},
        'local': {
            'filesystem_store_datadir': str(basics.layout.path('glance'))
        },
        'paste_deploy': {
            'flavor': 'keystone',
            'config_file': str(PREFIX_ETC / 'glance/glance-api-paste.ini'),
        },
        'keystone_authtoken': basics.token(),
        'oslo_concurrency': basics.lock(),
    }


def neutron(basics: Basics) -> plan.Options:
    """Neutron has no network to give: Nova only has to find it."""
    return {
        'DEFAULT': {
            'core_plugin': 'ml2',
            'service_plugins': 'router',
            'transport_url': basics.transport_url(NETWORK),
            'api_paste_config': str(PREFIX_ETC / 'neutron/api-paste.ini'),
            'state_path': str(basics.layout.path('neutron')),
            'notify_nova_on_port_status_changes': 'false',
            'notify_nova_on_port_data_changes': 'false',
        },
        'ml2': {
            'type_drivers': 'local',
            'tenant_network_types': 'local',
            'mechanism_drivers': '',
        },
        'database': {'connection': basics.layout.database_url('neutron')},
        'keystone_authtoken': basics.token(),
        'oslo_concurrency': basics.lock(),
    }


def openrc(basics: Basics) -> str:
    """A file for the shell of somebody who wants to be the administrator."""
    values = {
        'AUTH_URL': basics.url('keystone') + '/v3',
        'IDENTITY_API_VERSION': '3',
        'USERNAME': 'admin',
        'PASSWORD': PASSWORD,
        'PROJECT_NAME': 'admin',
        'USER_DOMAIN_ID': 'default',
        'PROJECT_DOMAIN_ID': 'default',
    }
    return ''.join(
        f'export OS_{name}={value}\n' for name, value in values.items()
    )
