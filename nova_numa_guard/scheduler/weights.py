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

from typing import Any

import nova.conf
from nova.scheduler import utils, weights
from oslo_log import log as logging

from nova_numa_guard import conf, isolation
from nova_numa_guard.scheduler import host_states

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

conf.register_opts(CONF)


class NUMAGuardWeigher(weights.BaseHostWeigher):
    """Like with like; empty hosts are kept empty while others will do."""

    # The weight is a share: without these, Nova would stretch a difference
    # of one percent over the whole range.
    minval = 0.0
    maxval = 1.0

    def __init__(self) -> None:
        super().__init__()
        conf.validate(CONF)

    def weight_multiplier(self, host_state: Any) -> float:
        """Override the weight multiplier."""
        multiplier: float = utils.get_weight_multiplier(
            host_state,
            'numa_guard_weight_multiplier',
            CONF.numa_guard.weight_multiplier,
        )
        return multiplier

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        """Higher weights win."""
        try:
            return isolation.likeness(
                host_states.kind_of(weight_properties),
                host_states.content_of(host_state),
            )
        except Exception as exc:
            LOG.debug('NUMA guard cannot weigh %s: %r', host_state, exc)
            return isolation.NEUTRAL
