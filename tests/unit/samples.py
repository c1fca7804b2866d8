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

"""Domains, hosts, requests and instances for the tests, made by Nova."""

import json
import os

from nova import context as nova_context
from nova import objects
from nova.network import model
from nova.objects import fields
from nova.scheduler import host_manager
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import designer
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import isolation, occupancy
from nova_numa_guard import report as reports

GIANT = 1048576
HUGE = 2048
SMALL = os.sysconf('SC_PAGESIZE') // 1024


def guest_config(*cells, cpus_per_cell=2):
    """The configuration object of a domain, filled in as Nova's driver does.

    :param cells: for each guest cell its host node, KiB, and the KiB of its
        huge pages or None; without cells the guest is a floating one
    """
    guest = vconfig.LibvirtConfigGuest()
    guest.virt_type = 'kvm'
    guest.uuid = uuids.instance
    guest.name = 'instance-0000001'
    guest.memory = sum(memory for _, memory, _ in cells) or 65536
    guest.vcpus = cpus_per_cell * (len(cells) or 1)
    guest.os_type = 'hvm'
    guest.cpu = vconfig.LibvirtConfigGuestCPU()
    guest.cpu.model = 'Nehalem'
    if not cells:
        return guest

    guest.cpu.numa = vconfig.LibvirtConfigGuestCPUNUMA()
    guest.cputune = vconfig.LibvirtConfigGuestCPUTune()
    guest.cputune.emulatorpin = vconfig.LibvirtConfigGuestCPUTuneEmulatorPin()
    guest.cputune.emulatorpin.cpuset = set()
    guest.numatune = vconfig.LibvirtConfigGuestNUMATune()
    guest.numatune.memory = vconfig.LibvirtConfigGuestNUMATuneMemory()
    pages = []
    for index, (node, memory, page_size) in enumerate(cells):
        cell = vconfig.LibvirtConfigGuestCPUNUMACell()
        cell.id = index
        first = index * cpus_per_cell
        cell.cpus = set(range(first, first + cpus_per_cell))
        cell.memory = memory
        if page_size:
            cell.memAccess = 'shared'
        guest.cpu.numa.cells.append(cell)
        memnode = vconfig.LibvirtConfigGuestNUMATuneMemNode()
        designer.set_numa_memnode(memnode, index, node)
        guest.numatune.memnodes.append(memnode)
        guest.numatune.memory.nodeset.append(node)
        for cpu in sorted(cell.cpus):
            pin = vconfig.LibvirtConfigGuestCPUTuneVCPUPin()
            pin.id = cpu
            pin.cpuset = {8 + cpu}
            guest.cputune.vcpupin.append(pin)
            guest.cputune.emulatorpin.cpuset |= pin.cpuset
        if page_size:
            page = vconfig.LibvirtConfigGuestMemoryBackingPage()
            page.size_kb = page_size
            page.nodeset = [index]
            pages.append(page)
    if hasattr(guest.cputune, 'iothreadpin'):  # Nova 2026.1 and later
        pin = vconfig.LibvirtConfigGuestCPUTuneIOThreadPin()
        pin.iothread = 1
        pin.cpuset = guest.cputune.emulatorpin.cpuset
        guest.cputune.iothreadpin.append(pin)
    if pages:
        guest.membacking = vconfig.LibvirtConfigGuestMemoryBacking()
        guest.membacking.hugepages = pages
    return guest


def domain_xml(*cells):
    """The XML that Nova writes for such a domain."""
    return guest_config(*cells).to_xml()


def nova_guest(*cells, name='instance-00000001', uuid=None, disk='disk'):
    """A domain with the metadata that Nova puts into each, and with a disk.

    libvirt's own test driver takes it.
    """
    guest = guest_config(*cells)
    guest.name, guest.uuid = name, uuid or uuids.instance
    guest.virt_type, guest.cpu.model, guest.cputune = 'test', None, None
    meta = vconfig.LibvirtConfigGuestMetaNovaInstance()
    meta.name, meta.package = 'web', '34.0.0'
    guest.metadata.append(meta)
    device = vconfig.LibvirtConfigGuestDisk()
    device.source_type = 'file'
    device.source_path = f'/var/lib/nova/instances/{guest.uuid}/{disk}'
    device.target_dev, device.target_bus = 'vda', 'virtio'
    guest.add_device(device)
    return guest.to_xml()


