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

"""The command ``nova-numa-guard-status``.

It only reads. Its exit codes are those of every ``…-status upgrade check``:

====  =======================================================================
0     success: nothing to do
1     a warning
2     a failure: do not go on
255   none failed, but one could not be done; or the command was used wrongly
====  =======================================================================
"""

from collections.abc import Callable, Sequence
from importlib import metadata
import itertools
import sys
import textwrap
from typing import Any

import nova.conf.compute
import nova.conf.database
import nova.conf.libvirt
import nova.conf.paths
import nova.conf.scheduler
from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard import conf as guard_conf
from nova_numa_guard.status import checks, roles

PROG = 'nova-numa-guard-status'
UNDONE = 255

# The columns of a table that is 80 wide.
_WIDTH = 76

# Whose options are looked at, beside the guard's.
_NOVAS = (
    nova.conf.compute,
    nova.conf.database,
    nova.conf.libvirt,
    nova.conf.paths,
    nova.conf.scheduler,
)

# What each service reads if it is not told. Some distributions keep the
# compute_driver in a file of nova-compute's.
_PROGS = {
    roles.Role.API: 'nova-api',
    roles.Role.SCHEDULER: 'nova-scheduler',
    roles.Role.COMPUTE: 'nova-compute',
}


class Commands(upgradecheck.UpgradeCommands):
    """Runs checks, and prints a table or JSON.

    :param conf: the configuration; read by the time that checks are run
    """

    display_title = 'NUMA guard'

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self.failed = self.undone = False

    def check(self) -> upgradecheck.Code:
        self._upgrade_checks = tuple(
            (each.name, self._running(each)) for each in _checks(self._conf)
        )
        return super().check()

    def _running(
        self, each: checks.Check
    ) -> Callable[..., upgradecheck.Result]:
        def run(_: upgradecheck.UpgradeCommands) -> upgradecheck.Result:
            try:
                result = each.run()
            except checks.CannotCheckError as exc:
                # The others' results are of use all the same.
                self.undone = True
                return upgradecheck.Result(
                    upgradecheck.Code.FAILURE,
                    f'The check could not be done. {exc}',
                )
            if result.code is upgradecheck.Code.FAILURE:
                self.failed = True
            return result

        return run

    def _get_details(
        self, upgrade_check_result: upgradecheck.Result
    ) -> str | None:
        """Keep lines apart and UUIDs whole; the base class does neither."""
        if upgrade_check_result.details is None:
            return None
        # The first line has the word "Details:" before it.
        return '\n'.join(
            ['', *map(_wrapped, upgrade_check_result.details.split('\n'))]
        )


def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :param argv: its words; None for those of this process
    :returns: the exit code
    """
    conf = cfg.ConfigOpts()
    guard_conf.register_opts(conf)
    for module in _NOVAS:
        module.register_opts(conf)
    commands = Commands(conf)
    conf.register_cli_opt(
        cfg.SubCommandOpt('command', handler=_parsers(commands))
    )
    words = sys.argv[1:] if argv is None else argv
    names = {'project': 'nova', 'prog': _PROGS[_role(words)]}
    try:
        conf(
            words,
            project='nova',
            prog=PROG,
            version=metadata.version('nova-numa-guard'),
            default_config_files=cfg.find_config_files(**names),
            default_config_dirs=cfg.find_config_dirs(**names),
        )
    except cfg.Error as exc:
        sys.stderr.write(f'{PROG}: the configuration is not read: {exc}\n')
        return UNDONE
    except SystemExit as exc:
        # A wrong word is 2 for argparse, which would be a failure of a check.
        return UNDONE if exc.code else 0
    upgradecheck.CONF = conf  # where it looks for --json
    code = upgradecheck.run(conf)
    # What is known to be wrong is more than what is not known.
    return UNDONE if commands.undone and not commands.failed else int(code)


def _checks(conf: cfg.ConfigOpts) -> list[checks.Check]:
    """The checks that were asked for."""
    command = conf.command
    if command.leaving:
        return roles.leaving(conf, command.uri)
    wanted = [roles.Role(each) for each in command.role or ()]
    return roles.of(conf, wanted or roles.found(conf), command.uri)


def _role(words: Sequence[str]) -> roles.Role:
    """The role that was asked for, before the words are read.

    Which files are read depends on it: a compute's, if it is several or none.
    """
    asked = {
        role
        for role in roles.Role
        for before, word in itertools.pairwise((*words, ''))
        if f'--role={role.value}' in {before, word}
        or (before, word) == ('--role', role.value)
    }
    return asked.pop() if len(asked) == 1 else roles.Role.COMPUTE


def _parsers(commands: Commands) -> Callable[[Any], None]:
    """upgradecheck.register_cli_options(), with options of our own."""

    def add(subparsers: Any) -> None:
        upgrade = subparsers.add_parser(
            'upgrade', help='check whether a step can be taken'
        )
        upgrade.add_argument('check', choices=['check'], help='do it')
        upgrade.add_argument(
            '--json',
            action='store_true',
            help='print JSON instead of a table',
        )
        upgrade.add_argument(
            '--leaving',
            action='store_true',
            help="check whether this compute host can go back to Nova's own "
            'driver, and name the servers that are in the way',
        )
        upgrade.add_argument(
            '--role',
            action='append',
            choices=[role.value for role in roles.Role],
            help='check what is of this service of Nova; may be given '
            'several times. Without it, what the configuration shows: a '
            'compute has a compute_driver, nova-api and nova-scheduler have '
            'an [api_database] connection',
        )
        upgrade.add_argument(
            '--uri',
            default='',
            help='where libvirt is, for a compute; without it, where '
            "nova-compute's configuration says",
        )
        upgrade.set_defaults(action_fn=commands.check)

    return add


def _wrapped(line: str) -> str:
    return textwrap.fill(
        line,
        _WIDTH,
        subsequent_indent='  ',
        break_long_words=False,
        break_on_hyphens=False,
    )
