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

"""That Nova's tests would see what the guard does to them."""

import unittest

from nova.tests.functional.libvirt import test_numa_servers

from tests.nova import guarded, stock


class Emptied(guarded.WithKernel):
    """Others take all huge pages of a host once it has told of them."""

    def _files(self, host_info):
        self.files = super()._files(host_info)
        return self.files

    def start_compute(self, *args, **kwargs):
        super().start_compute(*args, **kwargs)
        for pool in self.files.kernel.pools():
            self.files.steal(pool.node, pool.page_size, pool.free)

    def _assert_checked(self):
        self.REFUSED.append(self._count('checks', result='refused'))


class GuardedTest(unittest.TestCase):
    def test_kernel_is_asked(self):
        # Not in the test itself: testtools has it forget all when it ends.
        refused = []
        case = type(
            'Case',
            (Emptied, test_numa_servers.NUMAServersTest),
            {'REFUSED': refused},
        )
        result = unittest.TestResult()
        case('test_create_server_with_hugepages').run(result)
        self.assertFalse(result.wasSuccessful())
        self.assertEqual([1], refused)

    def test_exceptions_exist(self):
        name = 'NUMAServersTest.test_that_was_renamed'
        with self.assertRaisesRegex(RuntimeError, name):
            stock.suite_of(
                test_numa_servers,
                unittest.TestLoader(),
                __name__,
                excepted={name: 'it asserts stock XML'},
            )

    def test_exceptions_are_skipped(self):
        suite = stock.suite_of(
            test_numa_servers,
            unittest.TestLoader(),
            __name__,
            excepted={
                'NUMAServersTest.test_create_server_with_hugepages': 'a reason'
            },
        )
        [case] = [
            case
            for case in suite
            if type(case).__name__ == 'NUMAServersTest'
            and case._testMethodName == 'test_create_server_with_hugepages'
        ]
        result = unittest.TestResult()
        case.run(result)
        self.assertEqual(['a reason'], [why for _, why in result.skipped])
