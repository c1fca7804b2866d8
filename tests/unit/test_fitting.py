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

"""Why a guest does not fit, against what Nova says of it."""

import hypothesis
from hypothesis import strategies as st
from nova import exception, objects
from nova.objects import fields
from nova.virt import hardware

from nova_numa_guard import fitting
from nova_numa_guard.cloud import topologies
from tests.unit import base, samples

RATIOS = fitting.Ratios(cpu=1.5, ram=1.25)
GIANT, HUGE, SMALL = samples.GIANT, samples.HUGE, samples.SMALL


def host(*cells):
    return topologies.host_cells(objects.NUMATopology(cells=list(cells)))


def topology(*cells, isolated=False):
    return objects.InstanceNUMATopology(
        cells=list(cells),
        emulator_threads_policy=(
            fields.CPUEmulatorThreadsPolicy.ISOLATE if isolated else None
        ),
    )


def fit(guests, hosts, **kwargs):
    return fitting.fit(
        topologies.guest_cells(topology(*guests, **kwargs)),
        host(*hosts),
        RATIOS,
    )


class WordsTest(base.TestCase):
    def assert_lacks(self, found, short, *parts):
        self.assertFalse(found.fits)
        self.assertEqual(short, found.short)
        for part in parts:
            self.assertIn(part, found.text)

    def test_it_fits(self):
        self.assertEqual(
            fitting.Fit(True),
            fit([samples.guest_cell()], [samples.host_cell(0)]),
        )

    def test_pages(self):
        cell = samples.host_cell(3, huge=600)
        cell.mempages[1].used, cell.mempages[1].reserved = 100, 50
        self.assert_lacks(
            fit([samples.guest_cell(page_size=HUGE)], [cell]),
            'short of 2048 KiB pages',
            'guest cell 0: host cell 3: pages of 2048 KiB: needed 512, '
            'available 450 (600 in all, 100 claimed, 50 reserved)',
        )

    def test_a_size_that_is_absent(self):
        self.assert_lacks(
            fit([samples.guest_cell(page_size=GIANT)], [samples.host_cell(0)]),
            'short of 1048576 KiB pages',
            'it has no pages of 1048576 KiB',
        )
        cell = samples.host_cell(0)
        del cell.mempages[1]
        self.assert_lacks(
            fit([samples.guest_cell(page_size=fitting.LARGE)], [cell]),
            'short of huge pages',
            'it has no huge pages',
        )

    def test_no_whole_number_of_pages(self):
        self.assert_lacks(
            fit(
                [samples.guest_cell(memory=1023, page_size=HUGE)],
                [samples.host_cell(0, huge=1024)],
            ),
            'short of 2048 KiB pages',
            '1023 MiB are no whole number of pages of 2048 KiB',
        )

    def test_cpus(self):
        self.assert_lacks(
            fit(
                [samples.guest_cell(cpus=range(3), pinned=True)],
                [samples.host_cell(0, pinned_cpus=set(range(8, 14)))],
                isolated=True,
            ),
            'short of dedicated CPUs',
            'dedicated CPUs: needed 4 (1 of them for the emulator), available '
            '2 (8 in all, 6 claimed)',
        )
        self.assert_lacks(
            fit(
                [samples.guest_cell(cpus=range(3))],
                [samples.host_cell(0, cpu_usage=11)],
            ),
            'short of shared CPUs',
            'needed 3, available 1 (8 in all, given out 1.5 times, 11 '
            'claimed)',
        )
        self.assert_lacks(
            fit([samples.guest_cell(cpus=range(9))], [samples.host_cell(0)]),
            'short of shared CPUs',
            'needed 9, it has 8',
        )

    def test_memory(self):
        self.assert_lacks(
            fit(
                [samples.guest_cell(memory=1024)],
                [samples.host_cell(0, memory_usage=10000)],
            ),
            'short of memory',
            'needed 1024 MiB, available 240 (8192 in all, given out 1.25 '
            'times, 10000 claimed)',
        )

    def test_several_cells(self):
        two = [samples.guest_cell(node=n, page_size=HUGE) for n in (0, 1)]
        self.assert_lacks(
            fit(two, [samples.host_cell(0, huge=1024)]),
            'short of NUMA cells',
            'NUMA cells: needed 2, the host has 1',
        )
        self.assert_lacks(
            fit(two, [samples.host_cell(0, huge=1024), samples.host_cell(1)]),
            'short of 2048 KiB pages',
            'guest cell 0 fits host cell 0',
            'guest cell 1 fits host cell 0',
        )

    def test_all_that_lacks_is_said(self):
        found = fit(
            [samples.guest_cell(cpus=range(9), page_size=HUGE)],
            [samples.host_cell(0)],
        )
        self.assertIn('pages of 2048 KiB', found.text)
        self.assertIn('shared CPUs', found.text)


