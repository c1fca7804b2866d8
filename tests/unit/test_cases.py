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

"""Cases from the field.

Each is reduced from a public report; its number is kept in the docstring, its
symptom is the name.
"""

import time

from nova import exception
from oslo_utils.fixture import uuidsentinel as uuids

from nova_numa_guard import pools, tuning
from nova_numa_guard.virt import paths
from tests.unit import base, samples
from tests.unit.virt import hosts

GIANT = samples.GIANT


class DomainCasesTest(base.TestCase):
    def test_global_strict_memory_kills_a_guest_of_two_cells(self):
        """Case 8, Launchpad nova 1385308."""
        stock = samples.domain_xml((0, GIANT, 2048), (1, GIANT, 2048))
        memory = '    <memory mode="strict" nodeset="0-1"/>\n'
        self.assertIn(memory, stock)
        for policy in tuning.SmallPagePolicy:
            self.assertEqual(
                stock.replace(memory, ''), tuning.apply(stock, policy)
            )


class PageCheckCasesTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.host = self.useFixture(hosts.Host())
        self.machine = self.host.machine

    def pool(self, node, page_size, total, free):
        self.machine.set_pool(node, page_size, total=total, free=free)
        self.machine.set_bound(page_size)

    def start(self, *cells):
        """Cells are (host node, MiB, KiB of a page)."""
        with self.starting(paths.BUILD, *cells):
            pass

    def starting(self, path, *cells):
        guest = samples.instance(
            *(
                samples.guest_cell(mib, page_size=size, node=node)
                for node, mib, size in cells
            ),
            vm_state='active',
        )
        return self.host.starts.of(path, samples.context(), guest, 'this')

    def assert_refused(self, *cells, text=''):
        exc = self.assertRaises(
            exception.ComputeResourcesUnavailable, self.start, *cells
        )
        self.assertIn(text, str(exc))

    def test_huge_pages_are_counted_for_guests_without_page_size(self):
        """Case 2, Launchpad nova 1734204: 64 pages of 2 MiB, 32 of them free.

        A request for large pages is told of these only; a guest without a
        page size has nothing to do with them.
        """
        self.pool(0, 2048, total=64, free=32)
        self.start((0, 64, 2048))
        self.assert_refused((0, 66, 2048), text='needed 33, available 32')
        self.start((0, 256, None))
        self.pool(0, 2048, total=64, free=0)
        self.start((0, 256, None))

    def test_allocatable_pages_were_taken_by_others(self):
        """Case 21, KubeVirt 14854: 20 GiB of 1 GiB pages in name only."""
        self.pool(0, GIANT, total=20, free=3)
        self.assert_refused(
            (0, 20 * 1024, GIANT),
            text='huge pages of 1048576 KiB on host NUMA node 0: '
            'needed 20, available 3',
        )

    def test_tracked_free_is_not_the_kernels_free(self):
        """Case 22, Kubernetes 134395: 15.2 GiB by the books, 3.2 in fact."""
        self.pool(0, 2048, total=8192, free=8192)
        self.pool(1, 2048, total=7782, free=1638)
        self.assert_refused(
            (1, 4096, 2048),
            text='node 1: needed 2048, available 1638',
        )

    def test_another_job_took_the_pages_a_moment_ago(self):
        """Case 23, KEP-5759: 4 of 8 GiB are gone, 6 are asked for."""
        self.pool(0, 2048, total=4096, free=4096)
        self.start((0, 6144, 2048))
        self.machine.steal(0, 2048, 2048)
        self.assert_refused(
            (0, 6144, 2048), text='needed 3072, available 2048'
        )

    def test_exactly_the_remaining_pages_are_refused(self):
        """Case 25, Kubernetes 104682: 10 and 10 pages, 12 of them taken."""
        self.pool(0, 2048, total=10, free=10)
        self.pool(1, 2048, total=10, free=10)
        self.start((0, 12, 2048), (1, 12, 2048))
        self.machine.steal(0, 2048, 6)
        self.machine.steal(1, 2048, 6)
        self.start((0, 8, 2048), (1, 8, 2048))
        self.assert_refused(
            (0, 8, 2048),
            (1, 10, 2048),
            text='node 1: needed 5, available 4',
        )
        self.assert_refused((0, 10, 2048), text='needed 5, available 4')

    def test_a_page_size_that_the_host_does_not_have(self):
        """Case 30, oVirt engine 500: a refusal, and not an exception."""
        self.pool(0, 2048, total=10, free=10)
        self.assert_refused(
            (0, 1024, GIANT),
            text='huge pages of 1048576 KiB on host NUMA node 0: '
            'needed 1, available 0',
        )
        self.assertEqual(1, len(self.log.at('WARNING')))

    def test_free_memory_is_taken_for_free_huge_pages(self):
        """Case 31, CloudStack 11120: MemFree does not count the pools.

        So neither says anything of the other, in either direction.
        """
        for mem_free, free in (('0', 512), ('67108864', 0)):
            self.pool(0, 2048, total=512, free=free)
            for name in ('proc', 'sys/devices/system/node/node0'):
                path = self.machine.root / name / 'meminfo'
                path.write_text(f'MemFree: {mem_free} kB\n')
            self.start((0, 1024, None))
            if free:
                self.start((0, 1024, 2048))
            else:
                self.assert_refused((0, 1024, 2048), text='available 0')

    def test_almost_enough_pages(self):
        """Case 33, Cloud Hypervisor 5057: 2000 pages for 4096 MiB."""
        self.pool(0, 2048, total=2000, free=2000)
        self.assert_refused(
            (0, 4096, 2048), text='needed 2048, available 2000'
        )

    def test_enough_pages_on_the_host_but_none_on_the_node(self):
        """Case 34, atop 287: each node has its own row."""
        self.pool(0, 2048, total=512, free=512)
        self.pool(1, 2048, total=512, free=0)
        self.assertEqual(
            [(0, 512), (1, 0)],
            [
                (pool.node, pool.free)
                for pool in pools.Kernel(self.machine.root).pools()
            ],
        )
        self.start((0, 512, 2048))
        self.assert_refused(
            (1, 512, 2048), text='node 1: needed 256, available 0'
        )

    def test_a_cell_of_a_page_and_a_half(self):
        """Case 36, tp-libvirt: a pool of 1 GiB, cells of 1 and 1.5 GiB."""
        self.pool(0, GIANT, total=1, free=1)
        self.start((0, 1024, GIANT))
        self.assert_refused((0, 1536, GIANT), text='needed 2, available 1')

    def test_the_same_start_is_refused_again_and_again(self):
        """Case 26, Kubernetes 84869: the host is passed over for that pool.

        Until it has more free, or the back-off ends; and of ten refusals one
        is remembered.
        """
        self.pool(0, 2048, total=10, free=4)
        for _ in range(10):
            self.assert_refused((0, 10, 2048))
        now, ttl = time.time(), 300
        for free, later, remembered in (
            (4, 0, 1),
            (4, ttl - 60, 1),
            (4, ttl + 60, 0),
        ):
            found = self.host.refusals.current(now + later, {(0, 2048): free})
            self.assertEqual(remembered, len(found))
        self.assert_refused((0, 10, 2048))
        self.assertEqual((), self.host.refusals.current(now, {(0, 2048): 5}))

    def test_pages_suffice_but_mbind_is_not_permitted(self):
        """Case 27, KubeVirt 17248: QEMU's error is Nova's to report."""
        self.pool(0, 2048, total=10, free=10)
        error = exception.NovaException('mbind: Operation not permitted')

        def fail():
            with self.starting(paths.BUILD, (0, 20, 2048)):
                raise error

        self.assertIs(error, self.assertRaises(exception.NovaException, fail))
        self.assert_logged('WARNING')
        self.assertEqual([], self.host.events.written)
        self.assertEqual(
            (), self.host.refusals.current(time.time(), {(0, 2048): 10})
        )
        self.start((0, 20, 2048))

    def test_a_peer_still_maps_the_memory_of_a_guest_that_has_ended(self):
        """Case 37, SPDK 162: a hard reboot of a vhost-user guest."""
        self.flags(page_wait=1)
        self.pool(0, 2048, total=10, free=0)
        self.host.running.add(uuids.instance, 10)
        guest = samples.instance(
            samples.guest_cell(20, page_size=2048), vm_state='active'
        )

        def reboot():
            with self.host.starts.of(
                paths.RESTART, samples.context(), guest, 'this'
            ):
                self.host.running.claims = ()
                self.host.starts.ended(guest)

        exc = self.assertRaises(exception.ComputeResourcesUnavailable, reboot)
        self.assertIn('needed 10, available 0 (after 1 s)', str(exc))

    def test_leaked_pages_are_nobodys(self):
        """Case 38, void-packages 49269: not free, so not for a guest."""
        self.pool(0, GIANT, total=8, free=5)
        self.assert_refused((0, 6144, GIANT), text='needed 6, available 5')

    def test_an_outsider_and_untouched_pages_are_counted_once(self):
        """Case 39: of 100 an outsider holds 30 and a guest will 40."""
        self.pool(0, 2048, total=100, free=70)
        self.host.running.add('other', 40)
        self.machine.set_process('other', 71)
        self.assert_refused((0, 100, 2048), text='needed 50, available 30')
        self.start((0, 60, 2048))

    def test_discarded_memory_looks_free(self):
        """Case 40: a balloon's pages, or post-copy's, stay the guest's own."""
        self.pool(0, 2048, total=100, free=75)
        self.host.running.add('other', 40)
        self.machine.set_process('other', 71, {(0, 2048): 25})
        self.assert_refused((0, 122, 2048), text='needed 61, available 60')
        self.start((0, 120, 2048))

    def test_the_kernel_may_add_pages(self):
        """Case 41: 20 of 20 are free, 60 are asked for."""
        self.machine.set_pool(0, 2048, total=20, free=20)
        self.machine.set_bound(2048, overcommit=100)
        self.start((0, 120, 2048))
        [warning] = self.log.at('WARNING')
        self.assertIn('nr_overcommit_hugepages', warning)
        self.assertIn('needed 60, available 20', warning)
