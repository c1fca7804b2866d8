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

"""Whether a host goes on making guests that Nova alone cannot handle."""

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard.status import checks, stage

Code, Result = upgradecheck.Code, upgradecheck.Result
Stage = stage.Stage

_AGAIN = 'restart nova-compute, and check again.'


class StartsCheck:
    """The options by which guests' XML is made anew.

    :param conf: has read the configuration of nova-compute
    """

    name = 'Guests that start from now on'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def run(self) -> upgradecheck.Result:
        found = stage.of(self._conf)
        if found is Stage.UNKNOWN:
            return Result(
                Code.WARNING,
                'The configuration has no compute_driver, so it is not that '
                'of nova-compute. Name the files that nova-compute reads with '
                '--config-file FILE, before the word "upgrade".',
            )
        if found is Stage.LEFT:
            return Result(
                Code.SUCCESS,
                f'compute_driver is {self._conf.compute_driver}.',
            )
        complaints = []
        if found is Stage.GUARDED:
            complaints.append(
                'numatune is "guard": a guest that is started or '
                'hard-rebooted becomes one that Nova alone cannot '
                'live-migrate. Set '
                f'[numa_guard] numatune = stock, {_AGAIN}'
            )
        if self._confines():
            complaints.append(
                'isolation is "cell": a floating guest that is started or '
                'hard-rebooted is confined to floating_cells. Set '
                f'[numa_guard] isolation = none, {_AGAIN}'
            )
        if complaints:
            return Result(Code.WARNING, '\n'.join(complaints))
        return Result(
            Code.SUCCESS,
            'numatune is "stock". That is in force if nova-compute was '
            'restarted since.',
        )

    def _confines(self) -> bool:
        try:
            return bool(self._conf.numa_guard.isolation == 'cell')
        except ValueError as exc:
            raise checks.CannotCheckError(
                f'[numa_guard] isolation: {exc}'
            ) from exc
