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

"""Live migration: show Nova the XML that it expects, and its destination
what the destination writes itself.
"""

import dataclasses
from typing import Any

from nova import objects
import nova.conf
from oslo_log import log as logging

from nova_numa_guard import confinement, report, tuning, writing
from nova_numa_guard.virt import needs

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


class MigratingGuest:
    """A guest whose XML reads as if Nova alone had written it.

    Nova rewrites ``<numatune>`` for the destination on the source, from the
    XML of the running guest, and fails where ``<memory>`` is missing. What
    comes of it is written once more, as the destination does it: one without
    the guard could not migrate the guest on if it had the guard's.

    :param guest: nova.virt.libvirt.guest.Guest
    :param instance: that it is
    :param written: how the destination writes XML
    """

    def __init__(
        self, guest: Any, instance: Any, written: writing.Writing
    ) -> None:
        topology = instance.numa_topology
        cells = topology.cells if topology else ()
        self._guest = guest
        self._instance = instance
        self._written = written
        self._nodes = {i: cell.id for i, cell in enumerate(cells)}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guest, name)

    def get_xml_desc(self, *args: Any, **kwargs: Any) -> str:
        xml: str = self._guest.get_xml_desc(*args, **kwargs)
        return writing.restore(xml, self._nodes)

    def migrate(
        self,
        *args: Any,
        destination_xml: str | None = None,
        **kwargs: Any,
    ) -> Any:
        if destination_xml is not None:
            destination_xml = writing.apply(
                destination_xml, of_guest(self._written, self._instance)
            )
        return self._guest.migrate(
            *args, destination_xml=destination_xml, **kwargs
        )


def written_here(
    confined: confinement.Confinement | None,
) -> writing.Writing:
    """How this host writes the XML of its guests.

    :param confined: of its floating guests
    """
    options = CONF.numa_guard
    return writing.Writing(
        tuning.SmallPagePolicy(options.small_page_policy)
        if options.numatune == 'guard'
        else None,
        confined,
    )


def of_guest(written: writing.Writing, instance: Any) -> writing.Writing:
    """How a host writes the XML of one guest: its flavor has a say in it."""
    if written.small_pages is None:
        return written
    policy = needs.flavor_policy(instance) or written.small_pages
    return dataclasses.replace(written, small_pages=policy)


def written_at(context: Any, host: str, instance: Any) -> writing.Writing:
    """How another host writes the XML of its guests, by its last report.

    Without one, as Nova does: so that any host can migrate the guest on.

    :param host: the name of the compute host
    :param instance: that goes there
    """
    try:
        node = objects.ComputeNode.get_first_node_by_host_for_old_compat(
            context.elevated(), host
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
