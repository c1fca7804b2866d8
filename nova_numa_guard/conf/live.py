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

"""Options that change while a service runs."""

import contextlib

from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class LiveOption:
    """A mutable option; its last good value while the one it has is bad.

    oslo.config takes over whatever the file holds when a service is sent
    SIGHUP, and raises when it is read. A service that runs has to go on. A
    service that forks workers forks them anew at SIGHUP; in those the last
    good value is the one that the first process has read, at its start.

    :param conf: where the option is registered
    :param name: of the option in [numa_guard]
    """

    def __init__(self, conf: cfg.ConfigOpts, name: str) -> None:
        self._conf = conf
        self._name = name
        self._value: str | None = None
        self._complaint = ''
        # Else there is none to go back to until it is needed for the first
        # time, which may be long after the service has started.
        with contextlib.suppress(ValueError):
            self._value = conf.numa_guard[name]

    @property
    def value(self) -> str:
        """The value.

        :raises oslo_config.cfg.ConfigFileValueError: it never had a good one
        """
        try:
            self._value = self._conf.numa_guard[self._name]
            self._complaint = ''
        except ValueError as exc:
            if self._value is None:
                raise
            if self._complaint != str(exc):
                self._complaint = str(exc)
                LOG.error(
                    '[numa_guard] %s is bad, and %r is used instead: %s',
                    self._name,
                    self._value,
                    exc,
                )
        assert self._value is not None
        return self._value
