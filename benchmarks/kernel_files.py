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

"""How long the kernel's files take, that are read at each guest's start.

Of a host with 8 NUMA nodes and huge pages of 3 sizes: every pool, and what
limits each size. Warm is as nova-compute reads them, cold its first time. The
files are a temporary folder's; those of sysfs take a little longer to read.

Run it as ``python -m benchmarks.kernel_files``; it takes pyperf's options.
"""

import sys

import pyperf

from nova_numa_guard import fixture, pools

NODES = range(8)
SIZES = (64, 2048, 1048576)  # KiB


def read(kernel: pools.Kernel) -> None:
    kernel.pools()
    for size in SIZES:
        kernel.bound(size)


def read_cold(machine: fixture.KernelFixture) -> None:
    kernel = pools.Kernel(machine.root)
    read(kernel)
    kernel.close()


def main() -> None:
    runner = pyperf.Runner()
    with fixture.KernelFixture() as machine:
        for size in SIZES:
            machine.set_bound(size)
            for node in NODES:
                machine.set_pool(node, size, total=512, free=256)
        results = [
            runner.bench_func('warm', read, machine.kernel),
            runner.bench_func('cold', read_cold, machine),
        ]
    if runner.args.worker:
        return
    for result in filter(None, results):
        sys.stdout.write(
            f'{result.get_name()}: median {result.median() * 1e6:.0f} us\n'
        )


if __name__ == '__main__':
    main()
