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

"""Times things side by side, for figures that are to be compared.

pyperf's own runner times one thing after another, each in processes of its
own. On a machine that is not idle a ratio of such figures says little. So
these are timed in turn, in one process, by the CPU time that they take, and
written in pyperf's format: one run for each time that a program is started,
and its tools (``pyperf show``, ``pyperf compare_to``) read them.
"""

import argparse
from collections.abc import Callable, Mapping
import dataclasses
import gc
import pathlib
import sys
import time

import pyperf

Part = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Timed:
    """What is timed.

    :param part: what is done
    :param hosts: for how many hosts that is; the figure is for one
    :param before: what is done each time before it, and is not timed
    """

    part: Part
    hosts: int = 1
    before: Part = lambda: None


class Results:
    """What one program finds out, and where it is written to.

    :param about: the program's docstring
    """

    def __init__(self, about: str) -> None:
        parser = argparse.ArgumentParser(description=about.splitlines()[0])
        parser.add_argument('-o', '--output', type=pathlib.Path)
        parser.add_argument(
            '--append',
            action='store_true',
            help='add a run to those that are in the output',
        )
        parser.add_argument(
            '--rigorous',
            dest='seconds',
            action='store_const',
            const=3.0,
            default=0.3,
            help='ten times as long as --fast, which is the default',
        )
        parser.add_argument('--fast', action='store_true')
        parser.add_argument('--quiet', action='store_true')
        self.args = parser.parse_args()
        self._found: list[pyperf.Benchmark] = []

    def time(self, parts: Mapping[str, Timed]) -> None:
        """Time these in turn, until each has had its share of the time.

        Of each the least counts: what disturbs it can only add to it.
        """
        values: dict[str, list[float]] = {name: [] for name in parts}
        loops = {name: _loops(each) for name, each in parts.items()}
        gc.collect()
        until = time.monotonic() + self.args.seconds * len(parts)
        while time.monotonic() < until or any(
            len(each) < 3 for each in values.values()
        ):
            for name, each in parts.items():
                taken = _timed(each, loops[name])
                values[name].append(taken / each.hosts)
        for name, found in values.items():
            # The least of each ninth of the time, for a small file.
            step = max(1, len(found) // 9)
            self.add(
                name,
                [min(found[i : i + step]) for i in range(0, len(found), step)],
            )

    def add(
        self, name: str, values: list[float], unit: str = 'second'
    ) -> None:
        """Keep what was found, in seconds or bytes."""
        self._found.append(
            pyperf.Benchmark(
                [
                    pyperf.Run(
                        values,
                        metadata={'name': name, 'unit': unit},
                        collect_metadata=False,
                    )
                ]
            )
        )
        if not self.args.quiet:
            figure = min(values)
            text = (
                f'{figure * 1e6:10.2f} us'
                if unit == 'second'
                else f'{figure / 2**20:10.2f} MiB'
            )
            sys.stdout.write(f'{name:60} {text}\n')
            sys.stdout.flush()

    def write(self) -> None:
        """Write them, if that is asked for."""
        path = self.args.output
        if path is None:
            return
        suite = pyperf.BenchmarkSuite(self._found)
        if self.args.append and path.exists():
            known = pyperf.BenchmarkSuite.load(str(path))
            known.add_runs(suite)
            suite = known
        path.parent.mkdir(parents=True, exist_ok=True)
        suite.dump(str(path), replace=True)


def _timed(each: Timed, loops: int) -> float:
    seconds = 0.0
    for _ in range(loops):
        each.before()
        begun = time.process_time()
        each.part()
        seconds += time.process_time() - begun
    return seconds / loops


def _loops(each: Timed) -> int:
    """How often in a turn: what was timed before it has emptied the caches."""
    return max(1, int(0.01 / max(_timed(each, 1), 1e-6)))
