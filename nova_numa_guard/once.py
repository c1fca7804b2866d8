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

"""Saying a thing once, where it would be said again and again."""

from collections.abc import Hashable
import threading


class Once:
    """Tells the first of each from the rest; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: set[Hashable] = set()

    def is_new(self, cause: Hashable) -> bool:
        """Whether it was not asked for this before."""
        with self._lock:
            if cause in self._seen:
                return False
            self._seen.add(cause)
            return True
