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

"""Whether nova-compute is configured to use the guard's driver."""

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard.status import driver

Code, Result = upgradecheck.Code, upgradecheck.Result


class ConfiguredCheck:
    """``[DEFAULT] compute_driver``.

    :param conf: has read the configuration of nova-compute
    """

    name = 'compute_driver'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def run(self) -> upgradecheck.Result:
        wanted = f'compute_driver = {driver.COMPUTE_DRIVER}'
        found = self._conf.compute_driver
        if found == driver.COMPUTE_DRIVER:
            return Result(Code.SUCCESS)
        if not found:
            return Result(
                Code.WARNING,
                'The configuration has no compute_driver, so it is not that '
                'of nova-compute. Name the files that nova-compute reads with '
                '--config-file FILE, before the word "upgrade". With the '
                f'guard it has {wanted}.',
            )
        if (
            found.rpartition('.')[2]
            == driver.COMPUTE_DRIVER.rpartition('.')[2]
        ):
            return Result(
                Code.FAILURE,
                f'compute_driver is {found}, and nova-compute would not find '
                f'that. Set {wanted} in [DEFAULT].',
            )
        return Result(
            Code.WARNING,
            f'compute_driver is {found}: on this host neither pages nor '
            f'isolation are guarded. Set {wanted} in [DEFAULT], and restart '
            'nova-compute.',
        )
