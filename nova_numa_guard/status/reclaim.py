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

"""What the kernel does when a NUMA node is full."""

from oslo_upgradecheck import upgradecheck

from nova_numa_guard import files
from nova_numa_guard.status import checks, host, options

Code, Result = upgradecheck.Code, upgradecheck.Result

# Documentation/admin-guide/sysctl/vm.rst of the kernel's source.
_RECLAIM, _WRITE, _SWAP = 1, 2, 4


class ReclaimCheck:
    """``vm.zone_reclaim_mode``.

    :param here: the host
    """

    name = 'vm.zone_reclaim_mode'

    def __init__(self, here: host.Host) -> None:
        self._here = here

    def run(self) -> upgradecheck.Result:
        conf = self._here.conf
        path = f'{self._here.kernel.root}/proc/sys/vm/zone_reclaim_mode'
        try:
            mode = files.number(path, files.read(path))
        except files.UnreadableError as exc:
            raise checks.CannotCheckError(str(exc)) from exc
        if mode & (_WRITE | _SWAP):
            return Result(
                Code.WARNING,
                f'It is {mode}: before it takes memory of another node the '
                'kernel writes out or swaps what is on this one, and guests '
                'stall. Set it to 1 or 0 (sysctl vm.zone_reclaim_mode=1).',
            )
        spills = options.value(conf, 'numatune') == 'guard' and (
            options.value(conf, 'small_page_policy') != 'strict'
        )
        if spills and not mode & _RECLAIM:
            return Result(
                Code.SUCCESS,
                'It is 0: guests with small pages take memory of another node '
                'before the kernel drops file cache of their own, and keep '
                'it there. Where that costs too much, set it to 1 (sysctl '
                'vm.zone_reclaim_mode=1).',
            )
        return Result(Code.SUCCESS)
