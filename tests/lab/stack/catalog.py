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

"""What keystone tells the services of each other."""

from tests.lab.stack import config, rest

# Type, name, and what follows the port.
_SERVICES = (
    ('placement', 'placement', ''),
    ('image', 'glance', ''),
    ('network', 'neutron', ''),
    ('compute', 'nova', '/v2.1'),
)


def fill(basics: config.Basics) -> None:
    """Enter the services, and let the administrator act as one of them."""
    client = rest.Rest(basics)
    project, user, role = (
        client.call('keystone', 'GET', f'/v3/{kind}?name={name}')[kind][0][
            'id'
        ]
        for kind, name in (
            ('projects', 'admin'),
            ('users', 'admin'),
            ('roles', 'service'),
        )
    )
    client.call(
        'keystone', 'PUT', f'/v3/projects/{project}/users/{user}/roles/{role}'
    )
    for kind, name, suffix in _SERVICES:
        service = client.call(
            'keystone',
            'POST',
            '/v3/services',
            {'service': {'type': kind, 'name': name}},
        )['service']
        endpoint = {
            'service_id': service['id'],
            'interface': 'public',
            'region_id': config.REGION,
            'url': basics.url(name) + suffix,
        }
        client.call(
            'keystone', 'POST', '/v3/endpoints', {'endpoint': endpoint}
        )
