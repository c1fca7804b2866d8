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

"""Whether nova-compute would find the guard's driver."""

import importlib
import warnings

import os_vif
from oslo_upgradecheck import upgradecheck

Code, Result = upgradecheck.Code, upgradecheck.Result

# What [DEFAULT] compute_driver says of it, and where Nova looks for that.
COMPUTE_DRIVER = 'numa_guard.NUMAGuardDriver'
_PACKAGE = 'nova.virt.'


class DriverCheck:
    """The driver, loaded as nova-compute does it: os-vif's plug-ins first.

    Whether nova-compute is to load it is another matter: the check can be made
    before it is configured.
    """

    name = "The guard's driver"

    def run(self) -> upgradecheck.Result:
        module, _, driver = (_PACKAGE + COMPUTE_DRIVER).rpartition('.')
        try:
            with warnings.catch_warnings():
                # Nova's libraries announce what they will drop, to an operator
                # who can do nothing about it.
                warnings.simplefilter('ignore')
                os_vif.initialize()
                getattr(importlib.import_module(module), driver)
        # Whatever it is, nova-compute would not start for it either.
        except Exception as exc:
            return Result(
                Code.FAILURE,
                f'compute_driver = {COMPUTE_DRIVER} cannot be loaded: '
                f'{type(exc).__name__}: {exc}\n'
                'Install nova-numa-guard into the Python environment that '
                'nova-compute runs in, and run this command from there.',
            )
        return Result(Code.SUCCESS)
