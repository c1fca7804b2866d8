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

"""The application ``nova-numa-guard``: what its commands have in common.

Every command only reads. The exit codes are:

===  ========================================================================
0    the answer is on stdout
1    ``domain check``: the domain does not fit
2    there is no answer, and one line on stderr says why; or the command was
     used wrongly
130  it was interrupted (Ctrl-C)
141  nobody read its output to the end
===  ========================================================================
"""

import argparse
from collections.abc import Sequence
import difflib
from importlib import metadata
import logging
import os
import sys
from typing import Any, TextIO

from cliff import app, command, commandmanager

from nova_numa_guard.cmd import errors

PROG = 'nova-numa-guard'
NAMESPACE = 'nova_numa_guard.cli'
FAILED = 2
# 128 and the number of the signal, as of every program that it ends.
SIGPIPE = 141


class Commands(commandmanager.CommandManager):
    """The commands, each imported when it is run.

    cliff's own manager imports all of them at once, and one needs Nova.
    """

    def load_commands(self, namespace: str) -> None:
        self.group_list.append(namespace)
        for each in metadata.entry_points(group=namespace):
            self.commands[each.name.replace('_', ' ')] = each


class App(app.App):
    """Finds the commands among the entry points, and runs one.

    What is logged goes to stderr: stdout has the answer, and nothing else.
    """

    NAME = PROG
    LOG = logging.getLogger(PROG)
    # Warnings; with -v what libraries think worth saying, with -vv all.
    DEFAULT_VERBOSE_LEVEL = 0

    def __init__(
        self,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        super().__init__(
            description='Look at floating and NUMA-affined Nova guests, and '
            'at what their hosts have for them. Every command only reads.',
            version=metadata.version(PROG),
            command_manager=Commands(NAMESPACE),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            # Else --help behind a command is not about that command.
            deferred_help=True,
        )
        self._failed = False

    def build_option_parser(
        self,
        description: str | None,
        version: str | None,
        argparse_kwargs: dict[str, Any] | None = None,
    ) -> argparse.ArgumentParser:
        # Abbreviated, --log-file would be what a command means by --log.
        kwargs = {'prog': PROG, 'allow_abbrev': False}
        return super().build_option_parser(
            description, version, {**kwargs, **(argparse_kwargs or {})}
        )

    def configure_logging(self) -> None:
        try:
            super().configure_logging()
        except OSError as exc:
            self.parser.exit(FAILED, f'{PROG}: --log-file: {exc}\n')

    def interact(self) -> None:
        """Without a command there is no prompt, but a hint."""
        self.parser.error(f'which command? See {PROG} --help')

    def run_subcommand(self, argv: list[str]) -> int:
        try:
            self.command_manager.find_command(argv)
        except ValueError:
            # What the base class says of it goes to stdout.
            words = ' '.join(argv[:2])
            names = [name for name, _ in self.command_manager]
            near = difflib.get_close_matches(words, names)
            self.LOG.error(
                '%r is not a command%s; see %s --help',
                words,
                f', but {" or ".join(map(repr, near))} is' if near else '',
                PROG,
            )
            return FAILED
        except ImportError as exc:
            self.LOG.error('%s cannot be used: %s', ' '.join(argv[:2]), exc)
            return FAILED
        code = super().run_subcommand(argv)
        return FAILED if self._failed else code

    def clean_up(
        self,
        cmd: command.Command,
        result: int,
        err: BaseException | None,
    ) -> None:
        """After a command; its error is on stderr by now."""
        if not isinstance(err, Exception):
            return
        self._failed = True
        # ValueError is cliff's own, for columns that there are not.
        expected = (errors.CommandError, ValueError, BrokenPipeError)
        if not isinstance(err, expected):
            self.LOG.error(
                'This should not happen (%s). --debug, before the command, '
                'shows where it does.',
                type(err).__name__,
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the application.

    :param argv: its words; None for those of this process
    :returns: the exit code
    """
    words = list(sys.argv[1:] if argv is None else argv)
    code = App().run(words)
    try:
        sys.stdout.flush()
    except OSError as exc:
        # Else the interpreter tries once more at exit, and complains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(exc, BrokenPipeError):
            return SIGPIPE
        if code != FAILED:  # which has said so
            sys.stderr.write(f'stdout: {exc.strerror}\n')
        return FAILED
    return code


if __name__ == '__main__':
    sys.exit(main())
