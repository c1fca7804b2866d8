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

"""How long a check of pages takes that is made at a guest's start.

The guest has two cells of 2 MiB pages, on a host with 8 NUMA nodes, huge pages
of 3 sizes, and 100 running guests of two cells each. Warm is as nova-compute
checks, cold its first time: no file is open, and the XML of no guest is known.
libvirt is replaced by what answers at once, and the kernel's files are a
temporary folder's. What lxml alone takes to parse the guests' XML is measured
too, for comparison on a machine that is busy.

Run it as ``python -m benchmarks.page_check``; it takes pyperf's options.
"""

from collections.abc import Callable, Sequence
import contextlib
import sys
import types
from typing import Any
import uuid

from lxml import etree
from nova import objects
import nova.conf
import pyperf

from nova_numa_guard import (
    conf,
    facts,
    fixture,
    look,
    metrics,
    pools,
    refusals,
    reservations,
    standing,
)
from nova_numa_guard.virt import (
    answers,
    claims,
    complaints,
    delivery,
    needs,
    page_check,
)
from tests.unit import samples
from tests.unit.virt import domains

NODES = 8
SIZES = (64, 2048, 1048576)  # KiB
GUESTS = 100
CELL = 64  # pages of each guest cell
SIZE = 2048


class Host:
    """A compute host, whose guests have touched what is theirs."""

    def __init__(
        self,
        machine: fixture.KernelFixture,
        nodes: int = NODES,
        sizes: Sequence[int] = SIZES,
        guests: int = GUESTS,
    ) -> None:
        self.root = machine.root
        placed = [
            (2 * number % nodes, (2 * number + 1) % nodes)
            for number in range(guests)
        ]
        for size in sizes:
            machine.set_bound(size)
            for node in range(nodes):
                taken = 0
                if size == SIZE:
                    taken = CELL * sum(pair.count(node) for pair in placed)
                machine.set_pool(node, size, taken + 512, free=512)
        self.libvirt: Any = domains.Host()
        for number, pair in enumerate(placed):
            self.libvirt.add(
                str(uuid.uuid4()),
                number + 1,
                *((node, CELL * SIZE, SIZE) for node in pair),
            )
        self.instance = samples.instance(
            *(
                samples.guest_cell(256, page_size=SIZE, node=node)
                for node in range(min(2, nodes))
            )
        )
        self.needs = needs.pages(self.instance, self.instance.numa_topology)
        self.context = samples.context()


class Checks:
    """A nova-compute on that host, and the parts of its check."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.kernel = pools.Kernel(host.root)
        self.claims = claims.Claims(host.libvirt)
        told = delivery.Delivery(
            types.SimpleNamespace(), refusals.Refusals(), lambda: None
        )
        self.check = page_check.PageCheck(
            self.kernel,
            self.claims,
            reservations.Reservations(),
            answers.Answers(metrics.Metrics(), told),
            complaints.Complaints(metrics.Metrics()),
        )
        self.request = answers.Request(
            host.context,
            'this',
            host.needs,
            self.check.terms(is_restart=False),
        )
        self.lookout = look.Lookout(self.kernel, lambda: (), {})

    def close(self) -> None:
        self.kernel.close()

    def whole(self) -> None:
        """Promise a guest its pages, and take that back."""
        found = self.check.promise(
            self.host.instance, self.request, patience=0
        )
        self.check.reservations.release(found)

    def kernel_files(self) -> None:
        self.lookout.figures(self.host.needs)

    def domains(self) -> None:
        self.claims.running()

    def lxml(self) -> None:
        for guest in self.host.libvirt.guests:
            etree.fromstring(guest.xml.encode())

    def judging(self, figures: facts.Figures) -> None:
        facts.to_look_at((), figures)
        standing.judge(self.host.instance.uuid, self.host.needs, (), figures)


def cold(host: Host, part: Callable[[Checks], None]) -> Callable[[int], float]:
    """Time a part on a nova-compute that has just started."""

    def run(loops: int) -> float:
        seconds = 0.0
        for _ in range(loops):
            with contextlib.closing(Checks(host)) as checks:
                begun = pyperf.perf_counter()
                part(checks)
                seconds += pyperf.perf_counter() - begun
        return seconds

    return run


def main() -> None:
    # Not pyperf's 20 processes: each imports Nova.
    runner = pyperf.Runner(processes=6, values=6)
    objects.register_all()
    conf.register_opts(nova.conf.CONF)
    nova.conf.CONF([], default_config_files=[], default_config_dirs=[])
    with fixture.KernelFixture() as machine:
        host = Host(machine)
        with contextlib.closing(Checks(host)) as checks:
            figures = checks.check.figures(host.needs, ())
            assert figures
            assert len(figures.claims) == GUESTS
            results = [
                runner.bench_func('warm: kernel files', checks.kernel_files),
                runner.bench_func('warm: domains', checks.domains),
                runner.bench_func('warm: judging', checks.judging, figures),
                runner.bench_func('warm: whole', checks.whole),
            ]
        for name, part in (
            ('kernel files', Checks.kernel_files),
            ('lxml alone', Checks.lxml),
            ('domains', Checks.domains),
            ('whole', Checks.whole),
        ):
            results.append(
                runner.bench_time_func(f'cold: {name}', cold(host, part))
            )
    if runner.args.worker:
        return
    for result in filter(None, results):
        sys.stdout.write(
            f'{result.get_name():20} minimum '
            f'{min(result.get_values()) * 1e6:5.0f} us, median '
            f'{result.median() * 1e6:5.0f} us\n'
        )


if __name__ == '__main__':
    main()
