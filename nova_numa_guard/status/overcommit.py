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

"""Whether huge pages are promised that may not come."""

from oslo_upgradecheck import upgradecheck

from nova_numa_guard import pools
from nova_numa_guard.status import checks, host

Code, Result = upgradecheck.Code, upgradecheck.Result


class OvercommitCheck:
    """``nr_overcommit_hugepages``, of each page size.

    :param here: the host
    """

    name = 'Overcommitted huge pages'

    def __init__(self, here: host.Host) -> None:
        self._here = here

    def run(self) -> upgradecheck.Result:
        kernel = self._here.kernel
        lines = []
        try:
            for size in sorted({pool.page_size for pool in kernel.pools()}):
                more = kernel.bound(size).overcommit
                if more:
                    lines.append(
                        f'Pages of {size} KiB: the kernel may add {more} on '
                        'demand, from small pages that guests may need. While '
                        'it may, a shortage of them is logged, and the guest '
                        'is started. To have it refused: echo 0 > '
                        f'/sys/kernel/mm/hugepages/hugepages-{size}kB/'
                        'nr_overcommit_hugepages'
                    )
        except pools.UnreadableError as exc:
            raise checks.CannotCheckError(str(exc)) from exc
        if lines:
            return Result(Code.WARNING, '\n'.join(lines))
        return Result(Code.SUCCESS)
