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

"""How much memory a scheduler needs to hold 10,000 reports.

By tracemalloc: what is allocated after each host's report has been read once,
less what was before. The hosts have 2 and 8 NUMA cells, and huge pages of two
sizes.

Run it as ``python -m benchmarks.memory``.
"""

import gc
import tracemalloc

from benchmarks import fleet, side_by_side
from nova_numa_guard import isolation
from nova_numa_guard.scheduler import host_states

HOSTS = 10000


def grown(cells: int, kind: isolation.Isolation) -> int:
    """Bytes."""
    reports = host_states.Reports()
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(HOSTS):
        found = reports.read(
            f'compute-{number:05}', fleet.record_text(number, cells, kind)
        )
        assert found is not None
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


def main() -> None:
    results = side_by_side.Results(__doc__)
    fleet.set_up()
    tracemalloc.start()
    for cells in (2, 8):
        for kind in isolation.Isolation:
            results.add(
                f'{HOSTS} reports, {cells} cells, isolation {kind.value}',
                [grown(cells, kind)],
                unit='byte',
            )
    results.write()


if __name__ == '__main__':
    main()