# What libvirt prints of a running guest: its own quotes, units everywhere.
LIBVIRT_XML = """\
<domain type='kvm' id='7'>
  <name>instance-00000007</name>
  <memory unit='KiB'>2097152</memory>
  <currentMemory unit='KiB'>2097152</currentMemory>
  <memoryBacking>
    <hugepages>
      <page size='2048' unit='KiB' nodeset='0'/>
    </hugepages>
  </memoryBacking>
  <vcpu placement='static'>2</vcpu>
  <numatune>
    <memory mode='strict' nodeset='0-1'/>
    <memnode cellid='0' mode='strict' nodeset='0'/>
    <memnode cellid='1' mode='strict' nodeset='1'/>
  </numatune>
  <cpu mode='host-model' check='partial'>
    <numa>
      <cell id='0' cpus='0' memory='1048576' unit='KiB' memAccess='shared'/>
      <cell id='1' cpus='1' memory='1048576' unit='KiB'/>
    </numa>
  </cpu>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
  </devices>
</domain>
"""


def domain_text(backing='', numatune='', cells='', devices='', extra=''):
    """A small domain in text, for what Nova's objects cannot write."""
    return (
        f'<domain type="kvm"><memoryBacking>{backing}</memoryBacking>'
        f'<numatune>{numatune}</numatune><cpu><numa>{cells}</numa></cpu>'
        f'<devices>{devices}</devices>{extra}</domain>'
    )


def host_cell(index, memory=8192, huge=0, **usage):
    """One NUMA cell of a host: eight shared CPUs and eight dedicated ones.

    :param memory: MiB, the huge pages included
    :param huge: how many huge pages; the other pages are small
    """
    first = index * 16
    shared = set(range(first, first + 8))
    dedicated = set(range(first + 8, first + 16))
    values = {
        'id': index,
        'cpuset': shared,
        'pcpuset': dedicated,
        'memory': memory,
        'cpu_usage': 0,
        'memory_usage': 0,
        'pinned_cpus': set(),
        'siblings': [
            {cpu, cpu + 1} for cpu in sorted(shared | dedicated)[::2]
        ],
        'mempages': [
            objects.NUMAPagesTopology(
                size_kb=SMALL,
                total=(memory * 1024 - huge * HUGE) // SMALL,
                used=0,
            ),
            objects.NUMAPagesTopology(size_kb=HUGE, total=huge, used=0),
        ],
        'network_metadata': objects.NetworkMetadata(
            physnets=set(), tunneled=False
        ),
        'socket': index,
        **usage,
    }
    return objects.NUMACell(**values)


# A host cell as [DEFAULT] vcpu_pin_set makes it. On a host with threads, it
# is the only one on which Nova pins guests that isolate their threads.
PIN_SET = {'cpuset': set(range(16)), 'pcpuset': set(range(16))}


def record(
    kind='none',
    enforce=True,
    reserved=512,
    reserved_cpus=0,
    cells=None,
    **values,
):
    """What a compute host has reported.

    :param kind: of isolation
    :param reserved: MiB that the host keeps for itself
    :param cells: report.FloatingCells
    :param values: of report.Report, or of its correction
    """
    correction = {
        field: values.pop(field)
        for field in (
            'unseen_memory',
            'unseen_vcpus',
            'exempt_floating',
            'exempt_affined',
        )
        if field in values
    }
    return reports.Report(
        isolation=isolation.Isolation(kind),
        enforce=enforce,
        correction=occupancy.Correction(
            reserved_memory=reserved, reserved_cpus=reserved_cpus, **correction
        ),
        floating_cells=cells,
        **values,
    )


def record_text(*args, **values):
    """The same, as it is in the stats of a compute node."""
    return reports.encode(record(*args, **values))


def compute_node(
    cells=(), memory=16384, used=512, vcpus_used=0, stats=None, **values
):
    """A compute node as the scheduler reads it from the database."""
    topology = objects.NUMATopology(cells=list(cells)) if cells else None
    values = {
        'cpu_allocation_ratio': 4.0,
        'ram_allocation_ratio': 1.0,
        **values,
    }
    return objects.ComputeNode(
        uuid=uuids.node,
        host='host1',
        hypervisor_hostname='node1',
        hypervisor_type='QEMU',
        hypervisor_version=9000000,
        host_ip='192.0.2.1',
        cpu_info='{}',
        memory_mb=memory,
        memory_mb_used=used,
        free_ram_mb=memory - used,
        vcpus=32,
        vcpus_used=vcpus_used,
        local_gb=100,
        local_gb_used=0,
        free_disk_gb=100,
        disk_available_least=None,
        numa_topology=topology._to_json() if topology else None,
        pci_device_pools=objects.PciDevicePoolList(objects=[]),
        supported_hv_specs=[],
        metrics='[]',
        stats=stats if stats is not None else {'num_instances': '0'},
        updated_at=None,
        disk_allocation_ratio=1.0,
        **values,
    )


