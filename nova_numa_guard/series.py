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

"""Which series of Nova the guard was tried with."""

import enum
import re

# By the major of its version.
SUPPORTED = {31: '2025.1', 32: '2025.2', 33: '2026.1', 34: '2026.2'}

# Of a version without its local part: a1, b1, rc1 or dev1, after any dot.
_UNRELEASED = re.compile(r'(a|b|rc|dev)\d')


class Support(enum.Enum):
    """What is known of a Nova."""

    SUPPORTED = 'supported'
    # Of a series that is supported, by its number: before a release, or
    # beyond one.
    DEVELOPMENT = 'development'
    UNSUPPORTED = 'unsupported'


def judge(version: str | None) -> Support:
    """What is known of a Nova with a version.

    Its major is what counts, and is all that is known of a version between
    two releases: 34.1.0.dev123 counts as 34, though it may be on its way to
    35, and 35.0.0.0b1 as 35.

    :param version: as Python's packages have it; None if it is not known,
        and then it is no supported one
    """
    public = (version or '').partition('+')[0]
    major = re.match(r'\d+(?=\.)', public)
    if major is None or int(major[0]) not in SUPPORTED:
        return Support.UNSUPPORTED
    if _UNRELEASED.search(public):
        return Support.DEVELOPMENT
    return Support.SUPPORTED


def describe(version: str | None) -> str:
    """What is installed, and what is supported, for one line of a log."""
    first, *_, last = SUPPORTED
    return (
        f'Nova {version or "of unknown version"} is installed, and this '
        f'nova-numa-guard supports Nova {first} to {last} '
        f'({SUPPORTED[first]} to {SUPPORTED[last]})'
    )
