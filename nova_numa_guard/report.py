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

"""What a compute host tells the scheduler about itself.

One record in the stats of Nova's ComputeNode, under the key ``numa_guard``:
JSON, with its version first. A scheduler that does not know the version, or
finds no record, uses what Nova itself knows of the host.
"""

import dataclasses
import json

STATS_KEY = 'numa_guard'
VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """The record.

    :param reserved_memory: MiB that the host keeps from all guests
    """

    reserved_memory: int


def encode(report: Report) -> str:
    """Write the record as text for ComputeNode.stats."""
    return json.dumps({'version': VERSION, **dataclasses.asdict(report)})


def decode(text: object) -> Report | None:
    """Read the record of a host; None if there is none, or not one we know.

    :param text: what ComputeNode.stats holds, which may be anything
    :raises ValueError: it is a record, but not a sound one
    """
    if text is None:
        return None
    try:
        record = json.loads(str(text))
        version = int(record['version'])
        if version != VERSION:
            return None
        report = Report(reserved_memory=int(record['reserved_memory']))
        if report.reserved_memory < 0:
            raise ValueError('reserved_memory is negative')
        return report
    except (
        ArithmeticError,  # Infinity
        AttributeError,
        LookupError,
        RecursionError,  # [[[[…
        TypeError,
        ValueError,
    ) as exc:
        raise ValueError(f'not a record of the guard: {text!r:.200}') from exc