MEMORY = st.sampled_from([512, 1023, 1024, 2048, 4096])

guest_cells = st.builds(
    lambda memory, cpus, pinned, size: (memory, cpus, pinned, size),
    MEMORY,
    st.integers(1, 9),
    st.just(False),
    st.sampled_from([None, -1, -2, -3, SMALL, HUGE, GIANT]),
)

host_cells = st.builds(
    lambda huge, used, reserved, memory, cpus: {
        'huge': huge,
        'used': min(used, huge),
        'reserved': min(reserved, max(0, huge - used)),
        'memory_usage': memory,
        'cpu_usage': cpus,
        'pinned_cpus': set(),
    },
    st.sampled_from([0, 256, 512, 2048]),
    st.sampled_from([0, 1, 256, 512]),
    st.sampled_from([0, 1, 256]),
    st.sampled_from([0, 4096, 8000, 10000]),
    st.sampled_from([0, 4, 8, 12]),
)


class AgreementTest(base.TestCase):
    """It finds a reason if, and only if, Nova has one."""

    @hypothesis.settings(max_examples=400)
    @hypothesis.given(
        st.lists(guest_cells, min_size=1, max_size=3),
        st.lists(host_cells, min_size=1, max_size=3),
        st.sampled_from([set(), {8, 9}, set(range(8, 15))]),
        st.booleans(),
    )
    def test_it(self, guests, hosts, pinned, pins):
        """One thread a core, so that there is nothing to pack."""
        if pins:
            guests = [(m, c, True, s) for m, c, _, s in guests]
        cells = []
        for index, values in enumerate(hosts):
            values = dict(values, pinned_cpus={c + index * 16 for c in pinned})
            used, reserved = values.pop('used'), values.pop('reserved')
            cell = samples.host_cell(index, huge=values.pop('huge'))
            for name, value in values.items():
                setattr(cell, name, value)
            cell.siblings = [{c} for c in cell.cpuset | cell.pcpuset]
            cell.mempages[1].used = used
            cell.mempages[1].reserved = reserved
            cells.append(cell)
        first = 0
        wanted = []
        for index, (memory, cpus, own, size) in enumerate(guests):
            wanted.append(
                samples.guest_cell(
                    memory=memory,
                    cpus=range(first, first + cpus),
                    pinned=own,
                    page_size=size,
                    node=index,
                )
            )
            first += cpus
        known = fit(wanted, cells)
        try:
            novas = hardware.numa_fit_instance_to_host(
                objects.NUMATopology(cells=cells),
                topology(*wanted),
                provider_mapping=None,
                limits=objects.NUMATopologyLimits(
                    cpu_allocation_ratio=RATIOS.cpu,
                    ram_allocation_ratio=RATIOS.ram,
                ),
            )
        except exception.MemoryPageSizeNotSupported:
            novas = None
        self.assertEqual(novas is not None, known.fits, known.text)
        self.assertEqual(known.fits, not known.text)
