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

"""Run the application in this process, and see what it prints."""

import contextlib
import dataclasses
import io
import json
import logging

from nova_numa_guard.cmd import app


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of it."""

    code: int
    stdout: str
    stderr: str

    @property
    def json(self):
        return json.loads(self.stdout)


def run(*words, stdin=''):
    """Run a command.

    :param words: its words, which become text
    :param stdin: what it reads there, as text or as a stream
    """
    out, err = io.StringIO(), io.StringIO()
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        # What argparse has to say goes to the streams of the process.
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            stream = io.StringIO(stdin) if isinstance(stdin, str) else stdin
            code = app.App(stream, out, err).run([str(word) for word in words])
    except SystemExit as exc:
        code = exc.code or 0
    finally:
        for handler in set(root.handlers) - set(handlers):
            root.removeHandler(handler)
        root.setLevel(level)
    return Result(code, out.getvalue(), err.getvalue())
