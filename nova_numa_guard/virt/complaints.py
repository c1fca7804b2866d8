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

"""What the guard could not find out, counted and logged."""

from oslo_log import log as logging

from nova_numa_guard import metrics, once, pools
from nova_numa_guard.virt import claims

LOG = logging.getLogger(__name__)


class Complaints:
    """Those of one compute host; threads may share it.

    :param counts: where they are counted
    """

    def __init__(self, counts: metrics.Metrics) -> None:
        self._metrics = counts
        self._known = once.Once()

    def add(
        self, what: str, exc: Exception, source: metrics.Source | None = None
    ) -> None:
        """Warn of something, once for each cause.

        Not once for each text of an error: that of a time-out may name a
        message, which is another one each time.

        :param what: happens in consequence
        :param exc: why
        :param source: what could not be read
        """
        if source is not None:
            self._metrics.unreadable(source)
        cause = (what, type(exc).__name__, getattr(exc, 'path', None))
        if self._known.is_new(cause):
            ours = isinstance(exc, pools.UnreadableError | claims.UnknownError)
            LOG.warning('%s: %s', what, exc if ours else repr(exc))
