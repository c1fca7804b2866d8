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

"""Which pages an instance needs of this host, translated from Nova."""

from typing import Any

from nova import objects
import nova.conf
from nova.network import model
from nova.virt import hardware
from oslo_log import log as logging
from oslo_utils import units

from nova_numa_guard import guests, pools, tuning

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

# Ports whose device is passed through, for which VFIO or vhost-vdpa pins all
# memory of the guest: those of domain.is_preallocated().
_PINNING_PORTS = frozenset(
    (
        model.VNIC_TYPE_DIRECT,
        model.VNIC_TYPE_DIRECT_PHYSICAL,
        model.VNIC_TYPE_ACCELERATOR_DIRECT,
        model.VNIC_TYPE_ACCELERATOR_DIRECT_PHYSICAL,
        model.VNIC_TYPE_REMOTE_MANAGED,
        model.VNIC_TYPE_VDPA,
    )
)


def pages(instance: Any, topology: Any) -> tuple[guests.PageNeed, ...]:
    """What an instance needs with a topology that was claimed, by pool.

    Small pages are among it if the guest is bound to a node's strictly.

    :param topology: nova.objects.InstanceNUMATopology, or None
    """
    if topology is None:
        return ()
    cells = _cells(topology)
    needs = guests.page_needs(cells, pools.SMALL_PAGE)
    small = [
        cell
        for cell in cells
        if not cell.page_size or cell.page_size <= pools.SMALL_PAGE
    ]
    if small and is_strict(instance):
        needs += guests.small_needs(small, pools.SMALL_PAGE)
    return needs


def huge_pages_of_cells(topology: Any) -> tuple[guests.PageNeed, ...]:
    """What each cell of an instance needs in huge pages, wherever it was.

    :param topology: nova.objects.InstanceNUMATopology, or None
    """
    return tuple(
        need
        for cell in (_cells(topology) if topology else ())
        for need in guests.page_needs([cell], pools.SMALL_PAGE)
    )


def is_strict(instance: Any) -> bool:
    """Whether its small pages will come from their nodes, and no others.

    Where Nova writes the ``<numatune>`` they do as well; that is Nova's, and
    is not checked.
    """
    if CONF.numa_guard.numatune != 'guard':
        return False
    if hardware.get_mem_encryption_constraint(
        instance.flavor, instance.image_meta
    ):
        return True  # tuning.apply() leaves its XML alone
    policy = small_page_policy(instance)
    if policy is tuning.SmallPagePolicy.AUTO:
        return is_preallocated(instance)
    return policy is tuning.SmallPagePolicy.STRICT


def small_page_policy(instance: Any) -> tuning.SmallPagePolicy:
    """What the flavor says and, if it says nothing we know, the option."""
    return flavor_policy(instance) or tuning.SmallPagePolicy(
        CONF.numa_guard.small_page_policy
    )


def flavor_policy(instance: Any) -> tuning.SmallPagePolicy | None:
    """What the flavor says; None if it says nothing that we know."""
    text = instance.flavor.extra_specs.get('numa_guard:mem_policy')
    if text is not None:
        try:
            return tuning.SmallPagePolicy(text)
        except ValueError:
            LOG.warning(
                'The flavor has numa_guard:mem_policy=%s, which is none of '
                '%s; small_page_policy is used instead',
                text,
                ', '.join(policy.value for policy in tuning.SmallPagePolicy),
                instance=instance,
            )
    return None


def is_preallocated(instance: Any) -> bool:
    """Whether its XML will be what domain.is_preallocated() looks for.

    While its ports are made, in another thread, the devices that they ask for
    are taken for such; those of macvtap ports are not.
    """
    sources = {
        each.source
        for each in (
            instance.pci_requests.requests if instance.pci_requests else ()
        )
    }
    ports = instance.get_network_info() or ()
    return (
        objects.InstancePCIRequest.FLAVOR_ALIAS in sources
        or (not ports and objects.InstancePCIRequest.NEUTRON_PORT in sources)
        or any(port['vnic_type'] in _PINNING_PORTS for port in ports)
        or hardware.is_realtime_enabled(instance.flavor)
        or bool(
            hardware.get_locked_memory_constraint(
                instance.flavor, instance.image_meta
            )
        )
    )


def _cells(topology: Any) -> list[guests.GuestCell]:
    return [
        guests.GuestCell(cell.id, cell.memory * units.Ki, cell.pagesize)
        for cell in topology.cells
    ]
