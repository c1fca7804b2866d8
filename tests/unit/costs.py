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

"""What something costs: a number that no machine changes."""

import gc
import sys


def calls(part):
    """How many calls Python makes, of functions of its own and of C's.

    What is only done once has been done before.
    """
    part()
    count = 0

    def profile(frame, event, arg):
        nonlocal count
        count += event in ('call', 'c_call')

    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        part()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count
