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

"""The configuration of Nova's services."""

import pathlib
import sys

from tests.lab.stack import config, hugepages, plan, ports

_QUIET = (
    'amqp',
    'keystoneauth',
    'keystonemiddleware',
    'sqlalchemy',
    'stevedore',
    'urllib3',
)
_BRIEF = (
    'oslo.messaging',
    'oslo.service',
    'oslo_concurrency',
    'oslo_messaging',
    'oslo_policy',
    'oslo_service',
)


def control(basics: config.Basics, the_plan: plan.Plan) -> plan.Options:
    """The API, the scheduler and the conductor beside them."""
    layout = basics.layout
    return plan.merge(
        _common(basics),
        {
            'DEFAULT': {
                'host': 'control',
                'transport_url': basics.transport_url(config.TOP),
            },
            'api_database': {'connection': layout.database_url('nova_api')},
            'database': {'connection': layout.database_url('nova_cell0')},
        },
        the_plan.options,
    )


def cell(basics: config.Basics, the_plan: plan.Plan) -> plan.Options:
    """The conductor of the cell, which does not know the API's database.

    All that nova-compute reads and writes goes through it, so what needs more
    than the cell fails here as it does in a cloud of several cells.
    """
    layout = basics.layout
    return plan.merge(
        _common(basics),
        {
            'DEFAULT': {
                'host': 'control',
                'transport_url': basics.transport_url(config.CELL),
            },
            'database': {'connection': layout.database_url('nova_cell1')},
        },
        the_plan.options,
    )


def compute(
    basics: config.Basics,
    the_plan: plan.Plan,
    host: plan.Host,
    path: pathlib.Path,
) -> plan.Options:
    """The nova-compute of a host, which knows no database.

    :param path: the file that these options go to
    """
    layout = basics.layout
    shared, dedicated = map(str, hugepages.cpus())
    if host.cells:  # each has one of the two, and none is to lack shared ones
        shared, dedicated = f'{shared},{dedicated}', ''
    privsep = pathlib.Path(sys.executable).parent / 'privsep-helper'
    return plan.merge(
        _common(basics),
        {
            'DEFAULT': {
                'host': host.name,
                'state_path': layout.host(host.name),
                'instances_path': layout.instances,
                'transport_url': basics.transport_url(config.CELL),
                'compute_driver': 'libvirt.LibvirtDriver',
                'reserved_host_memory_mb': 256,
                # What a guest used that migrated here and was then deleted
                # is only free again after the next audit.
                'update_resources_interval': 10,
                # The guests have nothing in them that would shut down.
                'shutdown_timeout': 1,
            },
            'libvirt': {
                'virt_type': 'qemu',
                'connection_uri': layout.libvirt_uri(host.name),
                'live_migration_uri': layout.libvirt_uri('%s'),
                'live_migration_inbound_addr': host.address,
            },
            'compute': {
                'cpu_shared_set': shared,
                'cpu_dedicated_set': dedicated,
            },
            'nova_sys_admin': {
                'helper_command': f'{privsep} --config-file {path}'
            },
            # It would ask the API's database at each live migration.
            'workarounds': {'disable_group_policy_check_upcall': 'true'},
        },
        the_plan.options,
        host.options,
    )


def _common(basics: config.Basics) -> plan.Options:
    auth = basics.auth()
    levels = [f'{name}=WARN' for name in _QUIET]
    levels += [f'{name}=INFO' for name in _BRIEF]
    return {
        'DEFAULT': {
            'debug': 'true',
            'default_log_levels': ','.join(levels),
            'graceful_shutdown_timeout': 2,
            'manager_shutdown_timeout': 1,
            'state_path': basics.layout.path('nova'),
            'my_ip': ports.LOOPBACK,
        },
        'keystone_authtoken': basics.token(),
        'placement': auth,
        'neutron': auth,
        'service_user': {**auth, 'send_service_user_token': 'true'},
        'glance': {'region_name': config.REGION},
        'oslo_concurrency': basics.lock(),
        'vnc': {'enabled': 'false'},
        'wsgi': {
            'api_paste_config': config.PREFIX_ETC / 'nova' / 'api-paste.ini'
        },
        # No nova-compute can reach the scheduler.
        'filter_scheduler': {'track_instance_changes': 'false'},
        'conductor': {'workers': 1},
        'scheduler': {'workers': 1},
    }
