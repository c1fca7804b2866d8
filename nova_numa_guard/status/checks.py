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

"""What every check of ``nova-numa-guard-status`` is."""

from typing import Protocol

from oslo_upgradecheck import upgradecheck


class CannotCheckError(Exception):
    """A check could not be done.

    Its text says what is in the way, and what to do about it.
    """


class Check(Protocol):
    """One question, and its answer.

    :param name: of the check, as a row of the table begins
    """

    name: str

    def run(self) -> upgradecheck.Result:
        """Answer it. Nothing is changed by that.

        :returns: with what is wrong and what to do as its details, one matter
            a line
        :raises CannotCheckError: it cannot be answered
        """
