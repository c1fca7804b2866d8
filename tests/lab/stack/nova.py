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

"""Nova's own services."""

from collections.abc import Callable
import concurrent.futures
import pathlib

from tests.lab.stack import (
    config,
    errors,
    hosts,
    nova_config,
    plan,
    processes,
    rest,
    services,
)

SCHEDULER = 'nova-scheduler'
CELL_CONDUCTOR = 'nova-conductor-cell1'

# What they write once they take requests.
_READY = 'Join ServiceGroup membership for this service'

# What they write before an exception that nobody handles.
_FAILED = ' CRITICAL nova '


class Nova:
    """An API, two conductors, a scheduler, and a nova-compute per host.

    One conductor is beside the API and the scheduler. The other has the cell,
    in which the hosts are.
    """

    def __init__(
        self,
        basics: config.Basics,
        the_plan: plan.Plan,
        processes: processes.Processes,
        the_services: services.Services,
        the_hosts: dict[str, hosts.ComputeHost],
    ) -> None:
        self._basics = basics
        self._plan = the_plan
        self._processes = processes
        self._services = the_services
        self._hosts = the_hosts

    def configure(self, service: str, overrides: plan.Options) -> pathlib.Path:
        """Write the file of a service.

        :param service: nova-scheduler, or the name of a host
        :param overrides: what differs from the plan
        """
        path = self._file(service)
        if service in self._hosts:
            host = self._plan.host(service)
            options = nova_config.compute(self._basics, self._plan, host, path)
        elif service == CELL_CONDUCTOR:
            options = nova_config.cell(self._basics, self._plan)
        else:
            options = nova_config.control(self._basics, self._plan)
        config.write(path, plan.merge(options, overrides))
        return path

    def configure_all(self) -> None:
        """Write the files of all services, as the plan says."""
        for service in (
            'nova',
            SCHEDULER,
            CELL_CONDUCTOR,
            *self._hosts,
        ):
            self.configure(service, {})

    def control(self, keystone: 'concurrent.futures.Future[None]') -> None:
        """Make the schemas, and start everything but nova-compute.

        :param keystone: done when the catalog is filled. A conductor that
            starts before that never finds placement, and cannot reschedule.
        """
        manage = self._manage('nova')
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            cell = pool.submit(
                self._manage(CELL_CONDUCTOR),
                *('db', 'sync', '--local_cell'),
            )
            manage('api_db', 'sync')
            database_url = self._basics.layout.database_url
            manage(
                *('cell_v2', 'map_cell0'),
                f'--database_connection={database_url("nova_cell0")}',
            )
            manage('db', 'sync', '--local_cell')
            manage(
                *('cell_v2', 'create_cell', '--name=cell1'),
                f'--database_connection={database_url("nova_cell1")}',
                f'--transport-url={self._basics.transport_url(config.CELL)}',
            )
            cell.result()
        keystone.result()
        self._start('nova-conductor', 'nova-conductor', self._file('nova'))
        self._start(
            CELL_CONDUCTOR, 'nova-conductor', self._file(CELL_CONDUCTOR)
        )
        self.start(SCHEDULER)
        self._services.serve(
            'nova',
            'nova.wsgi.osapi_compute',
            OS_NOVA_CONFIG_FILES=(
                f'{config.PREFIX_ETC}/nova/api-paste.ini;nova.conf'
            ),
        )

    def start(self, service: str) -> None:
        """Start nova-scheduler, or the nova-compute of a host."""
        if service in self._hosts:
            self._start(
                service,
                'nova-compute',
                self._file(service),
                *self._hosts[service].inside(),
            )
        elif service == SCHEDULER:
            self._start(service, service, self._file(service))
        else:
            raise errors.LabError(f'{service} is not started by itself')

    def run_with(self, overrides: dict[str, plan.Options]) -> None:
        """Have services run with some options, and wait for them.

        They are started anew only if they do not run, or run with others.

        :param overrides: by service, what differs from the plan
        :raises LabError: one of them does not start
        """
        changed = []
        for service, options in overrides.items():
            former = self._file(service).read_text()
            wanted = self.configure(service, options).read_text()
            if wanted != former or self._processes.pid(service) is None:
                changed.append(service)
        self._processes.stop(changed)
        ready = {service: self._ready_again(service) for service in changed}
        for service in changed:
            self.start(service)
        for service in changed:
            self._processes.wait_for(service, ready[service])

    def start_in_vain(self, service: str) -> str:
        """Start a service, and wait for the line that says why it fails.

        :raises LabError: there is none
        """
        written = self._written(service)

        def found() -> list[str]:
            lines = written().splitlines()
            return [line for line in lines if _FAILED in line]

        self.start(service)
        self._processes.wait_for(service, lambda: bool(found()), 60)
        return found()[0]

    def reload_scheduler(self, overrides: plan.Options) -> None:
        """Send SIGHUP to the scheduler, and wait until it has read on it.

        :param overrides: what differs from the plan
        :raises LabError: it did not
        """
        self.configure(SCHEDULER, overrides)
        ready = self._ready_again(SCHEDULER)
        self._processes.hang_up(SCHEDULER)
        self._processes.wait_for(SCHEDULER, ready)

    def _ready_again(self, service: str) -> Callable[[], bool]:
        """Whether a service has become ready since this was called."""
        written = self._written(service)
        return lambda: _READY in written()

    def _written(self, service: str) -> Callable[[], str]:
        """What a service has written since this was called."""
        path = self._basics.layout.log(service)
        size = path.stat().st_size

        def written() -> str:
            with path.open('rb') as log:
                log.seek(size)
                return log.read().decode(errors='replace')

        return written

    def map_hosts(self) -> None:
        """Let the API know the hosts that have come up."""
        self._manage('nova')('cell_v2', 'discover_hosts')

    def forget(self, client: rest.Rest, host: str) -> None:
        """Have Nova know nothing of a host whose nova-compute is stopped."""
        path = '/v2.1/os-services'
        headers = {'X-OpenStack-Nova-API-Version': '2.53'}
        found = client.call(
            'nova', 'GET', f'{path}?host={host}', headers=headers
        )
        for service in found['services']:
            client.call(
                'nova', 'DELETE', f'{path}/{service["id"]}', headers=headers
            )
        # With another one it is another host if it is ever started again.
        self._basics.layout.host(host, 'compute_id').unlink(missing_ok=True)

    def _start(
        self, name: str, program: str, path: pathlib.Path, *before: str
    ) -> None:
        self._processes.start(
            name,
            [*before, str(services.BIN / program), f'--config-file={path}'],
        )

    def _manage(self, service: str) -> services.Manage:
        return services.Manage(
            self._processes,
            f'manage-{service}',
            'nova-manage',
            f'--config-file={self._file(service)}',
        )

    def _file(self, service: str) -> pathlib.Path:
        return self._basics.layout.etc('nova', f'{service}.conf')


def is_up(client: rest.Rest, host: str) -> bool:
    """Whether a nova-compute is alive and has told placement of its host."""
    found = client.call(
        'nova', 'GET', f'/v2.1/os-services?binary=nova-compute&host={host}'
    )['services']
    providers = client.call(
        'placement', 'GET', f'/resource_providers?name={host}'
    )['resource_providers']
    return bool(providers) and any(s['state'] == 'up' for s in found)
