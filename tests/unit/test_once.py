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

"""Saying a thing once."""

from concurrent import futures
import threading

from nova_numa_guard import once
from tests.unit import base

THREADS = 8


class OnceTest(base.TestCase):
    def test_each_is_new_once(self):
        known = once.Once()
        self.assertEqual(
            [True, True, False, False, True],
            [known.is_new(cause) for cause in ('a', 'b', 'a', 'b', ('a', 1))],
        )

    def test_of_many_threads_one_is_the_first(self):
        known, start = once.Once(), threading.Barrier(THREADS)

        def ask():
            start.wait()
            return [known.is_new(cause) for cause in range(1000)]

        with futures.ThreadPoolExecutor(THREADS) as pool:
            asked = [pool.submit(ask) for _ in range(THREADS)]
        answers = zip(*(each.result() for each in asked), strict=True)
        self.assertEqual({1}, {sum(each) for each in answers})
