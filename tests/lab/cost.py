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

"""What the guard adds to the start of a guest, in pairs.

Two hosts build servers in turn, one with Nova's own driver and one with the
guard's, and change places halfway. How long each took, nova-compute logs. As
the guests' own starts vary by more than what is looked for, the time that the
page check itself took is shown too, as the guard's metrics have it.

Run it as ``python -m tests.lab.cost``, with the number of pairs.
"""

import pathlib
import re
import statistics
import sys
import tempfile

from tests.lab import base, shared

PAIRS = 50

_TOOK = r'instance: {}.* Took (\d+\.\d+) seconds to spawn'
_METRICS = re.compile(r'^numa_guard_check_seconds_(sum|count) (\S+)$', re.M)


class Pairs:
    """Starts with Nova's driver and with the guard's, one after the other."""

    def __init__(self, metrics: pathlib.Path) -> None:
        self._lab = shared.lab()
        self._metrics = metrics
        self.stock: list[float] = []
        self.guard: list[float] = []
        self.checks = self.check_seconds = 0.0

    def run(self, stock: str, guard: str, pairs: int) -> None:
        """Make some pairs.

        :param stock: the host that has Nova's driver
        :param guard: the host that has the guard's
        """
        # Gone, or else the figures of the other host are read again.
        self._metrics.unlink(missing_ok=True)
        textfile = {'numa_guard': {'metrics_textfile': self._metrics}}
        self._lab.stack.run_with({stock: base.STOCK, guard: textfile})
        for host in (stock, guard):
            self._start(host)  # the first one reads the image
        checks, seconds = self._checked()
        for number in range(pairs):
            turns = [(self.stock, stock), (self.guard, guard)]
            for times, host in turns[:: 1 if number % 2 else -1]:
                times.append(self._start(host))
        now, seconds_now = self._checked()
        self.checks += now - checks
        self.check_seconds += seconds_now - seconds

    def _start(self, host: str) -> float:
        """Seconds that nova-compute took to start a guest."""
        client = self._lab.client
        uuid = client.boot(
            'cost', self._lab.image, self._lab.huge_pinned, host
        )
        server = client.settled(uuid)
        assert server.status == 'ACTIVE', server
        log = self._lab.stack.layout.log(host).read_text(errors='replace')
        client.delete(uuid)
        found = re.search(_TOOK.format(uuid), log)
        assert found, f'nova-compute of {host} does not say how long it took'
        return float(found[1])

    def _checked(self) -> tuple[float, float]:
        """Checks that there were, and seconds that they took together.

        As of the last audit, which makes no difference over many.
        """
        if not self._metrics.exists():
            return 0, 0
        found = dict(_METRICS.findall(self._metrics.read_text()))
        return float(found['count']), float(found['sum'])

    def show(self) -> None:
        """Write what was found."""
        more = [g - s for g, s in zip(self.guard, self.stock, strict=True)]
        error = statistics.stdev(more) / len(more) ** 0.5
        whole = statistics.mean(self.stock)
        for line in (
            f'pairs {len(more)}',
            f'stock: median {statistics.median(self.stock):.2f} s, '
            f'mean {whole:.2f} s',
            f'guard: median {statistics.median(self.guard):.2f} s, '
            f'mean {statistics.mean(self.guard):.2f} s',
            f'guard - stock: mean {statistics.mean(more):+.3f} s '
            f'(standard error {error:.3f} s), '
            f'{statistics.mean(more) / whole:+.1%} of a start',
            f'page checks: {self.checks:.0f}, mean '
            f'{self.check_seconds / self.checks * 1e3:.2f} ms; of a start '
            f'{self.check_seconds / len(more) / whole:.2%}',
        ):
            sys.stdout.write(f'{line}\n')


def main() -> None:
    pairs = int(sys.argv[1]) if sys.argv[1:] else PAIRS
    with tempfile.TemporaryDirectory() as folder:
        both = Pairs(pathlib.Path(folder, 'numa_guard.prom'))
        both.run(base.FIRST, base.SECOND, pairs // 2)
        both.run(base.SECOND, base.FIRST, pairs - pairs // 2)
    both.show()


if __name__ == '__main__':
    main()
