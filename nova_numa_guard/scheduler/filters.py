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

from nova_numa_guard import conf, installed, isolation
from nova_numa_guard.scheduler import judgement

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)

_WEIGHER = 'nova_numa_guard.scheduler.weights.NUMAGuardWeigher'


class NUMAGuardFilter(filters.BaseHostFilter):
    """Remove the hosts that hold guests of the other kind, or lack room.

    It never raises: a host that cannot be judged passes, with a warning.
    """

    # A rebuild stays on its host and keeps its kind: the API refuses an image
    # that would change the guest's NUMA topology.
    RUN_ON_REBUILD = False

    def __init__(self) -> None:
        super().__init__()
        # A filter that fails would leave no host to any guest.
        installed.warn('kinds may be told apart wrongly, or not at all')
        self._judge = judgement.Judge()
        LOG.info(
            'NUMA guard: isolation is %s, isolation_mode %s',
            CONF.numa_guard.isolation,
            self._judge.mode,
        )
        if CONF.numa_guard.isolation == isolation.Isolation.NONE.value:
            LOG.warning(
                'NUMAGuardFilter is enabled, but [numa_guard] isolation is '
                '"none": it keeps kinds apart only where an aggregate or a '
                'compute asks for it'
            )
            return
        weighs = (
            _WEIGHER in CONF.filter_scheduler.weight_classes
            and CONF.numa_guard.weight_multiplier > 0
        )
        if CONF.numa_guard.isolation_on_moves == 'prefer' and not weighs:
            LOG.warning(
                '[numa_guard] isolation_on_moves is "prefer", but %s is not '
                'among the weight_classes, or weight_multiplier is 0: guests '
                'that move will be mixed where they need not',
                _WEIGHER,
            )

    def filter_all(
        self, filter_obj_list: Iterable[Any], spec_obj: Any
    ) -> Iterator[Any]:
        if utils.request_is_rebuild(spec_obj) and not self.RUN_ON_REBUILD:
            yield from filter_obj_list
            return
        request = self._request(spec_obj)
        # To ask for each host takes as long as to judge it.
        debug = LOG.isEnabledFor(logging.DEBUG)
        tally = _Tally(request is not None and request.lenient)
        for host_state in filter_obj_list:
            if tally.keeps(*self._judged(host_state, request, debug)):
                yield host_state
        tally.log(judgement.name(spec_obj))

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        return bool(list(self.filter_all([host_state], filter_properties)))

    def _request(self, spec_obj: Any) -> judgement.Request | None:
        """What hosts are judged by; None if the request cannot be read."""
        try:
            return self._judge.request(spec_obj)
        except Exception as exc:
            self._judge.complain(
                'any', f'requests cannot be read, and all hosts pass: {exc!r}'
            )
            return None

    def _judged(
        self,
        host_state: Any,
        request: judgement.Request | None,
        debug: bool,
    ) -> tuple[isolation.Verdict | None, bool]:
        """The verdict on one host, and whether it counts.

        The verdict is None if the host cannot be judged.
        """
        if request is None:
            return None, False
        try:
            look = request.look(host_state)
            verdict = request.fits(host_state, look)
        except Exception as exc:
            self._judge.complain(
                str(getattr(host_state, 'host', host_state)),
                f'it cannot be judged and passes: {exc!r}',
            )
            return None, False
        if debug and not verdict.passes:
            LOG.debug(
                '%(host_state)s fails NUMA guard: %(reason)s (%(detail)s)',
                {
                    'host_state': host_state,
                    'reason': verdict.reason,
                    'detail': verdict.detail,
                },
            )
        return verdict, look.rule.decision.enforce


class _Tally:
    """What becomes of the hosts of one request, and one line about it.

    :param lenient: whether a host of the wrong kind is kept as a last resort
    """

    def __init__(self, lenient: bool) -> None:
        self._lenient = lenient
        self._reasons: collections.Counter[str] = collections.Counter()
        self._done: collections.Counter[str] = collections.Counter()
        self._total = 0

    def keeps(self, verdict: isolation.Verdict | None, counts: bool) -> bool:
        """Whether a host stays among those that may be chosen.

        :param verdict: on the host; None if it cannot be judged
        :param counts: whether a host that does not pass is removed
        """
        self._total += 1
        if verdict is None:
            self._reasons[isolation.Reason.UNREADABLE] += 1
            return True
        if verdict.passes:
            return True
        self._reasons[verdict.reason] += 1
        if not counts:
            self._done['would have removed'] += 1
        elif self._lenient and verdict.of_kind:
            self._done['kept as the last choice'] += 1
        else:
            self._done['removed'] += 1
            return False
        return True

    def log(self, guest: str) -> None:
        """Say what was done, if anything was."""
        if not self._reasons:
            return
        did = [
            f'{what} {self._done[what]}'
            for what in (
                'removed',
                'would have removed',
                'kept as the last choice',
            )
            if self._done[what]
        ]
        last_resort = (
            self._done['kept as the last choice']
            and not self._done['would have removed']
            and self._total == self._done.total()
        )
        LOG.log(
            logging.WARNING if last_resort else logging.INFO,
            'NUMA guard %s of %d hosts for %s: %s%s',
            ' and '.join(did) or 'removed 0',
            self._total,
            guest,
            ', '.join(f'{w}: {n}' for w, n in sorted(self._reasons.items())),
            '; it moves, and no host of its kind is left, so that two kinds '
            'will be mixed'
            if last_resort
            else '',
        )
