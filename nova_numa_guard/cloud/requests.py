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

"""What a guest asks nova-scheduler for."""

from collections.abc import Mapping
import dataclasses
from typing import Any

from nova import context as nova_context
from nova import exception, objects
from nova.pci import request as pci_request
from nova.virt import hardware
from oslo_utils import uuidutils

from nova_numa_guard.cloud import config, errors


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request.

    :param spec: nova.objects.RequestSpec
    :param host: that the guest is on; empty if it is on none
    """

    spec: Any
    host: str = ''


def of_server(uuid: str) -> Request:
    """The request of a server, as Nova keeps it.

    One that is on a host is looked at as if it were to leave it: Nova has the
    scheduler ignore that host then.

    :raises CloudError: there is no such server, or it cannot be read
    """
    with config.reading() as context:
        try:
            mapping = objects.InstanceMapping.get_by_instance_uuid(
                context, uuid
            )
            spec = objects.RequestSpec.get_by_instance_uuid(context, uuid)
        except (
            exception.InstanceMappingNotFound,
            exception.RequestSpecNotFound,
        ) as exc:
            raise errors.CloudError(
                f'Nova keeps no request of a server {uuid}. It takes the UUID '
                'that openstack server list shows; a server that was deleted '
                'has none any more.'
            ) from exc
        host = ''
        if mapping.cell_mapping:
            with nova_context.target_cell(
                context, mapping.cell_mapping
            ) as cell_context:
                host = _host(cell_context, uuid)
        if host:
            spec.ignore_hosts = [host]
        return Request(spec, host)


def of_flavor(name: str, image: Mapping[str, str]) -> Request:
    """The request that a new server of a flavor would make.

    :param name: of the flavor, or its id
    :param image: properties of the image, as Glance has them
    :raises CloudError: there is no such flavor, or it and the image
        contradict each other
    """
    with config.reading() as context:
        flavor = _flavor(context, name)
        try:
            meta = objects.ImageMeta.from_dict({'properties': dict(image)})
            topology = hardware.numa_get_constraints(flavor, meta)
            pci = pci_request.get_pci_requests_from_flavor(flavor)
        except (exception.NovaException, ValueError) as exc:
            raise errors.CloudError(
                f'Nova would refuse a server of flavor {name}: {exc}'
            ) from exc
        spec = objects.RequestSpec.from_components(
            context,
            uuidutils.generate_uuid(),  # of no server
            meta,
            flavor,
            topology,
            pci,
            {},
            None,
            None,
        )
        return Request(spec)


def _host(context: Any, uuid: str) -> str:
    try:
        return (
            objects.Instance.get_by_uuid(context, uuid, expected_attrs=[]).host
            or ''
        )
    except exception.InstanceNotFound:
        return ''  # it is being deleted, or not built yet


def _flavor(context: Any, name: str) -> Any:
    for find in (objects.Flavor.get_by_name, objects.Flavor.get_by_flavor_id):
        try:
            return find(context, name)
        except exception.NotFound:
            continue
    raise errors.CloudError(
        f'There is no flavor {name}. openstack flavor list --all lists them.'
    )
