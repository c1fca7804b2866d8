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

"""Where guests run and where their memory is, asked of the kernel.

The machine has one node more than the guests may have, at the least: a guest
that is confined to node 1 could as well be on node 0.
"""

import libvirt

from nova_numa_guard import confinement, tuning
from tests.numa.inside import base, host, process

# Sizes that no other mapping of QEMU has.
SIZE = 104 * host.MIB
MORE_THAN_FREE = 424 * host.MIB
FREE = 300 * host.MIB

AFFINED_NODE = 0
FLOATING_NODE = 1

Mode = confinement.Mode


def confine(xml: str, mode: Mode) -> str:
    return confinement.apply(
        xml,
        confinement.Confinement(
            nodes=frozenset({FLOATING_NODE}),
            cpus=host.cpus(FLOATING_NODE),
            mode=mode,
        ),
    )


class FloatingTest(base.MachineTestCase):
    """Guests without a NUMA topology."""

    def test_restrictive(self) -> None:
        self.assert_confined(Mode.RESTRICTIVE, policy='default')

    def test_strict(self) -> None:
        self.assert_confined(Mode.STRICT, policy=f'bind:{FLOATING_NODE}')

    def assert_confined(self, mode: Mode, policy: str) -> None:
        guest = self.start(confine(self.floating(SIZE), mode))

        node = frozenset({FLOATING_NODE})
        self.assertEqual(node, guest.allowed_nodes())
        vcpus = guest.vcpus()
        self.assertEqual(2, len(vcpus))
        for vcpu in vcpus:
            self.assertEqual(node, process.allowed_nodes(vcpu))
            cpus = host.cpus(FLOATING_NODE)
            self.assertEqual(cpus, process.allowed_cpus(vcpu))
            self.assertIn(process.last_cpu(vcpu), cpus)
        ram = guest.ram(SIZE)
        assert ram is not None
        self.assertEqual(policy, ram.policy)
        self.assertEqual({FLOATING_NODE: SIZE // host.SMALL}, ram.pages)

    def test_not_confined(self) -> None:
        """What the other tests see is not what every guest has."""
        guest = self.start(self.floating(SIZE))

        self.assertEqual(host.nodes(), guest.allowed_nodes())
        every_cpu = frozenset().union(*map(host.cpus, host.nodes()))
        for vcpu in guest.vcpus():
            self.assertEqual(every_cpu, process.allowed_cpus(vcpu))

    def test_restrictive_under_pressure(self) -> None:
        self.assert_stays(Mode.RESTRICTIVE)

    def test_strict_under_pressure(self) -> None:
        self.assert_stays(Mode.STRICT)

    def assert_stays(self, mode: Mode) -> None:
        """Rather than give it memory of another node the kernel kills it."""
        self.squeeze(FLOATING_NODE, FREE)
        killed = host.oom_kills()
        watch = self.watch(MORE_THAN_FREE)

        self.assertRaises(
            libvirt.libvirtError,
            self.start,
            confine(self.floating(MORE_THAN_FREE), mode),
        )

        seen = watch.stop()
        self.assertEqual(killed + 1, host.oom_kills())
        self.assertNotEqual([], seen)
        self.assertEqual({FLOATING_NODE}, set().union(*seen), str(seen))

    def test_not_confined_under_pressure(self) -> None:
        """What does not fit on the node comes from another one."""
        self.squeeze(FLOATING_NODE, FREE)

        guest = self.start(self.floating(MORE_THAN_FREE))

        ram = guest.ram(MORE_THAN_FREE)
        assert ram is not None
        self.assertIn(AFFINED_NODE, ram.pages)
        self.assertEqual(MORE_THAN_FREE // host.SMALL, sum(ram.pages.values()))


class AffinedTest(base.MachineTestCase):
    """Guests with one cell on one host node."""

    def test_huge_pages(self) -> None:
        for node in host.nodes():
            self.pool(node, SIZE // host.HUGE)

        self.assert_on_node(
            self.affined(SIZE, AFFINED_NODE, huge=True),
            tuning.SmallPagePolicy.AUTO,
            policy=f'bind:{AFFINED_NODE}',
            pages=SIZE // host.HUGE,
        )

    def test_small_pages_preferred(self) -> None:
        self.assert_on_node(
            self.affined(SIZE, AFFINED_NODE, huge=False),
            tuning.SmallPagePolicy.PREFERRED,
            policy=f'prefer:{AFFINED_NODE}',
            pages=SIZE // host.SMALL,
        )

    def test_small_pages_that_are_allocated_at_once(self) -> None:
        self.assert_on_node(
            self.affined(SIZE, AFFINED_NODE, huge=False),
            tuning.SmallPagePolicy.AUTO,
            policy=f'bind:{AFFINED_NODE}',
            pages=SIZE // host.SMALL,
        )

    def assert_on_node(
        self,
        xml: str,
        small_page_policy: tuning.SmallPagePolicy,
        policy: str,
        pages: int,
    ) -> None:
        guest = self.start(tuning.apply(xml, small_page_policy))

        self.assertEqual(host.nodes(), guest.allowed_nodes())
        ram = guest.ram(SIZE)
        assert ram is not None
        self.assertEqual(policy, ram.policy)
        self.assertEqual({AFFINED_NODE: pages}, ram.pages)
