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

"""Judge a guest that arrives once more, on the host itself."""

from collections.abc import Iterator
import contextlib
from typing import Any

import nova.conf
from oslo_log import log as logging

from nova_numa_guard import admission, conf, guests, isolation, metrics
from nova_numa_guard.virt import host_guests, refusal

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

EVENT = 'compute_numa_guard_isolation_check'


class LateCheck:
    """Admission of guests to one compute host, under isolation by host.

    Builds, unshelving and evacuations arrive here. Resizes and migrations do
    not pass spawn(), and are not refused; those that arrive later see them.

    :param counts: where it is counted what could not be read
    """

    def __init__(self, counts: metrics.Metrics) -> None:
        self._metrics = counts
        self._admissions = admission.Admissions()
        self._mode = conf.LiveOption(CONF, 'isolation_mode')
        self._mixed_hosts = conf.LiveOption(CONF, 'mixed_hosts')
        self._on_moves = conf.LiveOption(CONF, 'isolation_on_moves')
        self.last: guests.Kind | None = None

    @property
    def enforce(self) -> bool:
        """Whether [numa_guard] isolation_mode is enforce."""
        return self._mode.value == 'enforce'

    @contextlib.contextmanager
    def admitted(
        self, context: Any, instance: Any, host: str, node: str
    ) -> Iterator[None]:
        """Admit a guest for as long as it takes to start, or refuse it.

        :param host: the name of this compute host
        :param node: the name of its compute node
        :raises nova.exception.GroupAffinityViolation: a build goes to the
            next host, and is not counted as one that failed here
        :raises nova.exception.ComputeResourcesUnavailable: an unshelving or
            an evacuation is given up; the second has lost its volumes by now,
            unless check_evacuation() has refused it
        """
        if (
            CONF.numa_guard.isolation != isolation.Isolation.HOST.value
            or host_guests.is_rebuild_in_place(instance, host)
        ):
            yield
            return
        self._admit(context, instance, host, node)
        try:
            yield
        except BaseException:
            self._admissions.withdraw(instance.uuid)
            raise
        self._admissions.land(instance.uuid)

    def check_evacuation(
        self, context: Any, instance: Any, host: str, node: str
    ) -> None:
        """Refuse an evacuation before anything is taken from its old host.

        One that is not refused is judged again by admitted().

        :raises nova.exception.ComputeResourcesUnavailable: it is given up
        """
        if (
            CONF.numa_guard.isolation == isolation.Isolation.HOST.value
            and self._refuses(instance, host)
        ):
            self._admit(context, instance, host, node)
            # Nova does not tell when it ends, if it does not get to spawn().
            self._admissions.withdraw(instance.uuid)

    def _refuses(self, instance: Any, host: str) -> bool:
        is_move = bool(instance.host and instance.host != host)
        return self.enforce and not (
            is_move and self._on_moves.value == 'prefer'
        )

    def _admit(
        self, context: Any, instance: Any, host: str, node: str
    ) -> None:
        enforce = self._refuses(instance, host)
        guest = host_guests.describe(
            instance, instance.flavor, instance.numa_topology
        )
        try:
            verdict = self._admissions.admit(
                guest,
                lambda: [
                    found.guest
                    for found in host_guests.find(
                        context.elevated(), host, node
                    )
                ],
                isolation.Policy(
                    isolation.Isolation.HOST,
                    isolation.MixedHosts(self._mixed_hosts.value),
                    last=self.last,
                ),
                enforce,
            )
        except Exception as exc:
            self._admissions.remember(guest)
            self._metrics.unreadable(metrics.Source.NOVA)
            LOG.warning(
                'The guests of this host are not known, so that isolation is '
                'not checked: %s',
                exc,
                instance=instance,
            )
            return
        if verdict.passes:
            return
        kind = guest.kind.value if guest.kind else 'exempt'
        why = f'{kind} guest on host {host}: {verdict.detail}'
        if enforce:
            raise refusal.refuse(
                context, instance, host, EVENT, f'isolation: {why}'
            )
        LOG.warning(
            'Starting although it breaks the isolation, because %s: %s',
            '[numa_guard] isolation_mode is "warn"'
            if not self.enforce
            else 'it was evacuated and [numa_guard] isolation_on_moves is '
            '"prefer"',
            why,
            instance=instance,
        )
