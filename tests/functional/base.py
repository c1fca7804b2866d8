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

"""Nova's API, conductor, scheduler, placement and computes in one process.

The computes are Nova's fake libvirt with the guard's driver on it, and each
has kernel files of its own, which show the pages that its libvirt shows.
"""

import time

import fixtures
from nova import context, objects
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base
from oslo_utils import units

from nova_numa_guard import conf, fixture, sets
from nova_numa_guard.scheduler import filters, weights
from tests.functional import qemu

DRIVER = 'numa_guard.NUMAGuardDriver'
HUGE = {'hw:mem_page_size': '2048'}
PINNED = {'hw:cpu_policy': 'dedicated'}
SMALL = {'hw:numa_nodes': '1'}


def host_info(*cells, cpus=8):
    """A host for Nova's fake libvirt.

    :param cells: for each NUMA cell its pages by size in KiB
    :param cpus: CPUs of the host as a whole
    """
    cores = cpus // len(cells)
    info = fakelibvirt.HostInfo(
        cpu_nodes=len(cells),
        cpu_sockets=1,
        cpu_cores=cores,
        cpu_threads=1,
        # Nova's fake libvirt hands this out where MiB are asked for.
        kB_mem=sum(
            size * pages for pools in cells for size, pages in pools.items()
        )
        // units.Ki,
    )
    for cell, pools in zip(info.numa_topology.cells, cells, strict=True):
        cell.memory = sum(size * pages for size, pages in pools.items())
        cell.mempages = fakelibvirt.create_mempages(pools.items())
    return info


def pages(small_mib, huge=0, giant=0):
    """A cell's pages: MiB of 4 KiB pages, 2 MiB pages, 1 GiB pages."""
    return {
        4: small_mib * units.Ki // 4,
        2048: huge,
        units.Mi: giant,
    }


def show_pools(kernel, info):
    """Let a kernel's files show the huge pages that a fake libvirt shows."""
    for cell in info.numa_topology.cells:
        for page in cell.mempages:
            if page.size > 4:
                kernel.set_pool(
                    cell.id, page.size, total=page.total, free=page.total
                )
                kernel.set_bound(page.size)


def cells_of(floating):
    """The cells that floating_cells names."""
    return sets.parse(floating) if floating else frozenset()


