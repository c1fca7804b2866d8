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

"""Prefer hosts whose guests are of the kind that is to be placed."""

import dataclasses
import time
from typing import Any

import nova.conf
from nova.scheduler import utils, weights
from oslo_log import log as logging

from nova_numa_guard import conf, isolation
from nova_numa_guard.scheduler import headroom, judgement

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)

# What is free counts as much as one of Nova's weighers by default.
HEADROOM = 0.01

# With any multiplier above 1 more than all other weighers together, the one
# for failed builds (a million) included; and still small enough for a float to
# hold the rest of the weight beside it.
LAST = -1e6

_MULTIPLIER = 'numa_guard_weight_multiplier'  # in the metadata of aggregates


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    """What all hosts are weighed by, read once for a request.

    :param sizes: of pages, as headroom.page_sizes() has them
    :param now: seconds since the epoch
    """

    request: judgement.Request
    sizes: set[int]
    now: float


class NUMAGuardWeigher(weights.BaseHostWeigher):
    """Like with like; empty hosts are kept empty while others will do."""

    # The weight is a share: without these, Nova would stretch a difference
    # of one percent over the whole range.
    minval = 0.0
    maxval = 1.0

    def __init__(self) -> None:
        super().__init__()
        self._judge = judgement.Judge()
        # It cannot change while the service runs, and to read it takes longer
        # than to weigh a host.
        self._multiplier: float = CONF.numa_guard.weight_multiplier

    def weight_multiplier(self, host_state: Any) -> float:
        """Override the weight multiplier."""
        # Nova asks for each host, and hardly an aggregate says so.
        for aggregate in host_state.aggregates:
            if _MULTIPLIER in aggregate.metadata:
                break
        else:
            return self._multiplier
        multiplier: float = utils.get_weight_multiplier(
            host_state, _MULTIPLIER, self._multiplier
        )
        # Below zero, the hosts that should come last would come first.
        return max(0.0, multiplier)

    def weigh_objects(
        self, weighed_obj_list: Any, weight_properties: Any
    ) -> list[float]:
        """Higher weights win; Nova's base class would end them at 0 and 1."""
        request = self._request(weight_properties)
        found = [
            self._weigh(weighed.obj, request) for weighed in weighed_obj_list
        ]
        share = HEADROOM / (max((room for _, room in found), default=0) or 1)
        return [weight + share * room for weight, room in found]

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """The weight of a host that is compared with no other."""
        return self._weigh(host_state, self._request(weight_properties))[0]

    def _request(self, spec_obj: Any) -> '_Wanted | None':
        try:
            return _Wanted(
                self._judge.request(spec_obj),
                headroom.page_sizes(spec_obj),
                time.time(),
            )
        except Exception as exc:
            LOG.debug('NUMA guard cannot weigh hosts: %r', exc)
            return None

    def _weigh(
        self, host_state: Any, wanted: '_Wanted | None'
    ) -> tuple[float, int]:
        """How well a host suits a guest, and the MiB that are free for it."""
        if wanted is None:
            return isolation.NEUTRAL, 0
        request = wanted.request
        try:
            look = request.look(host_state)
            decision = look.rule.decision
            weight = isolation.likeness(
                request.kind, look.present, decision.isolation
            )
            if (
                look.record
                and look.record.refused
                and headroom.refused(look.record, wanted.sizes, wanted.now)
            ):
                weight += 2 * LAST
            if (
                request.lenient
                and decision.enforce
                and not request.kind_fits(look).passes
            ):
                weight += LAST
            return weight, headroom.of(host_state, wanted.sizes, look)
        except Exception as exc:
            LOG.debug('NUMA guard cannot weigh %s: %r', host_state, exc)
            return isolation.NEUTRAL, 0
