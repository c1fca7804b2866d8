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

"""What commands print: tables, and remarks beside them."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from cliff import columns, lister

from nova_numa_guard.cmd import errors


class Lister(lister.Lister):
    """A command that prints rows, sorted already.

    After :meth:`take_action` its ``code`` is the exit code, and the
    ``remarks`` go to stderr, below the table.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.code = 0
        self.remarks: list[str] = []

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        try:
            super().produce_output(parsed_args, column_names, data)
            self.app.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as exc:
            raise errors.CommandError(f'stdout: {exc.strerror}') from exc
        for remark in self.remarks:
            self.app.stderr.write(f'{remark}\n')
        return self.code

    def run(self, parsed_args: argparse.Namespace) -> int:
        super().run(parsed_args)
        return self.code


class Maybe(columns.FormattableColumn[Any]):
    """A value that may not be known, or not apply: ``-``, or JSON's null."""

    def human_readable(self) -> str:
        return '-' if self._value is None else str(self._value)


class Several(columns.FormattableColumn[list[Any]]):
    """Values of one row: with commas, or a list in JSON."""

    def human_readable(self) -> str:
        return ', '.join(map(str, self._value)) or '-'


class Mapped(columns.FormattableColumn[dict[str, Any]]):
    """Values by name: ``0: 1, 1: 3``, or an object in JSON."""

    def human_readable(self) -> str:
        return (
            ', '.join(f'{key}: {each}' for key, each in self._value.items())
            or '-'
        )
