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

"""Live migration: show Nova the XML that it expects."""

from typing import Any

from nova_numa_guard import confinement, tuning


class StockGuest:
    """A guest whose XML reads as if Nova alone had written it.

    Nova rewrites ``<numatune>`` for the destination on the source, from the
    XML of the running guest, and fails where ``<memory>`` is missing. The
    guest arrives with Nova's ``<numatune>``, so that it can migrate on from a
    host without the guard; the guard's applies when its XML is made anew.

    :param guest: nova.virt.libvirt.guest.Guest
    :param nodes: the host node of each guest cell
    """

    def __init__(self, guest: Any, nodes: dict[int, int]) -> None:
        self._guest = guest
        self._nodes = nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._guest, name)

    def get_xml_desc(self, *args: Any, **kwargs: Any) -> str:
        xml: str = self._guest.get_xml_desc(*args, **kwargs)
        # The destination may have no such cell.
        return tuning.restore(confinement.release(xml), self._nodes)
