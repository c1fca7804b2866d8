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

"""Refuse a guest, and leave the reason where an operator finds it."""

from typing import Any

from nova import exception, objects, utils
from nova.compute import vm_states
from nova.scheduler.client import report
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


def refuse(
    context: Any,
    instance: Any,
    host: str,
    event: str,
    why: str,
    details: str = '',
) -> exception.NovaException:
    """Log a refusal, make it an event of the instance action, and name it.

    :param event: the name of the event
    :param details: of the event; the reason if there are none
    :returns: what is to be raised. GroupAffinityViolation for a build, which
        then goes to the next host; ComputeResourcesUnavailable else
    """
    LOG.warning('Refused to start: %s', why, instance=instance)
    record(context, instance, host, event, details or why)
    if instance.vm_state == vm_states.BUILDING:
        # Of what Nova reschedules, only this is not taken for a failure of
        # the host (bug 1996732), which would put it last for every guest.
        _return_allocation(context, instance)
        return exception.GroupAffinityViolation(why)
    return exception.ComputeResourcesUnavailable(reason=why)


def return_ports(virtapi: Any, context: Any, instance: Any) -> None:
    """Bind the ports of an instance to its host again.

    Nova has bound them to this one before the driver hears of an evacuation.
    Its old host may be cut off only, and the guest run on it.

    :param virtapi: of the driver; the network is found through it
    """
    try:
        moved = instance.migration_context
        # Until the driver has returned these are the new host's.
        with utils.temporary_mutation(
            instance,
            pci_requests=moved.old_pci_requests,
            pci_devices=moved.old_pci_devices,
        ):
            virtapi._compute.network_api.setup_instance_network_on_host(
                context, instance, instance.host
            )
    except Exception as exc:
        LOG.warning(
            'The ports of a guest whose evacuation was refused are bound to '
            'this host, and should be to %s; "openstack port set --host" '
            'binds them to it: %r',
            instance.host,
            exc,
            instance=instance,
        )


def _return_allocation(context: Any, instance: Any) -> None:
    """Give back what placement holds for a build.

    Nova does so as well if it builds the guest on another host, but not if it
    may try none, as when an administrator has forced it onto this one.
    """
    try:
        placement = report.report_client_singleton()
        placement.delete_allocation_for_instance(
            context, instance.uuid, force=True
        )
    except Exception as exc:
        LOG.warning(
            'The allocation of a guest that was refused could not be '
            'returned, and is held until the server is deleted: %s',
            exc,
            instance=instance,
        )
