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

"""Tell other services of a refusal, over Nova's notification bus."""

from collections.abc import Iterable, Mapping
from typing import Any

from nova import rpc
import nova.conf
from oslo_log import log as logging

from nova_numa_guard import availability, once

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

EVENT_TYPE = 'numa_guard.refused'

_complaints = once.Once()


def payload(
    reason: str,
    short: Iterable[availability.Shortage],
    free: Mapping[tuple[int, int], int],
) -> dict[str, Any]:
    """What a notification says of the pools.

    :param reason: of the refusal, in words
    :param short: the pools that were too small
    :param free: what the kernel has free in them, in pages, by host node and
        page size in KiB
    """
    return {
        'reason': reason,
        'pools': [
            {
                'numa_node': shortage.node,
                'page_size_kib': shortage.page_size,
                'needed': shortage.needed,
                'available': shortage.available,
                'free': free[shortage.node, shortage.page_size],
            }
            for shortage in short
        ],
    }


def notify(
    context: Any, instance: Any, host: str, payload: dict[str, Any]
) -> None:
    """Send a notification of a refusal.

    It goes where Nova's own go; with ``notification_format = both`` as a
    versioned one only, because it is one message whatever the format. How
    often is the caller's affair: a flood of refusals should not be one of
    messages. It never raises. Like Nova's own it waits for a bus that is down,
    for as long as ``[oslo_messaging_notifications] retry`` says.

    :param host: the name of this compute host
    :param payload: of :func:`payload`
    """
    try:
        # At the priority of Nova's own compute.instance.create.error, because
        # a queue for warnings is one that nobody empties.
        _notifier(host).error(
            context,
            EVENT_TYPE,
            {'instance_uuid': instance.uuid, 'host': host, **payload},
        )
    except Exception as exc:
        is_new = _complaints.is_new(type(exc).__name__)
        (LOG.warning if is_new else LOG.debug)(
            'The refusal could not be sent as a notification: %r',
            exc,
            instance=instance,
        )


def _notifier(host: str) -> Any:
    if CONF.notifications.notification_format == 'unversioned':
        # The one inside, because the one around it warns of every event type
        # that is not Nova's own.
        return rpc.get_notifier('compute', host).notifier
    return rpc.get_versioned_notifier(f'nova-compute:{host}')