class GuardTestCase(base.ServersTestBase):
    """Servers on computes with the guard; starts none by itself."""

    ADMIN_API = True
    api_major_version = 'v2.1'
    microversion = 'latest'
    CAST_AS_CALL = False
    GUARD = {'isolation': 'host'}
    FILTER = True

    def setUp(self):
        self.kernels, self.followed = {}, {}
        super().setUp()
        self.useFixture(qemu.Domains())
        recorded = self.useFixture(qemu.RecordedXML())
        self.xml, self.stock_xml = recorded.written, recorded.stock
        self.admin_context = context.get_admin_context()

    def _setup_compute_service(self):
        pass  # start_host() does

    def _setup_scheduler_service(self):
        conf.register_opts(filters.CONF)
        self.flags(page_wait=1, host_boot_wait=1, group='numa_guard')
        self.flags(group='numa_guard', **self.GUARD)
        enabled = list(filters.CONF.filter_scheduler.enabled_filters)
        self.flags(
            group='filter_scheduler',
            available_filters=[
                'nova.scheduler.filters.all_filters',
                f'{filters.__name__}.NUMAGuardFilter',
            ],
            enabled_filters=[
                *enabled,
                *(['NUMAGuardFilter'] if self.FILTER else []),
                'NUMATopologyFilter',
            ],
            weight_classes=[
                'nova.scheduler.weights.all_weighers',
                f'{weights.__name__}.NUMAGuardWeigher',
            ],
        )
        return self.start_service('scheduler')

    def start_host(
        self,
        name,
        *cells,
        cpus=8,
        driver=DRIVER,
        floating='',
        ids=(),
        pci_info=None,
    ):
        """Start a compute whose kernel has just the pages that Nova sees.

        Half of its CPUs, the lower ones of each cell, are shared; all those
        of its floating cells are.

        :param floating: its floating cells, under isolation by cell
        :param ids: of its cells, if not 0, 1, 2…
        """
        info = host_info(*cells, cpus=cpus)
        for cell, number in zip(info.numa_topology.cells, ids, strict=False):
            cell.id = number
        size = cpus // len(cells)
        shared = {
            i
            for i in range(cpus)
            if i % size < size // 2 or i // size in cells_of(floating)
        }
        self.flags(
            group='compute',
            cpu_shared_set=sets.text(shared),
            cpu_dedicated_set=sets.text(set(range(cpus)) - shared),
        )
        self.flags(group='numa_guard', floating_cells=floating)
        self.flags(compute_driver=driver)
        kernel = self.useFixture(fixture.KernelFixture())
        show_pools(kernel, info)
        self.kernels[name] = kernel
        self.followed[name] = qemu.Kernel(kernel.kernel)
        self.start_compute(hostname=name, host_info=info, pci_info=pci_info)

    def start_compute(self, hostname='compute1', *args, **kwargs):
        """Let a compute read its host's files, from the start.

        What its guests have in use, they show as that.
        """
        kernel = self.followed[hostname]
        with fixtures.MonkeyPatch(
            'nova_numa_guard.pools.Kernel', lambda: kernel
        ):
            super().start_compute(hostname, *args, **kwargs)
        kernel.follow(self.computes[hostname].driver._host.get_connection())
        return hostname

    def take_down(self, host):
        """Stop a compute, and tell Nova that it is gone."""
        self.computes[host].stop()
        self.api.put_service_force_down(
            self.computes[host].service_ref.uuid, True
        )

    def bring_up(self, host):
        """Start a compute that was taken down."""
        self.restart_compute_service(host)
        self.api.put_service_force_down(
            self.computes[host].service_ref.uuid, False
        )

    def flavor(self, memory_mb=1024, vcpu=1, **specs):
        return self._create_flavor(
            memory_mb=memory_mb, vcpu=vcpu, disk=1, extra_spec=specs
        )

    def boot(self, flavor, expected_state='ACTIVE', **kwargs):
        """Boot a server without a network, and wait for its state."""
        return self._create_server(
            flavor_id=flavor,
            networks='none',
            expected_state=expected_state,
            **kwargs,
        )

    def force(self, flavor, host, expected_state='ACTIVE'):
        """Boot a server on a host that no filter is asked about."""
        body = self._build_server(
            flavor_id=flavor, networks='none', az=f'nova:{host}'
        )
        server = self.api.post_server({'server': body})
        return self.settled(server, expected_state)

    SETTLED = ('ACTIVE', 'ERROR', 'SHELVED_OFFLOADED', 'SHUTOFF')

    def settled(self, server, *statuses, seconds=240):
        """Wait until nothing is being done with a server any more.

        :param statuses: one of which it is to have, if not any of SETTLED
        """
        deadline = time.monotonic() + seconds
        while True:
            found = self.api.get_server(server['id'])
            idle = found['OS-EXT-STS:task_state'] is None
            if idle and found['status'] in (statuses or self.SETTLED):
                return found
            self.assertLess(time.monotonic(), deadline, found)
            time.sleep(0.05)

    def attach(self, server, volume):
        """Attach a volume to a server."""
        self.api.post_server_volume(
            server['id'], {'volumeAttachment': {'volumeId': volume}}
        )
        self._wait_for_volume_attach(server['id'], volume)
        self.notifier.wait_for_versioned_notifications(
            'instance.volume_attach.end'
        )

    def gone(self, *servers, seconds=240):
        """Delete servers, and wait until they are no more."""
        for server in servers:
            self.api.delete_server(server['id'])
        deadline = time.monotonic() + seconds
        wanted = {server['id'] for server in servers}
        while wanted & {
            server['id'] for server in self.api.get_servers(False)
        }:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def look(self):
        """Have every compute report."""
        self._run_periodics()

    def guests_on(self, host):
        """The kinds of the guests on a host, by Nova's records."""
        found = objects.InstanceList.get_by_host(
            self.admin_context, host, expected_attrs=['numa_topology']
        )
        return {
            'affined' if instance.numa_topology else 'floating'
            for instance in found
        }

    def host_of(self, server):
        return self.api.get_server(server['id'])['OS-EXT-SRV-ATTR:host']

    def events(self, server, name='compute_numa_guard_page_check'):
        """The refusals of a server by the second: (host, details)."""
        found = []
        for action in self.api.get_instance_actions(server['id']):
            detail = self.api.api_get(
                '/servers/{}/os-instance-actions/{}'.format(
                    server['id'], action['request_id']
                )
            ).body['instanceAction']
            found += [
                (event['start_time'], event['host'], event['details'])
                for event in detail['events']
                if event['event'] == name
            ]
        return [(host, details) for _, host, details in sorted(found)]
