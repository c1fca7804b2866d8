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

"""What of the guard is left in a guest, once Nova's own driver is back.

Pure: a domain's XML in, a finding out. Nova's live migration looks for
``<memory>`` and for the ``<memnode>`` of every cell
(nova.virt.libvirt.migration), which the guard leaves out; everything else that
Nova does with a guest it does without them.
"""

from collections.abc import Iterable
import dataclasses
import enum

from lxml import etree

from nova_numa_guard import domain

# The namespace of what Nova writes in a domain's <metadata>; its versions end
# it.
_NOVA = '{http://openstack.org/xmlns/libvirt/nova/'


class Trace(enum.Enum):
    """What of the guard is in a guest."""

    NONE = 'none'
    # Nova's own driver cannot live-migrate it.
    UNBOUND = 'unbound'
    # A floating guest is on some cells only, and Nova would take that along.
    CONFINED = 'confined'
    # Nova's own driver can do anything with it, but would not have written it.
    PREFERRED = 'preferred'
    # It could not be found out.
    UNREADABLE = 'unreadable'


class State(enum.Enum):
    """When the XML that was read is what the guest runs with.

    A guest that is shut off is not here: Nova makes its XML anew to start it.
    """

    RUNNING = 'running'  # or paused: now
    SUSPENDED = 'suspended'  # its memory is saved: once it is resumed
    RESCUED = 'in rescue'  # once it is unrescued


@dataclasses.dataclass(frozen=True, slots=True)
class Kept:
    """The XML that a guest of Nova's runs with, or will without a new one.

    :param name: of the domain
    :param uuid: of the domain, and of the server
    :param xml: None if it could not be read
    :param error: why not
    """

    name: str
    uuid: str
    state: State
    xml: str | None
    error: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """What is in such an XML."""

    kept: Kept
    trace: Trace


def trace(xml: domain.Text) -> Trace:
    """What of the guard is in a domain.

    :raises ValueError: this is not the XML of a domain
    """
    layout = domain.read(xml)
    if not layout.cells:
        # Nova binds no floating guest.
        bound = layout.is_bound or layout.memnodes
        return Trace.CONFINED if bound else Trace.NONE
    if not layout.is_bound or layout.cells.keys() - layout.memnodes.keys():
        return Trace.UNBOUND
    if any(memnode.mode != 'strict' for memnode in layout.memnodes.values()):
        return Trace.PREFERRED
    return Trace.NONE


def findings(kept: Iterable[Kept]) -> list[Finding]:
    """What is found in each of them, in the order of the domains' names."""
    return [
        _finding(each)
        for each in sorted(kept, key=lambda each: (each.name, each.uuid))
    ]


def _finding(kept: Kept) -> Finding:
    if kept.xml is None:
        return Finding(kept, Trace.UNREADABLE)
    try:
        return Finding(kept, trace(kept.xml))
    except ValueError as exc:
        unread = dataclasses.replace(kept, xml=None, error=str(exc))
        return Finding(unread, Trace.UNREADABLE)


def is_novas(root: etree._Element) -> bool:
    """Whether Nova made a domain: it names the server in its metadata."""
    return any(
        isinstance(child.tag, str)
        and child.tag.startswith(_NOVA)
        and child.tag.endswith('}instance')
        for child in root.iterfind('./metadata/*')
    )


def is_rescue(root: etree._Element) -> bool:
    """Whether Nova made a domain to rescue a server.

    Such a domain has a disk whose name ends so, wherever Nova keeps disks; it
    is gone once the server is unrescued.
    """
    return any(
        (source.get(attribute) or '').endswith('.rescue')
        for source in root.iterfind('./devices/disk/source')
        for attribute in ('file', 'dev', 'name', 'volume')
    )
