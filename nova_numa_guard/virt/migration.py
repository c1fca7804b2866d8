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

from typing import Any

from nova_numa_guard import writing
from nova_numa_guard.virt import guest_xml


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
            destination_xml = guest_xml.write(
                destination_xml, self._written, self._instance
            )
        return self._guest.migrate(
            *args, destination_xml=destination_xml, **kwargs
        )
