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

"""Make the documentation's tables of what the benchmarks have found.

Of the runs that are in a file, the range of what each has as its least is
shown; a ratio is made of two figures of the same run.

Run it as ``python -m benchmarks.tables RESULTS TABLES``, both of them folders.
"""

from collections.abc import Iterable, Iterator
import csv
import pathlib
import sys

import pyperf

Row = tuple[str, ...]


class Found:
    """What is in one file: by name, the least of each run."""

    def __init__(self, path: pathlib.Path) -> None:
        suite = pyperf.BenchmarkSuite.load(str(path))
        self.figures = {
            each.get_name(): [min(run.values) for run in each.get_runs()]
            for each in suite.get_benchmarks()
        }

    def range(self, name: str, scale: float, digits: int = 1) -> str:
        """A figure, in what is 1 / scale of its unit."""
        return _range([each * scale for each in self.figures[name]], digits)

    def ratio(self, name: str, other: str) -> str:
        """How many times as much as another figure."""
        return _range(
            [
                one / two
                for one, two in zip(
                    self.figures[name], self.figures[other], strict=True
                )
            ],
            2,
        )


def _range(values: Iterable[float], digits: int) -> str:
    least, *_, most = sorted(f'{each:.{digits}f}' for each in [*values] * 2)
    least, most = sorted((least, most), key=float)
    return least if least == most else f'{least} to {most}'


def scheduler(found: Found) -> Iterator[Row]:
    """Per host."""
    yield (
        'fleet',
        'filter, us',
        'weigher, us',
        'filter / aggregates',
        'NUMATopologyFilter / both',
    )
    for name in found.figures:
        fleet, _, part = name.rpartition(': ')
        if part != 'NUMAGuardFilter':
            continue
        both = [
            one + two
            for one, two in zip(
                found.figures[name],
                found.figures[f'{fleet}: NUMAGuardWeigher'],
                strict=True,
            )
        ]
        nova = found.figures[f'{fleet}: NUMATopologyFilter']
        yield (
            fleet,
            found.range(name, 1e6),
            found.range(f'{fleet}: NUMAGuardWeigher', 1e6),
            found.ratio(name, f'{fleet}: AggregateInstanceExtraSpecsFilter'),
            _range(
                [one / two for one, two in zip(nova, both, strict=True)], 0
            ),
        )


def select_destinations(found: Found) -> Iterator[Row]:
    """A whole request."""
    yield 'request', 'stock, us a host', 'guard, us a host', 'stock / guard'
    for kind in ('affined', 'floating'):
        stock, guard = f'{kind}, stock', f'{kind}, guard'
        yield (
            kind,
            found.range(stock, 1e6),
            found.range(guard, 1e6),
            found.ratio(stock, guard),
        )


def compute(found: Found) -> Iterator[Row]:
    """Milliseconds."""
    yield 'part', 'ms'
    for name in found.figures:
        yield name, found.range(name, 1e3, 2)


def memory(found: Found) -> Iterator[Row]:
    """MiB."""
    yield 'scheduler with', 'MiB'
    for name in found.figures:
        yield name, found.range(name, 2**-20)


def main() -> None:
    results, tables = map(pathlib.Path, sys.argv[1:])
    tables.mkdir(parents=True, exist_ok=True)
    for rows in (scheduler, select_destinations, compute, memory):
        found = Found(results / f'{rows.__name__}.json')
        path = tables / f'{rows.__name__}.csv'
        with path.open('w', encoding='utf-8', newline='') as file:
            csv.writer(file, lineterminator='\n').writerows(rows(found))


if __name__ == '__main__':
    main()
