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

"""Show what an audit found, to whoever collects metrics."""

import os

from oslo_log import log as logging

from nova_numa_guard import accounting, metrics, pools, remote, snapshot
from nova_numa_guard.virt import claims

LOG = logging.getLogger(__name__)


class Gauges:
    """The figures of one compute host, from audit to audit.

    :param running: the domains that run
    :param counts: where they are shown
    :param root: the folder below which ``sys``, ``proc`` and ``run`` are
    """

    def __init__(
        self,
        running: claims.Claims,
        counts: metrics.Metrics,
        root: str | os.PathLike[str] = '/',
    ) -> None:
        self._running = running
        self._metrics = counts
        self._root = root

    def observe(
        self,
        figures: tuple[accounting.Figure, ...],
        kinds: snapshot.Kinds | None = None,
    ) -> None:
        """Show them; what could not be read is not shown.

        :param figures: of the pools, as they were told to Nova
        :param kinds: the guests that Nova counts here
        """
        if not self._metrics.is_shown:
            return  # the guests are not looked at for nobody
        numatunes: dict[str, int] = {}
        elsewhere: dict[int, int] = {}
        try:
            domains = self._running.running()
        except claims.UnknownError:
            self._metrics.unreadable(metrics.Source.LIBVIRT)
            domains = ()
        for each in domains:
            name = each.bound.numatune.value
            numatunes[name] = numatunes.get(name, 0) + 1
            if not each.bound.small_nodes:
                continue
            try:
                memory = remote.anonymous(each.name, self._root)
            except pools.UnreadableError as exc:
                self._metrics.unreadable(metrics.Source.PROCESS)
                LOG.debug('Where the memory of a guest is: %s', exc)
                continue
            away = remote.elsewhere(memory, each.bound.small_nodes)
            for node, size in away.items():
                elsewhere[node] = elsewhere.get(node, 0) + size
        self._metrics.observe(
            [
                snapshot.PoolFigures(
                    node=figure.node,
                    page_size=figure.page_size,
                    total=figure.total,
                    free=figure.free,
                    configured=figure.configured,
                    reserved=figure.reserved,
                    claimed=figure.claimed,
                    unaccounted=figure.unaccounted,
                )
                for figure in figures
            ],
            numatunes,
            elsewhere,
            kinds,
        )
