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

"""Nova's own functional tests of NUMA servers, run with the guard's driver.

With every switch off the guard is stock, so all of them have to pass.
"""

import unittest

from nova.tests.functional.libvirt import test_numa_servers

from nova_numa_guard import conf
from nova_numa_guard.virt import driver
from tests.functional import base


class SwitchedOff:
    """Nova's test, with another compute_driver."""

    def _setup_compute_service(self):
        conf.register_opts(driver.CONF)
        self.flags(compute_driver=base.DRIVER)
        self.flags(
            group='numa_guard',
            isolation='none',
            numatune='stock',
            page_check='off',
        )

    def start_compute(self, *args, **kwargs):
        name = super().start_compute(*args, **kwargs)
        self.assertIsInstance(
            self.computes[name].driver, driver.NUMAGuardDriver
        )
        return name


def load_tests(loader, tests, pattern):
    """Every test class of Nova's module, with SwitchedOff before it."""
    suite = unittest.TestSuite()
    for name, stock in sorted(vars(test_numa_servers).items()):
        if isinstance(stock, type) and loader.getTestCaseNames(stock):
            switched_off = type(name, (SwitchedOff, stock), {})
            switched_off.__module__ = __name__
            suite.addTests(loader.loadTestsFromTestCase(switched_off))
    return suite
