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

"""The properties of an image, from Glance."""

from typing import Any

from nova_numa_guard.cloud import errors

_INSTEAD = 'Say instead what counts of it: --image-property KEY=VALUE.'


def properties(name: str) -> dict[str, str]:
    """The properties of an image.

    Glance is asked as the command ``openstack`` would ask it: by the variables
    OS_* of the environment, or by clouds.yaml.

    :param name: of the image, or its id
    :raises CloudError: it is not there, or Glance cannot be asked
    """
    # It takes a second, and only an image needs it.
    import keystoneauth1.exceptions
    import openstack
    import openstack.exceptions

    try:
        image: Any = openstack.connect().image.find_image(name)
    except (
        keystoneauth1.exceptions.ClientException,
        openstack.exceptions.SDKException,
    ) as exc:
        raise errors.CloudError(
            f'Glance cannot be asked for image {name}: {exc}. {_INSTEAD}'
        ) from exc
    if image is None:
        raise errors.CloudError(
            f'There is no image {name}. openstack image list lists them.'
        )
    return {
        key: str(value)
        for key, value in image.to_dict().items()
        if key.startswith(('hw_', 'trait:', 'os_')) and value is not None
    }
