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

"""What a test asks of Nova, placement and glance."""

import dataclasses
import time
from typing import Any

from tests.lab.stack import errors, processes, rest

# 2.84 shows the details of events, 2.96 is what Nova 31 knows.
_NOVA = {'X-OpenStack-Nova-API-Version': '2.96'}
# The last one that shows what is in use of a host.
_USAGE = {'X-OpenStack-Nova-API-Version': '2.87'}
_PLACEMENT = {'OpenStack-API-Version': 'placement 1.39'}

# Seconds between two looks at a server, which cost Nova more than a test.
_INTERVAL = 0.5

_MOVING = ('BUILD', 'HARD_REBOOT', 'MIGRATING', 'REBUILD', 'REBOOT')


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A server, as it was when it was last looked at.

    :param domain: the name that libvirt knows it by
    :param host: empty if it is on none
    :param fault: what its owner is told of an error
    """

    uuid: str
    status: str
    domain: str
    host: str
    fault: str


@dataclasses.dataclass(frozen=True, slots=True)
class Event:
    """Something that a host did for a request of a server's owner.

    :param action: such as create
    :param request_id: what it is found by in logs
    :param details: what went wrong
    """

    action: str
    request_id: str
    name: str
    host: str
    result: str
    details: str


class Client:
    """The administrator's view of a lab."""

    def __init__(self, caller: rest.Rest) -> None:
        self._rest = caller

    def nova(self, method: str, path: str, body: Any = None) -> Any:
        """A request to Nova's API."""
        return self._rest.call('nova', method, f'/v2.1{path}', body, _NOVA)

    def image(self, name: str, data: bytes) -> str:
        """Make an image of a raw disk."""
        made = self._rest.call(
            'glance',
            'POST',
            '/v2/images',
            {'name': name, 'disk_format': 'raw', 'container_format': 'bare'},
        )
        self._rest.call('glance', 'PUT', f'/v2/images/{made["id"]}/file', data)
        return str(made['id'])

    def flavor(
        self, name: str, memory: int, specs: dict[str, str], vcpus: int = 1
    ) -> str:
        """Make a flavor.

        :param memory: MiB
        :param specs: extra specs
        """
        made = self.nova(
            'POST',
            '/flavors',
            {
                'flavor': {
                    'name': name,
                    'ram': memory,
                    'vcpus': vcpus,
                    'disk': 1,
                }
            },
        )['flavor']
        if specs:
            self.nova(
                'POST',
                f'/flavors/{made["id"]}/os-extra_specs',
                {'extra_specs': specs},
            )
        return str(made['id'])

    def boot(
        self,
        name: str,
        image: str,
        flavor: str,
        host: str = '',
        forced: bool = False,
    ) -> str:
        """Ask for a server.

        :param host: the only host that the filters are to look at
        :param forced: no filter is asked
        """
        body = {
            'name': name,
            'imageRef': image,
            'flavorRef': flavor,
            'networks': 'none',
        }
        if forced:
            body['availability_zone'] = f'nova:{host}'
        elif host:
            body['host'] = host
        made = self.nova('POST', '/servers', {'server': body})
        return str(made['server']['id'])

    def server(self, uuid: str) -> Server:
        found = self.nova('GET', f'/servers/{uuid}')['server']
        return Server(
            uuid=uuid,
            status=found['status'],
            domain=found['OS-EXT-SRV-ATTR:instance_name'],
            host=found['OS-EXT-SRV-ATTR:host'] or '',
            fault=found.get('fault', {}).get('message', ''),
        )

    def settled(self, uuid: str, seconds: float = 180) -> Server:
        """Wait until Nova is done with a server.

        :raises LabError: it is not, in time
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.nova('GET', f'/servers/{uuid}')['server']
            task = found['OS-EXT-STS:task_state']
            if found['status'] not in _MOVING and (
                task is None or found['status'] == 'ERROR'
            ):
                return self.server(uuid)
            time.sleep(_INTERVAL)
        raise errors.LabError(f'Nova is not done with {self.server(uuid)}')

    def act(self, uuid: str, action: str, arguments: Any = None) -> Server:
        """Do something to a server, and wait until Nova is done with it."""
        self.nova('POST', f'/servers/{uuid}/action', {action: arguments})
        return self.settled(uuid)

    def delete(self, *uuids: str, seconds: float = 120) -> None:
        """Delete servers, all at once, and wait until they are gone.

        :raises LabError: they are not, in time
        """
        for uuid in uuids:
            try:
                self.nova('DELETE', f'/servers/{uuid}')
            except rest.RestError as exc:
                if exc.status != 404:
                    raise
        left = [*uuids]

        def gone() -> bool:
            left[:] = [uuid for uuid in left if not self._is_gone(uuid)]
            return not left

        if not processes.poll(gone, seconds, _INTERVAL):
            raise errors.LabError(f'{self.server(left[0])} is not deleted')

    def _is_gone(self, uuid: str) -> bool:
        try:
            self.nova('GET', f'/servers/{uuid}')
        except rest.RestError as exc:
            if exc.status == 404:
                return True
            raise
        return False

    def events(self, uuid: str) -> list[Event]:
        """What hosts have done for a server, oldest first.

        Those of one second are in no order: Nova tells no smaller time.
        """
        path = f'/servers/{uuid}/os-instance-actions'
        found = []
        for action in self.nova('GET', path)['instanceActions']:
            request_id = action['request_id']
            got = self.nova('GET', f'{path}/{request_id}')['instanceAction']
            found += [
                (
                    event['start_time'],
                    Event(
                        action=action['action'],
                        request_id=request_id,
                        name=event['event'],
                        host=event.get('host') or '',
                        result=event['result'] or '',
                        details=event.get('details') or '',
                    ),
                )
                for event in got['events']
            ]
        return [event for _, event in sorted(found, key=lambda pair: pair[0])]

    def migrations(self, uuid: str) -> list[str]:
        """The status of each migration of a server."""
        found = self.nova('GET', f'/os-migrations?instance_uuid={uuid}')
        return [migration['status'] for migration in found['migrations']]

    def memory_used(self) -> dict[str, int]:
        """What Nova counts as used of each host's memory, in MiB."""
        found = self._rest.call(
            'nova', 'GET', '/v2.1/os-hypervisors/detail', headers=_USAGE
        )
        return {
            one['hypervisor_hostname']: one['memory_mb_used']
            for one in found['hypervisors']
        }

    def heard_of(self, host: str) -> str:
        """When the nova-compute of a host said last that it is alive."""
        found = self._rest.call(
            'nova', 'GET', f'/v2.1/os-services?binary=nova-compute&host={host}'
        )
        [service] = found['services']
        return str(service['updated_at'])

    def allocations(self, uuid: str) -> dict[str, Any]:
        """What a server holds of hosts, by the hosts' resource providers."""
        found = self._rest.call(
            'placement',
            'GET',
            f'/allocations/{uuid}',
            headers=_PLACEMENT,
        )
        return dict(found['allocations'])