def host_state(
    *cells,
    host='host1',
    guests=0,
    report=None,
    cls=host_manager.HostState,
    aggregates=(),
    **v,
):
    """Nova's own HostState, updated from a compute node.

    :param guests: num_instances
    :param report: the text of the guard's record in the stats
    :param aggregates: of aggregate()
    """
    stats = {'num_instances': str(guests)}
    if report is not None:
        stats['numa_guard'] = report
    state = cls(host, 'node1', uuids.cell)
    state.limits['numa_topology'] = objects.NUMATopologyLimits(
        cpu_allocation_ratio=4.0, ram_allocation_ratio=1.0
    )
    state.update(
        compute=compute_node(cells, stats=stats, **v),
        aggregates=list(aggregates),
    )
    return state


def aggregate(name='racks', **metadata):
    """An aggregate with metadata of the guard's, as the scheduler has it."""
    return objects.Aggregate(
        name=name,
        metadata={f'numa_guard:{key}': word for key, word in metadata.items()},
    )


def guest_cell(
    memory=1024, cpus=(0, 1), pinned=False, page_size=None, node=0, **values
):
    """One NUMA cell of a guest."""
    shared, dedicated = (set(), set(cpus)) if pinned else (set(cpus), set())
    return objects.InstanceNUMACell(
        id=node,
        cpuset=shared,
        pcpuset=dedicated,
        memory=memory,
        pagesize=page_size,
        cpu_policy=fields.CPUAllocationPolicy.DEDICATED if pinned else None,
        **values,
    )


def flavor(memory=1024, vcpus=2, **extra_specs):
    """A flavor, with extra specs of the guard's."""
    return objects.Flavor(
        memory_mb=memory,
        vcpus=vcpus,
        root_gb=1,
        ephemeral_gb=0,
        swap=0,
        extra_specs={
            f'numa_guard:{key}': word for key, word in extra_specs.items()
        },
    )


def topology(*cells, emulator=None):
    """The NUMA topology of a guest; None without cells."""
    if not cells:
        return None
    return objects.InstanceNUMATopology(
        cells=list(cells), emulator_threads_policy=emulator
    )


def request(
    *cells,
    memory=1024,
    vcpus=2,
    hints=None,
    emulator=None,
    moves=False,
    **extra_specs,
):
    """A request for a guest: floating without cells, affined with them.

    :param moves: whether the guest has to leave a host
    """
    return objects.RequestSpec(
        instance_uuid=uuids.instance,
        numa_topology=topology(*cells, emulator=emulator),
        flavor=flavor(memory, vcpus, **extra_specs),
        pci_requests=objects.InstancePCIRequests(requests=[]),
        requested_resources=[],
        scheduler_hints=hints or {},
        ignore_hosts=['the-old-one'] if moves else None,
    )


def context():
    """Of a user; made without a look at Nova's policies."""
    return nova_context.RequestContext('user', 'project', is_admin=False)


def instance(*cells, **values):
    """An instance that this host has claimed."""
    values = {
        'uuid': uuids.instance,
        'host': 'this',
        'vm_state': 'building',
        'task_state': 'spawning',
        'numa_topology': topology(*cells),
        'flavor': flavor(),
        'old_flavor': None,
        'new_flavor': None,
        'migration_context': None,
        'image_ref': '',
        'system_metadata': {},
        'info_cache': objects.InstanceInfoCache(
            network_info=model.NetworkInfo()
        ),
        'pci_requests': objects.InstancePCIRequests(requests=[]),
        **values,
    }
    return objects.Instance(**values)


def contents(text):
    """What an object of Nova's says as text, to be compared.

    Nova writes the names of what has changed from a set: in any order.
    """

    def in_order(entry):
        if 'nova_object.changes' in entry:
            entry['nova_object.changes'].sort()
        return entry

    return json.loads(text, object_hook=in_order)
