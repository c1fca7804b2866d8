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

"""Run Nova's own functional tests with the guard's driver and scheduler."""

import unittest

from nova_numa_guard import conf
from nova_numa_guard.scheduler import filters, weights
from nova_numa_guard.virt import driver
from tests.functional import base

FILTER = 'NUMAGuardFilter'


class WithGuard:
    """Nova's test, with the guard in its services; to be mixed in first.

    What Nova's tests have in common is start_service(): some of them start
    neither computes nor a scheduler as the others do.
    """

    GUARD: dict[str, object] = {}

    def start_service(self, name, *args, **kwargs):
        conf.register_opts(driver.CONF)
        self.flags(group='numa_guard', **self.GUARD)
        if name == 'scheduler':
            self._extend_scheduler()
        if name == 'compute':
            self.flags(compute_driver=base.DRIVER)
        service = super().start_service(name, *args, **kwargs)
        if name == 'compute':
            self.assertIsInstance(service.driver, driver.NUMAGuardDriver)
        if name == 'scheduler':
            self._assert_extended(service.manager.host_manager)
        return service

    def _extend_scheduler(self):
        """Add to what the test has, as an operator would."""
        options = filters.CONF.filter_scheduler
        enabled = list(options.enabled_filters)
        before = 'NUMATopologyFilter'
        enabled.insert(
            enabled.index(before) if before in enabled else len(enabled),
            FILTER,
        )
        self.flags(
            group='filter_scheduler',
            available_filters=[
                *options.available_filters,
                f'{filters.__name__}.{FILTER}',
            ],
            enabled_filters=enabled,
            weight_classes=[
                *options.weight_classes,
                f'{weights.__name__}.NUMAGuardWeigher',
            ],
        )

    def _assert_extended(self, manager):
        self.assertIn(
            filters.NUMAGuardFilter, map(type, manager.enabled_filters)
        )
        self.assertIn(weights.NUMAGuardWeigher, map(type, manager.weighers))


def suite_of(module, loader, name, mixin=WithGuard, excepted=None, **options):
    """Every test of one of Nova's modules, run with the guard.

    :param module: Nova's
    :param name: of the module that shows the tests as its own
    :param mixin: WithGuard, or what is derived of it
    :param excepted: why a test cannot pass with the guard, by Class.method;
        it is skipped, and the reason printed
    :param options: of [numa_guard]
    """
    reasons = dict(excepted or {})
    suite = unittest.TestSuite()
    for case_name, case in sorted(vars(module).items()):
        # Of the mixins some have tests as well.
        if not isinstance(case, type) or not issubclass(
            case, unittest.TestCase
        ):
            continue
        methods = loader.getTestCaseNames(case)
        skipped = {
            method: unittest.skip(reason)(getattr(case, method))
            for method in methods
            if (reason := reasons.pop(f'{case_name}.{method}', None))
        }
        if methods:
            mixed = type(
                case_name, (mixin, case), {'GUARD': options, **skipped}
            )
            mixed.__module__ = name
            suite.addTests(loader.loadTestsFromTestCase(mixed))
    if not suite.countTestCases():
        raise RuntimeError(f'there are no tests in {module.__name__}')
    if reasons:
        raise RuntimeError(f'not in {module.__name__}: {sorted(reasons)}')
    return suite
