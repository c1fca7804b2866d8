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

"""The XML of a domain that a command is given."""

import argparse
from typing import TextIO

from nova_numa_guard import domain
from nova_numa_guard.cmd import errors


def add(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names it."""
    parser.add_argument(
        'file',
        metavar='<file>',
        help='the XML of a domain, as virsh dumpxml prints it; - for stdin',
    )


def name(file: str) -> str:
    """What it is called in what is said of it."""
    return 'stdin' if file == '-' else file


def read(file: str, stdin: TextIO) -> str:
    """What the file holds, which is the XML of a domain.

    :param file: its name, or ``-``
    :raises errors.CommandError: it is not that
    """
    try:
        if file == '-':
            text = stdin.read()
        else:
            with open(file, encoding='utf-8') as stream:
                text = stream.read()
        domain.parse(text)
    except OSError as exc:
        raise errors.CommandError(
            f'cannot read {name(file)}: {exc.strerror or exc}'
        ) from exc
    except ValueError as exc:  # UnicodeDecodeError is one
        raise errors.CommandError(f'{name(file)}: {exc}') from exc
    return text
