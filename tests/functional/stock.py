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

"""Run Nova's own functional tests with the guard's driver."""

import unittest

from nova_numa_guard import conf
from nova_numa_guard.virt import driver
from tests.functional import base


class WithGuard:
    """Nova's test, with another compute_driver; to be mixed in first."""

    GUARD: dict[str, object]

    def _setup_compute_service(self):
        conf.register_opts(driver.CONF)
        self.flags(compute_driver=base.DRIVER)
        self.flags(group='numa_guard', **self.GUARD)

    def start_compute(self, *args, **kwargs):
        name = super().start_compute(*args, **kwargs)
        self.assertIsInstance(
            self.computes[name].driver, driver.NUMAGuardDriver
        )
        return name


def suite_of(module, loader, name, **options):
    """Every test of one of Nova's modules, run with the guard.

    :param module: Nova's
    :param name: of the module that shows the tests as its own
    :param options: of [numa_guard]
    """
    suite = unittest.TestSuite()
    for case_name, case in sorted(vars(module).items()):
        if isinstance(case, type) and loader.getTestCaseNames(case):
            mixed = type(case_name, (WithGuard, case), {'GUARD': options})
            mixed.__module__ = name
            suite.addTests(loader.loadTestsFromTestCase(mixed))
    if not suite.countTestCases():
        raise RuntimeError(f'there are no tests in {module.__name__}')
    return suite
