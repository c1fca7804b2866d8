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

"""Whether the guard was tried with the Nova that is installed."""

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard import installed, series
from nova_numa_guard.status import options

Code, Result = upgradecheck.Code, upgradecheck.Result


class ReleaseCheck:
    """The series of Nova, and what nova-compute makes of it when it starts.

    :param conf: has read the configuration
    """

    name = 'Release of Nova'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def run(self) -> upgradecheck.Result:
        version = installed.version()
        found = series.describe(version)
        support = series.judge(version)
        if support is series.Support.SUPPORTED:
            return Result(Code.SUCCESS)
        if support is series.Support.DEVELOPMENT:
            return Result(
                Code.WARNING,
                f'{found}.\nA version in development may differ from what '
                'was tried: try it on one host first.',
            )
        if options.value(self._conf, 'unsupported_nova') == 'warn':
            return Result(
                Code.WARNING,
                f'{found}.\nnova-compute starts all the same, because '
                '[numa_guard] unsupported_nova is "warn"; guests may fail to '
                'start or to migrate, or be guarded by nothing. Install a '
                'nova-numa-guard for this Nova.',
            )
        return Result(
            Code.FAILURE,
            f'{found}.\nnova-compute would not start. Install a '
            'nova-numa-guard for this Nova, or set [numa_guard] '
            'unsupported_nova = warn.',
        )
