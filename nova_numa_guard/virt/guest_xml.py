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

"""How hosts write the XML of their guests."""

import dataclasses
from typing import Any

from nova import context as nova_context
from nova import objects
import nova.conf
from oslo_log import log as logging

from nova_numa_guard import confinement, report, tuning, writing
from nova_numa_guard.virt import needs

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


def here(confined: confinement.Confinement | None) -> writing.Writing:
    """How this host does it.

    :param confined: of its floating guests
    """
    options = CONF.numa_guard
    return writing.Writing(
        tuning.SmallPagePolicy(options.small_page_policy)
        if options.numatune == 'guard'
        else None,
        confined,
    )


def there(host: str, instance: Any) -> writing.Writing:
    """How another host does it, by its last report.

    Without one, as Nova does: so that any host can migrate the guest on.

    :param host: the name of the compute host
    :param instance: that goes there
    """
    # Not the context of the migration, which another thread writes with.
    context = nova_context.get_admin_context()
    try:
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            context, host
        )
        found = report.decode((node.stats or {}).get(report.STATS_KEY))
    except Exception as exc:
        # The guest can go there all the same.
        LOG.warning(
            'It is not known if host %s runs the guard, so that the guest '
            'gets the <numatune> of Nova there until its next hard reboot: '
            '%r',
            host,
            exc,
            instance=instance,
        )
        return writing.STOCK
    return found.written if found else writing.STOCK


def write(xml: str, written: writing.Writing, instance: Any) -> str:
    """The XML of a guest as a host writes it; what cannot be read stays.

    :param xml: as Nova has written it
    :param written: how the host does it; the guest's flavor has a say in it
    """
    if written.small_pages is not None:
        policy = needs.flavor_policy(instance) or written.small_pages
        written = dataclasses.replace(written, small_pages=policy)
    try:
        return writing.apply(xml, written)
    except ValueError as exc:
        LOG.warning(
            'The <numatune> stays as Nova wrote it: %s',
            exc,
            instance=instance,
        )
        return xml
