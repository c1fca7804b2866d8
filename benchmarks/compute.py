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

"""How long the guard's part of nova-compute takes, warm.

The page check at a guest's start, the rewriting of its XML, and the record
that an audit makes. libvirt and Nova's database are replaced by what answers
at once, and the kernel's files are a temporary folder's.

Run it as ``python -m benchmarks.compute``.
"""

import contextlib

from nova import objects

from benchmarks import fleet, page_check, side_by_side
from nova_numa_guard import fixture, metrics, refusals, report, tuning
from nova_numa_guard.virt import (
    claims,
    complaints,
    floating_cells,
    late_check,
    reporter,
)
from tests.unit import samples
from tests.unit.virt import records

SIZES = (2048, 1048576, 64)  # KiB
CELLS = (1, 2, 4, 8, 16)


def checks(results: side_by_side.Results) -> None:
    for nodes in CELLS:
        for count in (1, 3):
            for guests in (0, 100, 500):
                with contextlib.ExitStack() as stack:
                    machine = stack.enter_context(fixture.KernelFixture())
                    host = page_check.Host(
                        machine, nodes, SIZES[:count], guests
                    )
                    checked = stack.enter_context(
                        contextlib.closing(page_check.Checks(host))
                    )
                    figures = checked.check.figures(host.needs, ())
                    assert figures
                    assert len(figures.claims) == guests
                    results.time(
                        {
                            f'page check, {nodes} nodes, {count} sizes, '
                            f'{guests} guests': side_by_side.Timed(
                                checked.whole
                            )
                        }
                    )


def rewriting(results: side_by_side.Results) -> None:
    for cells in CELLS:
        xml = samples.domain_xml(
            *(
                (node, 1048576, 2048 * (node % 2) or None)
                for node in range(cells)
            )
        )
        assert tuning.apply(xml, tuning.SmallPagePolicy.AUTO) != xml
        results.time(
            {
                f'XML, {cells} cells': side_by_side.Timed(
                    lambda xml=xml: tuning.apply(
                        xml, tuning.SmallPagePolicy.AUTO
                    )
                )
            }
        )


def recording(results: side_by_side.Results) -> None:
    for nodes in CELLS:
        with contextlib.ExitStack() as stack:
            machine = stack.enter_context(fixture.KernelFixture())
            known = stack.enter_context(records.Records())
            host = page_check.Host(machine, nodes, SIZES, guests=100)
            for guest in host.libvirt.guests:
                known.add(uuid=guest.uuid, host='this')
            counted = metrics.Metrics()
            complained = complaints.Complaints(counted)
            made = reporter.Reporter(
                machine.kernel,
                floating_cells.FloatingCells(machine.kernel),
                late_check.LateCheck(counted),
                refusals.Refusals(),
                complained,
                claims.Claims(host.libvirt),
                frozenset,
            )
            cells = [samples.host_cell(node) for node in range(nodes)]
            text = objects.NUMATopology(cells=cells)._to_json()

            def audit(made=made, text=text) -> dict[str, object]:
                resources = {
                    'hypervisor_hostname': 'this-node',
                    'numa_topology': text,
                }
                made.complete(resources, 'this')
                return resources

            assert report.decode(audit()['stats'][report.STATS_KEY])
            results.time(
                {
                    f'record, {nodes} nodes, 100 guests': side_by_side.Timed(
                        audit
                    ),
                    f'its text, {nodes} nodes': side_by_side.Timed(
                        made.refreshed
                    ),
                }
            )


def main() -> None:
    results = side_by_side.Results(__doc__)
    fleet.set_up()
    checks(results)
    rewriting(results)
    recording(results)
    results.write()


if __name__ == '__main__':
    main()
