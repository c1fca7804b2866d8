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

"""The ways in which a guest starts.

What was destroyed for a start cannot be brought back, so that a start is
refused before that, or not at all.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """A way to start a guest.

    :param is_restart: of one that this host has already
    :param excuse: why it is not refused; empty if it may be
    :param rolls_back: whether Nova then sets the instance back to its state,
        and to ERROR otherwise
    :param insists: whether it waits as well for pages that are not there,
        because the guest has just been stopped, or the host started
    :param at_boot: it shares the time for that with others
    """

    is_restart: bool = False
    excuse: str = ''
    rolls_back: bool = False
    insists: bool = False
    at_boot: bool = False


BUILD = Path()
EVACUATION = Path()
REBUILD = Path(True, 'the rebuild has removed the guest already')
RESTART = Path(True)
RESUME = Path(True, rolls_back=True)
HOST_BOOT = Path(
    True, 'it ran when this host went down', insists=True, at_boot=True
)
RESCUE = Path(True, 'it was powered off for the rescue', insists=True)
ARRIVAL = Path(True, 'it has been moved already')
