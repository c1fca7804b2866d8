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

"""Whether nova-scheduler asks the guard's filter."""

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard.status import options

Code, Result = upgradecheck.Code, upgradecheck.Result

FILTER = 'NUMAGuardFilter'
PATH = f'nova_numa_guard.scheduler.filters.{FILTER}'
_NOVAS = 'NUMATopologyFilter'


class FilterCheck:
    """``available_filters`` and ``enabled_filters``, loaded as Nova does it.

    :param conf: has read the configuration of nova-scheduler
    """

    name = 'Filter of nova-scheduler'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def run(self) -> upgradecheck.Result:
        # It takes a second, and not every check needs it.
        from nova.scheduler import filters

        available = self._conf.filter_scheduler.available_filters
        try:
            classes = filters.HostFilterHandler().get_matching_classes(
                available
            )
        # Whatever it is, nova-scheduler would not start for it either.
        except Exception as exc:
            return Result(
                Code.FAILURE,
                '[filter_scheduler] available_filters cannot be loaded: '
                f'{type(exc).__name__}: {exc}\n'
                'nova-scheduler would not start. Install nova-numa-guard into '
                'the Python environment that it runs in, and run this command '
                'from there.',
            )
        known = {each.__name__ for each in classes}
        enabled = list(self._conf.filter_scheduler.enabled_filters)
        unknown = [each for each in enabled if each not in known]
        if FILTER in unknown:
            return Result(
                Code.FAILURE,
                f'{FILTER} is enabled, but not available: nova-scheduler '
                'would not start. Add to [filter_scheduler]: '
                f'available_filters = {PATH}',
            )
        if unknown:
            return Result(
                Code.FAILURE,
                f'Enabled, but not available: {", ".join(unknown)}. '
                'nova-scheduler would not start. If available_filters was '
                'set, it has to have nova.scheduler.filters.all_filters as '
                'well.',
            )
        if FILTER not in enabled:
            return Result(
                Code.WARNING,
                f'{FILTER} is not enabled: kinds of guest are not kept apart. '
                f'Add it to [filter_scheduler] enabled_filters, before '
                f'{_NOVAS}, and to [filter_scheduler]: '
                f'available_filters = {PATH}',
            )
        return self._order(enabled)

    def _order(self, enabled: list[str]) -> upgradecheck.Result:
        if _NOVAS not in enabled:
            return Result(
                Code.WARNING,
                f'{_NOVAS} is not enabled: affined guests are sent to hosts '
                'whose cells they do not fit, and fail there. Add it to '
                f'[filter_scheduler] enabled_filters, behind {FILTER}.',
            )
        if enabled.index(_NOVAS) < enabled.index(FILTER):
            return Result(
                Code.WARNING,
                f'{FILTER} comes after {_NOVAS}, which costs more for each '
                'host. Put it before that in [filter_scheduler] '
                'enabled_filters.',
            )
        if options.value(self._conf, 'isolation') == 'none':
            return Result(
                Code.SUCCESS,
                '[numa_guard] isolation is "none": the filter keeps kinds '
                'apart only where an aggregate or a compute asks for it.',
            )
        return Result(Code.SUCCESS)
