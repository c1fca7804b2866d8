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

"""What the guard counts, for Prometheus.

Counting is always on, because it costs microseconds. It shows only where
[numa_guard] metrics_port or metrics_textfile say so. Whatever goes wrong in
here, no guest fails to start for it: nothing in :class:`Metrics` raises.

Metrics are in a registry of their own, so that those of another library in the
same process are not among them. doc/source/metrics.rst describes each.
"""

from collections.abc import Callable, Iterable, Mapping
import enum
import functools
from typing import Concatenate, ParamSpec
from wsgiref import simple_server

from oslo_config import cfg
from oslo_log import log as logging
import prometheus_client

from nova_numa_guard import once, snapshot

LOG = logging.getLogger(__name__)

# Seconds. A check reads a few dozen files of the kernel's: 50 us to 1 ms; the
# rest is for a host that is in trouble.
_CHECK_BUCKETS = (
    *(0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025),
    *(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
_WAIT_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120)

_P = ParamSpec('_P')


class Result(enum.StrEnum):
    """How a check of huge pages ended."""

    PASSED = 'passed'
    REFUSED = 'refused'
    WARNED = 'warned'  # short, and started all the same
    OVERCOMMITTED = 'overcommitted'  # short, but the kernel may add pages
    UNCHECKED = 'unchecked'  # the figures could not be read


class Source(enum.StrEnum):
    """Where something could not be read."""

    KERNEL = 'kernel'
    LIBVIRT = 'libvirt'
    PROCESS = 'process'  # a guest's, in /proc or its cgroup
    NOVA = 'nova'


class Outcome(enum.StrEnum):
    """What became of a guest that was started in spite of a shortage."""

    STARTED = 'started'
    FAILED = 'failed'


def _harmless(
    method: Callable[Concatenate['Metrics', _P], None],
) -> Callable[Concatenate['Metrics', _P], None]:
    """Say of what a method raises that it went wrong, and no more."""

    @functools.wraps(method)
    def wrapped(
        self: 'Metrics', /, *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as exc:
            self._complain(f'Metrics.{method.__name__}() failed', exc)

    return wrapped


class Metrics:
    """The metrics of one compute host.

    Any thread may call any method, and none of them raises.
    """

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._complaints = once.Once()
        self._textfile = ''
        self._server: simple_server.WSGIServer | None = None
        self._checks = prometheus_client.Counter(
            'numa_guard_checks',
            'Checks of huge pages, by result and page size.',
            ('result', 'page_size'),
            registry=self.registry,
        )
        self._check_seconds = prometheus_client.Histogram(
            'numa_guard_check_seconds',
            'Time that a check of huge pages took.',
            buckets=_CHECK_BUCKETS,
            registry=self.registry,
        )
        self._failures = prometheus_client.Counter(
            'numa_guard_failures',
            'Pools that were too small for a guest.',
            ('page_size', 'numa_node'),
            registry=self.registry,
        )
        self._wait_seconds = prometheus_client.Histogram(
            'numa_guard_wait_seconds',
            'Time that a start waited for pages of others or its own.',
            buckets=_WAIT_BUCKETS,
            registry=self.registry,
        )
        self._unreadable = prometheus_client.Counter(
            'numa_guard_unreadable',
            'Times that something could not be read.',
            ('source',),
            registry=self.registry,
        )
        self._warned_starts = prometheus_client.Counter(
            'numa_guard_warned_starts',
            'What became of guests started in spite of a shortage.',
            ('outcome',),
            registry=self.registry,
        )
        # From 0 on, because Prometheus does not see the first increase of a
        # series that begins with it.
        for source in Source:
            self._unreadable.labels(source.value)
        for outcome in Outcome:
            self._warned_starts.labels(outcome.value)
        self._page_sizes: frozenset[int] = frozenset()
        self._snapshot = snapshot.Snapshot()
        self.registry.register(self._snapshot)

    @property
    def is_shown(self) -> bool:
        """Whether anybody can see them."""
        return bool(self._server or self._textfile)

    @_harmless
    def checked(
        self, result: str, page_sizes: Iterable[int], seconds: float
    ) -> None:
        """Count a check of huge pages.

        :param result: of :class:`Result`
        :param page_sizes: KiB, of the pages that the guest needs
        :param seconds: that it took, waiting not included
        """
        value = Result(result).value
        sizes = set(page_sizes)
        self._begin(sizes)
        for size in sizes:
            self._checks.labels(value, size).inc()
        self._check_seconds.observe(seconds)

    @_harmless
    def failed(self, page_size: int, node: int) -> None:
        """Count a pool that was short, at a refusal or a warning.

        :param page_size: KiB
        :param node: id of the host's NUMA node
        """
        self._failures.labels(page_size, node).inc()

    @_harmless
    def waited(self, seconds: float) -> None:
        """Count a wait for others' launches, or for a guest's own pages."""
        self._wait_seconds.observe(seconds)

    @_harmless
    def unreadable(self, what: str) -> None:
        """Count something that could not be read.

        :param what: of :class:`Source`
        """
        self._unreadable.labels(Source(what).value).inc()

    @_harmless
    def warned_then(self, outcome: str) -> None:
        """Count a guest that was started in spite of a shortage.

        :param outcome: of :class:`Outcome`
        """
        self._warned_starts.labels(Outcome(outcome).value).inc()

    @_harmless
    def observe(
        self,
        pools: Iterable[snapshot.PoolFigures],
        numatunes: Mapping[str, int],
        remote: Mapping[int, int] | None,
        kinds: snapshot.Kinds | None = None,
    ) -> None:
        """Show what an audit found, in place of what the last one did.

        :param pools: all that could be read
        :param numatunes: guests, by how their memory is bound
        :param remote: bytes in small pages that guests have on nodes which are
            not their own, by node; None if that was not read
        :param kinds: the guests that Nova counts here; None if that was not
            read
        """
        try:
            found = tuple(pools)
            self._snapshot.set(found, numatunes, remote or {}, kinds)
            self._begin({pool.page_size for pool in found})
            for pool in found:
                self._failures.labels(pool.page_size, pool.node)
        except Exception:
            # No figures rather than old ones.
            self._snapshot.clear()
            raise
        finally:
            self._write()

    @_harmless
    def start(self, conf: cfg.ConfigOpts) -> None:
        """Show the metrics as the options say, from now on.

        To be called in the process that does the work, because a thread does
        not survive a fork: on native threads nova-compute makes its driver
        before it forks, and calls its init_host() afterwards.
        """
        self.stop()
        self._textfile = conf.numa_guard.metrics_textfile
        port = conf.numa_guard.metrics_port
        address = conf.numa_guard.metrics_address
        if not port:
            return
        try:
            self._server, _ = prometheus_client.start_http_server(
                port, address, self.registry
            )
        except Exception as exc:
            # A host that shows no metrics is better than one without a
            # nova-compute.
            LOG.error(
                'Metrics are not served on %s, port %d: %s', address, port, exc
            )
        else:
            LOG.info('Metrics are served on %s, port %d', address, port)

    @_harmless
    def stop(self) -> None:
        """Serve no metrics any more, and write no file."""
        self._textfile = ''
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def _begin(self, page_sizes: set[int]) -> None:
        """Have the counts of checks begin with 0, as those above do."""
        for size in page_sizes - self._page_sizes:
            for result in Result:
                self._checks.labels(result.value, size)
        self._page_sizes |= page_sizes

    def _write(self) -> None:
        if not self._textfile:
            return
        try:
            prometheus_client.write_to_textfile(self._textfile, self.registry)
        except Exception as exc:
            self._complain(f'Metrics are not written to {self._textfile}', exc)

    def _complain(self, what: str, exc: Exception) -> None:
        """Log an error, once for each cause.

        Not once for each text: that of an OSError may have a temporary file's
        name in it, which is another one each time.
        """
        cause = (what, type(exc), getattr(exc, 'errno', None))
        if self._complaints.is_new(cause):
            LOG.error('%s: %r', what, exc)
