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

"""How much a failed build counts against a host."""

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard.status import options, weighers

Code, Result = upgradecheck.Code, upgradecheck.Result

# What the guard's weigher takes from a host of the wrong kind, times its
# multiplier (nova_numa_guard.scheduler.weights.LAST).
_LAST = 1e6


class FailedBuildsCheck:
    """``build_failure_weight_multiplier``.

    The guard's own refusals are not counted as failed builds. What QEMU fails
    of is, while the page check does not enforce.

    :param conf: has read the configuration of nova-scheduler
    """

    name = 'build_failure_weight_multiplier'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def run(self) -> upgradecheck.Result:
        scheduler = self._conf.filter_scheduler
        multiplier = scheduler.build_failure_weight_multiplier
        if multiplier <= 0:
            return Result(Code.SUCCESS)
        complaints = []
        ours = options.value(self._conf, 'weight_multiplier')
        weighs = ours and weighers.WEIGHER in scheduler.weight_classes
        if weighs and multiplier >= _LAST * ours:
            complaints.append(
                'A failed build counts as much as the wrong kind of host: '
                f'build_failure_weight_multiplier is {multiplier:g}, and the '
                f'guard takes {_LAST * ours:g} from hosts that would be '
                'mixed. Raise [numa_guard] weight_multiplier above '
                f'{multiplier / _LAST:g}, or guests that move are mixed where '
                'they need not be.'
            )
        mode = options.value(self._conf, 'page_check')
        if mode != 'enforce':
            complaints.append(
                f'page_check is "{mode}": a guest that QEMU cannot start for '
                'want of pages counts as a failed build, and with '
                f'build_failure_weight_multiplier = {multiplier:g} its host '
                'comes last for guests of all kinds until a build on it '
                'succeeds. What the guard refuses does not count. Until '
                'page_check is "enforce", set [filter_scheduler] '
                'build_failure_weight_multiplier = 1.'
            )
        if complaints:
            return Result(Code.WARNING, '\n'.join(complaints))
        return Result(Code.SUCCESS)
