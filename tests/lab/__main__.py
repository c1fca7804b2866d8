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

"""Bring a lab up, or take it down.

A lab is a real Nova on this machine: keystone, placement, glance, neutron,
MariaDB, RabbitMQ, Nova's API, scheduler and conductor, and a cell with a
conductor of its own and compute hosts, with a libvirtd and QEMU each. It takes
about half a minute and 2 GiB to come up. It needs root, the packages that
bindep.txt lists for "lab", and to be run with the Python of an environment in
which tests/lab/requirements.txt and nova-numa-guard are installed.
"""

import argparse
import logging
import pathlib
import sys

from tests.lab.stack import errors, plan, ports, stack

LOG = logging.getLogger('lab')


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='python -m tests.lab', description=__doc__
    )
    commands = parser.add_subparsers(dest='command', required=True)
    up = commands.add_parser('up', help='bring a lab up in a new folder')
    up.add_argument(
        '--plan',
        type=pathlib.Path,
        default=plan.DEFAULT,
        help='what the lab consists of; the default is %(default)s, and '
        'tests/lab/stack/plan.py says what a plan may hold',
    )
    up.add_argument(
        '--port',
        type=int,
        help=f'the first of {len(ports.NAMES)} ports that follow each other; '
        'free ones are looked for if it is not given',
    )
    down = commands.add_parser('down', help='stop all of a lab')
    for command in (up, down):
        command.add_argument(
            'folder', help='holds the configuration, the data and the logs'
        )
    return parser


def main() -> int:
    args = _parser().parse_args()
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format='%(relativeCreated)8d ms  %(message)s',
    )
    try:
        if args.command == 'down':
            stack.Stack.load(args.folder).down()
            LOG.info('Everything is stopped')
        else:
            lab = stack.Stack.up(args.folder, args.plan, args.port)
            LOG.info(
                'The lab is up: logs are in %s, credentials in %s',
                lab.layout.path('log'),
                lab.layout.path('openrc'),
            )
    except (errors.LabError, OSError) as exc:
        LOG.error('%s', exc)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == '__main__':
    sys.exit(main())
