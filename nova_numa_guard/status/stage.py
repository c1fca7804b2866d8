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

"""How far a compute host is on its way back to Nova's own driver."""

import enum

from oslo_config import cfg

from nova_numa_guard.status import checks, driver


class Stage(enum.Enum):
    """What the configuration of nova-compute says.

    It is in force only if nova-compute was restarted since.
    """

    GUARDED = 'guarded'  # numatune is the guard's
    STOCK = 'stock'  # the guard's driver writes Nova's
    LEFT = 'left'  # another driver
    UNKNOWN = 'unknown'  # none: this is not nova-compute's


def of(conf: cfg.ConfigOpts) -> Stage:
    """The stage by a configuration.

    :param conf: with the options of the guard and Nova's ``compute_driver``
    :raises CannotCheckError: numatune is bad
    """
    if not conf.compute_driver:
        return Stage.UNKNOWN
    if conf.compute_driver != driver.COMPUTE_DRIVER:
        return Stage.LEFT
    try:
        stock = conf.numa_guard.numatune == 'stock'
    except ValueError as exc:
        raise checks.CannotCheckError(f'[numa_guard] numatune: {exc}') from exc
    return Stage.STOCK if stock else Stage.GUARDED
