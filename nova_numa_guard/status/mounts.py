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

"""Whether hugetlbfs gives out as many pages as the kernel has."""

from oslo_upgradecheck import upgradecheck

from nova_numa_guard import pools
from nova_numa_guard.status import checks, host

Code, Result = upgradecheck.Code, upgradecheck.Result


class MountsCheck:
    """Limits of the hugetlbfs mounts (``size=``).

    :param here: the host
    """

    name = 'Limits of hugetlbfs'

    def __init__(self, here: host.Host) -> None:
        self._here = here

    def run(self) -> upgradecheck.Result:
        kernel = self._here.kernel
        free: dict[int, int] = {}
        lines = []
        try:
            for pool in kernel.pools():
                free.setdefault(pool.page_size, 0)
                free[pool.page_size] += pool.free
            for size, pages in sorted(free.items()):
                left = kernel.bound(size).mount_free
                if left is not None and left < pages:
                    lines.append(
                        f'Pages of {size} KiB: the kernel has {pages} free, '
                        f'and hugetlbfs gives out {left} more. Nova is not '
                        'told of that. Mount it without size=, or with '
                        'one that has room for the whole pool.'
                    )
        except pools.UnreadableError as exc:
            raise checks.CannotCheckError(str(exc)) from exc
        if lines:
            return Result(Code.WARNING, '\n'.join(lines))
        return Result(Code.SUCCESS)
