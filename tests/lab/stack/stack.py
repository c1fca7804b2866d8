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

"""A Nova on one machine, from keystone to QEMU."""

from collections.abc import Callable, Iterable
import concurrent.futures
import functools
import json
import logging
import os
import pathlib
import signal
import types

from tests.lab.stack import (
    broker,
    config,
    database,
    errors,
    hosts,
    hugepages,
    layout,
    nova,
    plan,
    ports,
    preflight,
    processes,
    rest,
    services,
)

LOG = logging.getLogger(__name__)

# What others need until they have stopped; these are stopped in this order.
_LAST = ('rabbitmq', 'epmd', 'mariadb')


class Stack:
    """A lab, in its folder.

    :param root: the folder
    :param plan_text: the plan, as JSON
    :param port: ports by name
    :param pages: huge pages that were added to the pool
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        plan_text: str,
        port: dict[str, int],
        pages: int = 0,
    ) -> None:
        self.layout = layout.Layout(root)
        self.plan = plan.parse(plan_text)
        self.processes = processes.Processes(self.layout)
        self.basics = config.Basics(self.layout, port)
        self.hosts = {
            host.name: hosts.ComputeHost(
                host,
                self.layout,
                self.processes,
                f'lab-{port["nova"]}-{host.name}',
            )
            for host in self.plan.hosts
        }
        self._plan_text = plan_text
        self._pages = pages
        self._services = services.Services(self.basics, self.processes)
        self._nova = nova.Nova(
            self.basics, self.plan, self.processes, self._services, self.hosts
        )

    @classmethod
    def load(cls, root: str | os.PathLike[str]) -> 'Stack':
        """A lab that was brought up before.

        :raises LabError: there is none
        """
        state = layout.Layout(root).state
        try:
            kept = json.loads(state.read_text())
        except FileNotFoundError:
            raise errors.LabError(f'there is no lab in {root}') from None
        return cls(root, kept['plan'], kept['ports'], kept['pages'])

    @classmethod
    def up(
        cls,
        root: str | os.PathLike[str],
        plan_path: pathlib.Path = plan.DEFAULT,
        first_port: int | None = None,
    ) -> 'Stack':
        """Bring a lab up in a new folder; if that fails, nothing is left.

        :raises LabError: it cannot be brought up
        """
        stack = cls(root, plan_path.read_text(), ports.choose(first_port))
        preflight.check()
        hugepages.lock()
        stack.layout.create({h.name: h.address for h in stack.plan.hosts})
        former = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            stack._start()
        except BaseException:
            LOG.info('Stopping what was started')
            stack.processes.give_up()
            stack.down()
            raise
        finally:
            signal.signal(signal.SIGTERM, former)
        return stack

    def down(self) -> None:
        """Stop everything, and give the huge pages back.

        :raises LabError: something is left
        """
        libvirtds = [host.libvirtd for host in self.hosts.values()]
        last = [*libvirtds, *_LAST]
        first = [n for n in self.processes.names() if n not in last]
        stop = self.processes.stop
        steps: tuple[Callable[[], None], ...] = (
            functools.partial(stop, first),
            functools.partial(stop, libvirtds),
            *(host.clear for host in self.hosts.values()),
            *(functools.partial(stop, [name]) for name in _LAST),
            self.processes.clear,
            self._remove_pages,
        )
        complaints = []
        for step in steps:
            try:
                step()
            except (errors.LabError, OSError) as exc:
                complaints.append(str(exc))
        if complaints:
            raise errors.LabError('; '.join(complaints))

    @property
    def running(self) -> dict[str, hosts.ComputeHost]:
        """The hosts that are up, by name."""
        return {
            name: host
            for name, host in self.hosts.items()
            if self.processes.pid(host.libvirtd) is not None
        }

    def start_host(self, name: str) -> None:
        """Start a host that was not started with the lab.

        :raises LabError: it does not start
        """
        self._nova.configure(name, {})
        self.hosts[name].start()
        self._nova.start(name)
        self._join([name])

    def stop_host(self, name: str) -> None:
        """Stop a host that has no servers, and have Nova forget it.

        :raises LabError: something is left
        """
        host = self.hosts[name]
        self.processes.stop([name])
        try:
            self._nova.forget(rest.Rest(self.basics), name)
        finally:
            self.processes.stop([host.libvirtd])
            host.clear()

    def run_with(self, overrides: dict[str, plan.Options]) -> None:
        """Have Nova run as the plan says but for some options.

        :param overrides: by service: nova-scheduler, or the name of a host
            for its nova-compute
        :raises LabError: one of them does not start
        """
        self._nova.run_with(
            {
                service: overrides.get(service, {})
                for service in (nova.SCHEDULER, *self.running)
            }
        )

    def reload_scheduler(self, overrides: plan.Options) -> None:
        """Have the scheduler read its options anew while it runs.

        :raises LabError: it did not
        """
        self._nova.reload_scheduler(overrides)

    def run_to_end(self, service: str, overrides: plan.Options) -> int:
        """Start a service that should not come up, and return its exit code.

        :param service: as for run_with(); it is not running afterwards
        :raises LabError: it keeps running
        """
        self.processes.stop([service])
        self._nova.configure(service, overrides)
        self._nova.start(service)
        ended = processes.poll(
            lambda: self.processes.exit_code(service) is not None, 60
        )
        code = self.processes.exit_code(service)
        self.processes.stop([service])
        if not ended or code is None:
            raise errors.LabError(f'{service} runs in spite of {overrides}')
        return code

    def run_to_error(self, service: str, overrides: plan.Options) -> str:
        """Start a service that should not come up, and return why it did not.

        For a nova-compute whose driver has begun: on native threads it does
        not end then, because a thread of Nova's goes on waiting for libvirt.

        :param service: as for run_with(); it is not running afterwards
        :raises LabError: it has not failed
        """
        self.processes.stop([service])
        self._nova.configure(service, overrides)
        try:
            return self._nova.start_in_vain(service)
        finally:
            self.processes.stop([service])

    def _start(self) -> None:
        self._add_pages()
        self._services.configure()
        self._nova.configure_all()
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            try:
                self._start_control(pool)
            except BaseException:
                self.processes.give_up()
                raise
        self._start_computes()
        self.layout.path('openrc').write_text(config.openrc(self.basics))

    def _start_control(
        self, pool: concurrent.futures.ThreadPoolExecutor
    ) -> None:
        """Start all but nova-compute, as much as possible side by side."""

        def begin(
            what: str, step: Callable[..., None], *args: object
        ) -> 'concurrent.futures.Future[None]':
            def run() -> None:
                step(*args)
                LOG.info('%s is ready', what)

            return pool.submit(run)

        jobs = [
            begin(host.libvirtd, host.start)
            for host in self.hosts.values()
            if host.host.started
        ]
        bases = [
            begin('MariaDB', database.start, self.layout, self.processes),
            begin('RabbitMQ', broker.start, self.basics, self.processes),
        ]
        _finish(bases)
        keystone = begin('keystone', self._services.keystone)
        jobs += [
            keystone,
            begin('glance', self._services.glance),
            begin('neutron', self._services.neutron),
            begin('nova', self._nova.control, keystone),
            begin('placement', self._services.placement),
        ]
        _finish(jobs)

    def _start_computes(self) -> None:
        self._services.wait('placement')
        for name in self.running:
            self._nova.start(name)
        for name in ('glance', 'neutron', 'nova'):
            self._services.wait(name)
        # Neutron may answer 500 to a query for ports that is its very first.
        rest.Rest(self.basics).call('neutron', 'GET', '/v2.0/networks')
        self._join(self.running)

    def _join(self, names: Iterable[str]) -> None:
        """Wait until Nova has the hosts whose nova-compute was started."""
        client = rest.Rest(self.basics)
        for name in names:
            self.processes.wait_for(
                name, functools.partial(nova.is_up, client, name)
            )
            LOG.info('nova-compute on %s is ready', name)
        self._nova.map_hosts()

    def _add_pages(self) -> None:
        self._keep()
        hugepages.add(self.plan.pages)
        self._pages = self.plan.pages
        self._keep()

    def _remove_pages(self) -> None:
        hugepages.remove(self._pages)
        self._pages = 0
        self._keep()

    def _keep(self) -> None:
        """Write down what load() reads."""
        self.layout.state.write_text(
            json.dumps(
                {
                    'plan': self._plan_text,
                    'ports': self.basics.port,
                    'pages': self._pages,
                }
            )
        )


def _finish(jobs: list['concurrent.futures.Future[None]']) -> None:
    """Wait for jobs, and raise what the first of them to fail raised."""
    done, _ = concurrent.futures.wait(
        jobs, return_when=concurrent.futures.FIRST_EXCEPTION
    )
    for job in done:
        job.result()


def _interrupt(number: int, frame: types.FrameType | None) -> None:
    raise SystemExit(128 + number)
