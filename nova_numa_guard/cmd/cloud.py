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

"""What commands that read Nova's databases have in common."""

import argparse
from collections.abc import Iterator
import contextlib

from nova_numa_guard.cmd import errors


def add_options(parser: argparse.ArgumentParser) -> None:
    """Which configuration is read."""
    parser.add_argument(
        '--config-file',
        action='append',
        default=[],
        metavar='<file>',
        help='a configuration file; by default those of nova-scheduler',
    )
    parser.add_argument(
        '--config-dir',
        action='append',
        default=[],
        metavar='<dir>',
        help='a folder of configuration files',
    )


@contextlib.contextmanager
def reading(parsed_args: argparse.Namespace) -> Iterator[None]:
    """Read the configuration, and whatever then is wrong is one line.

    :raises CommandError: the configuration or Nova's records do not tell
    """
    # It takes seconds, and other commands do not need it.
    from nova_numa_guard.cloud import config
    from nova_numa_guard.cloud import errors as cloud_errors

    try:
        config.load(parsed_args.config_file, parsed_args.config_dir)
        yield
    except cloud_errors.CloudError as exc:
        raise errors.CommandError(exc) from exc


def silent(cells: tuple[str, ...]) -> list[str]:
    """What is said of cells of Nova whose hosts are not known."""
    return [
        f'The database of cell {cell} did not answer: its hosts are missing.'
        for cell in cells
    ]
