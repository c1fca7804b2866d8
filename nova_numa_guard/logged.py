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

"""The verdicts that nova-scheduler has logged of a request.

Pure: lines in, verdicts out. Of the guard's filter there are one DEBUG line
for each host that fails and one INFO line for the request
(nova_numa_guard.scheduler.filters), of Nova's one DEBUG line for each.
"""

from collections.abc import Iterable, Iterator
import dataclasses
import re

_REQUEST = re.compile(
    r'req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', re.IGNORECASE
)
_TIME = re.compile(r'\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?')
_GUARD = re.compile(
    r'\((?P<host>[^,()]+), (?P<node>[^()]+)\) ram: .*?'
    r' fails NUMA guard: (?P<reason>[a-z-]+) \((?P<detail>.*)\)'
)
_NOVA = re.compile(
    r'(?:\] |^|: )(?P<host>[^\s,()]+), (?P<node>[^\s,()]+) fails NUMA '
    r'topology requirements\. (?P<detail>.*?\.)(?= |$)'
)
_TALLY = re.compile(r'(?P<detail>NUMA guard (?:removed|would|kept).*)$')


@dataclasses.dataclass(frozen=True, slots=True)
class Logged:
    """A verdict.

    :param time: as it is in the line; empty if it has none
    :param host: empty for a line about all of them
    :param by: ``guard`` or ``nova``
    :param reason: the guard's code; empty where there is none
    """

    time: str
    host: str
    by: str
    reason: str
    detail: str


def is_request_id(text: str) -> bool:
    """Whether a text is a request id of OpenStack's."""
    return _REQUEST.fullmatch(text) is not None


def verdicts(lines: Iterable[str], request_id: str) -> Iterator[Logged]:
    """The verdicts of a request, in the order of the lines."""
    for line in lines:
        if request_id not in line:
            continue
        text = line.rstrip()
        time = _TIME.search(text)
        when = time[0] if time else ''
        if match := _GUARD.search(text):
            yield Logged(
                when, match['host'], 'guard', match['reason'], match['detail']
            )
        elif match := _NOVA.search(text):
            yield Logged(when, match['host'], 'nova', '', match['detail'])
        elif match := _TALLY.search(text):
            yield Logged(when, '', 'guard', '', match['detail'])
