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

"""Keep floating and affined guests apart."""

import collections
from collections.abc import Iterable, Iterator
from typing import Any

import nova.conf
from nova.scheduler import filters, utils
from oslo_log import log as logging

from nova_numa_guard import conf, isolation
from nova_numa_guard.scheduler import host_states

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


class NUMAGuardFilter(filters.BaseHostFilter):
    """Remove the hosts that hold guests of the other kind.

    It never raises: a host that cannot be judged passes, with a warning.
    """

    # A rebuild stays on its host and keeps its kind: the API refuses an image
    # that would change the guest's NUMA topology.
    RUN_ON_REBUILD = False

    def __init__(self) -> None:
        super().__init__()
        conf.validate(CONF)
        self._mode = conf.LiveOption(CONF, 'isolation_mode')
        LOG.info(
            'NUMA guard: isolation is %s, isolation_mode %s',
            CONF.numa_guard.isolation,
            self._mode.value,
        )
        self._complained: set[tuple[str, str]] = set()
        if CONF.numa_guard.isolation == isolation.Isolation.NONE.value:
            LOG.warning(
                'NUMAGuardFilter is enabled, but [numa_guard] isolation is '
                '"none": it removes no host'
            )

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any
    ) -> Iterator[Any]:
        off = CONF.numa_guard.isolation == isolation.Isolation.NONE.value
        rebuild = utils.request_is_rebuild(spec_obj)
        if off or (rebuild and not self.RUN_ON_REBUILD):
            yield from filter_obj_list
            return
        enforce = self._mode.value == 'enforce'
        unreadable = isolation.Reason.UNREADABLE
        reasons: collections.Counter[str] = collections.Counter()
        total = removed = 0
        for host_state in filter_obj_list:
            verdict = self.judge(host_state, spec_obj)
            total += 1
            removed += not verdict.passes
            if not verdict.passes or verdict.reason is unreadable:
                reasons[verdict.reason] += 1
            if verdict.passes or not enforce:
                yield host_state
        if reasons:
            LOG.info(
                'NUMA guard %s %d of %d hosts for %s: %s',
                'removed' if enforce else 'would have removed',
                removed,
                total,
                _name(spec_obj),
                ', '.join(f'{why}: {n}' for why, n in sorted(reasons.items())),
            )

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        verdict = self.judge(host_state, filter_properties)
        return verdict.passes or self._mode.value == 'warn'

    def judge(self, host_state: Any, spec_obj: Any) -> isolation.Verdict:
        """The verdict on one host, whatever the isolation mode."""
        try:
            verdict = isolation.judge(
                host_states.kind_of(spec_obj),
                host_states.content_of(host_state),
                isolation.Isolation(CONF.numa_guard.isolation),
            )
        except Exception as exc:
            self._complain(host_state, exc)
            return isolation.Verdict(
                True, isolation.Reason.UNREADABLE, repr(exc)
            )
        if not verdict.passes:
            LOG.debug(
                '%(host_state)s fails NUMA guard: %(reason)s (%(detail)s)',
                {
                    'host_state': host_state,
                    'reason': verdict.reason,
                    'detail': verdict.detail,
                },
            )
        return verdict

    def _complain(self, host_state: Any, exc: Exception) -> None:
        """Warn of a host that cannot be judged, once per host and cause."""
        host = str(getattr(host_state, 'host', host_state))
        cause = (host, type(exc).__name__)
        if cause not in self._complained:
            self._complained.add(cause)
            LOG.warning(
                'NUMA guard cannot judge host %s and lets it pass: %r',
                host,
                exc,
            )


def _name(spec_obj: Any) -> str:
    """What a guest is called in the log."""
    try:
        kind = host_states.kind_of(spec_obj).value
    except Exception:
        kind = 'unreadable'
    return f'{kind} guest {getattr(spec_obj, "instance_uuid", None)}'
