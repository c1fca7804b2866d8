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

"""Whether nova-scheduler asks the guard's weigher, and Nova's as before."""

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard.status import options

Code, Result = upgradecheck.Code, upgradecheck.Result

WEIGHER = 'nova_numa_guard.scheduler.weights.NUMAGuardWeigher'
_NOVAS = 'nova.scheduler.weights.'
_ALL = 'nova.scheduler.weights.all_weighers'


class WeigherCheck:
    """``weight_classes``, loaded as Nova does it.

    :param conf: has read the configuration of nova-scheduler
    """

    name = 'Weigher of nova-scheduler'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def run(self) -> upgradecheck.Result:
        from nova.scheduler import weights

        try:
            classes = weights.HostWeightHandler().get_matching_classes(
                self._conf.filter_scheduler.weight_classes
            )
        except Exception as exc:
            return Result(
                Code.FAILURE,
                '[filter_scheduler] weight_classes cannot be loaded: '
                f'{type(exc).__name__}: {exc}\n'
                'nova-scheduler would not start. Install nova-numa-guard into '
                'the Python environment that it runs in, and run this command '
                'from there.',
            )
        found = [f'{each.__module__}.{each.__name__}' for each in classes]
        complaints = []
        if not any(each.startswith(_NOVAS) for each in found):
            complaints.append(
                "[filter_scheduler] weight_classes has none of Nova's own "
                'weighers: hosts are no longer spread by RAM, CPUs or failed '
                f'builds. Add {_ALL} to it.'
            )
        if WEIGHER not in found:
            complaints.append(
                f'{WEIGHER} is not among [filter_scheduler] weight_classes: '
                'hosts are not chosen by what they hold, and those that '
                'lately refused a guest are not avoided.'
                f'{self._moves()} Add it, beside {_ALL}.'
            )
        elif not options.value(self._conf, 'weight_multiplier'):
            complaints.append(
                '[numa_guard] weight_multiplier is 0, which turns the '
                f'weigher off.{self._moves()}'
            )
        if complaints:
            return Result(Code.WARNING, '\n'.join(complaints))
        return Result(Code.SUCCESS)

    def _moves(self) -> str:
        if options.value(self._conf, 'isolation_on_moves') != 'prefer':
            return ''
        return (
            ' And [numa_guard] isolation_on_moves is "prefer": guests that '
            'move will be mixed where they need not.'
        )
