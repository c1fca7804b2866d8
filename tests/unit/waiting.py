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

"""Threads that do something while others wait."""

import threading
import time

LONG = 30


def later(test, desk, function, *args, **values):
    """Do it when somebody waits for pages, and while nobody reads.

    :param desk: reservations.Reservations, where they wait
    """

    def do():
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            with desk._changed:
                if desk._changed._waiters:
                    function(*args, **values)
                    return
            time.sleep(0.001)
        raise AssertionError('nobody waits')

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    test.addCleanup(thread.join, LONG)
