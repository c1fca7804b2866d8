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

"""Leave the figures of a refusal where an operator finds them."""

from typing import Any

from nova import objects
from oslo_log import log as logging
from oslo_utils import timeutils

LOG = logging.getLogger(__name__)


def record(
    context: Any, instance: Any, host: str, event: str, details: str
) -> None:
    """Make a refusal an event of the instance action.

    The fault that Nova leaves on the server says only that hosts were
    exhausted.

    :param host: the name of this compute host
    :param event: its name
    :param details: what administrators read in it
    """
    now = timeutils.utcnow(with_timezone=True)
    # Written whole, and not by Nova's EventReporter: that finishes the first
    # event of a name, so that of a build which several hosts refuse it would
    # keep the figures of the last host under the name of the first.
    action_event = objects.InstanceActionEvent(
        context,
        event=event,
        host=host,
        start_time=now,
        finish_time=now,
        result='Error',
        details=details,
    )
    try:
        action_event.create(instance.uuid, context.request_id)
    except Exception as exc:
        LOG.warning(
            'The refusal could not be recorded as an event: %s',
            exc,
            instance=instance,
        )
