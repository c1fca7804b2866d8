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

"""The pages that an instance of Nova's needs."""

from nova import objects
from nova.network import model
from oslo_utils import units

from nova_numa_guard import guests, pools
from nova_numa_guard.virt import needs
from tests.unit import base, samples

HUGE, GIANT, SMALL = samples.HUGE, samples.GIANT, pools.SMALL_PAGE


def instance(*cells, specs=None, ports=(), alias=False, **image):
    found = samples.instance(*cells)
    found.flavor.name = 'a flavor'
    found.flavor.extra_specs.update(specs or {})
    found.system_metadata = {
        f'image_{key}': each for key, each in image.items()
    }
    found.info_cache = objects.InstanceInfoCache(
        network_info=model.NetworkInfo(
            [model.VIF(id=kind, vnic_type=kind) for kind in ports]
        )
    )
    requests = [
        objects.InstancePCIRequest(count=1, alias_name='a', request_id=each)
        for each in ([None] if alias else [])
    ]
    # Ports have requests of their own, which say nothing of VFIO.
    requests += [
        objects.InstancePCIRequest(count=1, request_id='a' * 36) for _ in ports
    ]
    found.pci_requests = objects.InstancePCIRequests(requests=requests)
    return found


class NeedsTestCase(base.TestCase):
    def pages(self, found, topology=None):
        return needs.pages(found, topology or found.numa_topology)


class HugeTest(NeedsTestCase):
    def test_mib_and_host_nodes(self):
        """Nova counts in MiB, and a claimed cell's id is its host node."""
        self.assertEqual(
            (guests.PageNeed(0, GIANT, 2), guests.PageNeed(16, HUGE, 3)),
            self.pages(
                instance(
                    samples.guest_cell(5, page_size=HUGE, node=16),
                    samples.guest_cell(2048, page_size=GIANT),
                    samples.guest_cell(2048, page_size=None),
                )
            ),
        )

    def test_4096_mib_are_2048_pages(self):
        self.assertEqual(
            (guests.PageNeed(0, HUGE, 2048),),
            self.pages(instance(samples.guest_cell(4096, page_size=HUGE))),
        )

    def test_a_floating_guest(self):
        self.assertEqual((), self.pages(instance()))

    def test_of_the_topology_that_was_claimed(self):
        """That of a migration is not the instance's yet."""
        self.assertEqual(
            (guests.PageNeed(1, HUGE, 2),),
            self.pages(
                instance(samples.guest_cell(4, page_size=HUGE)),
                samples.topology(
                    samples.guest_cell(4, page_size=HUGE, node=1)
                ),
            ),
        )

    def test_the_small_page_of_this_machine(self):
        self.assertIn(SMALL, (4, 16, 64))


class SmallTest(NeedsTestCase):
    """Small pages matter to a guest that gets none from other nodes."""

    need = guests.PageNeed(0, SMALL, units.Mi // 1024 // SMALL)

    def cell(self, page_size=None):
        return samples.guest_cell(1, page_size=page_size)

    def assert_strict(self, expected, *args, **values):
        for size in (None, SMALL, -1):
            self.assertEqual(
                (self.need,) if expected else (),
                self.pages(instance(self.cell(size), *args, **values)),
                (values, size),
            )

    def test_the_option(self):
        for policy, expected in (
            ('auto', False),
            ('preferred', False),
            ('local', False),
            ('strict', True),
        ):
            self.flags(small_page_policy=policy)
            self.assert_strict(expected)

    def test_the_flavor_has_the_last_word(self):
        for option, policy, expected in (
            ('preferred', 'strict', True),
            ('strict', 'preferred', False),
            ('strict', 'auto', False),
        ):
            self.flags(small_page_policy=option)
            self.assert_strict(
                expected, specs={'numa_guard:mem_policy': policy}
            )

    def test_where_nova_writes_the_numatune_it_is_novas_affair(self):
        self.flags(small_page_policy='strict', numatune='stock')
        self.assert_strict(False)

    def test_memory_that_is_all_allocated_at_the_start(self):
        for values in (
            {'alias': True},
            {'ports': ['normal', 'direct']},
            {'ports': ['direct-physical']},
            {'ports': ['accelerator-direct']},
            {'ports': ['accelerator-direct-physical']},
            {'ports': ['remote-managed']},
            {'ports': ['vdpa']},
            {'specs': {'hw:cpu_realtime': 'yes'}},
            {'specs': {'hw:locked_memory': 'yes', 'hw:mem_page_size': '4'}},
            {'hw_locked_memory': 'yes', 'hw_mem_page_size': '4'},
        ):
            self.assert_strict(True, **values)
            self.flags(small_page_policy='preferred')
            self.assert_strict(False, **values)
            self.flags(small_page_policy='auto')

    def test_memory_that_is_not(self):
        for values in (
            {'ports': ['normal', 'macvtap', 'virtio-forwarder']},
            {'specs': {'hw:cpu_realtime': 'no'}},
            {'specs': {'hw:locked_memory': 'no', 'hw:mem_page_size': '4'}},
        ):
            self.assert_strict(False, **values)

    def test_ports_that_are_not_made_yet(self):
        """Nova makes them in another thread, while spawn() begins."""
        found = instance(self.cell(), ports=['direct'])
        found.info_cache.network_info = model.NetworkInfo()
        self.assertEqual((self.need,), self.pages(found))
        self.flags(small_page_policy='preferred')
        self.assertEqual((), self.pages(found))

    def test_encrypted_memory(self):
        """Its <numatune> stays as Nova writes it: strict."""
        for policy in ('auto', 'preferred', 'local', 'strict'):
            self.flags(small_page_policy=policy)
            for specs, expected in (
                ({'hw:mem_encryption': 'true'}, True),
                ({'hw:mem_encryption': 'false'}, policy == 'strict'),
            ):
                self.assert_strict(
                    expected,
                    specs=specs,
                    hw_firmware_type='uefi',
                    hw_machine_type='q35',
                )

    def test_an_instance_without_pci_requests(self):
        found = instance(self.cell())
        found.pci_requests = None
        self.assertEqual((), self.pages(found))

    def test_beside_huge_ones(self):
        self.flags(small_page_policy='strict')
        self.assertEqual(
            (guests.PageNeed(0, HUGE, 1), self.need),
            self.pages(
                instance(samples.guest_cell(2, page_size=HUGE), self.cell())
            ),
        )

    def test_huge_ones_alone_ask_for_no_more(self):
        """Neither ports nor flavor are looked at for them."""
        found = objects.Instance(
            numa_topology=samples.topology(
                samples.guest_cell(2, page_size=HUGE)
            )
        )
        self.assertEqual((guests.PageNeed(0, HUGE, 1),), self.pages(found))
