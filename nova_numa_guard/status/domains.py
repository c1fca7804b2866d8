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

"""What libvirt, and Nova's files, keep of the guests of a host."""

from collections.abc import Iterator
import pathlib
from typing import Any

import libvirt

from nova_numa_guard import domain, leaving

# Nova's copy of a server's XML from before it was rescued, in its folder.
_UNRESCUE = 'unrescue.xml'

# By [libvirt] virt_type, as Nova's driver has it.
_URIS = {'lxc': 'lxc:///', 'parallels': 'parallels:///system'}
_URI = 'qemu:///system'


def uri(connection_uri: str, virt_type: str) -> str:
    """Where Nova's driver finds libvirt.

    :param connection_uri: of [libvirt]; empty if it says nothing
    :param virt_type: of [libvirt]
    """
    return connection_uri or _URIS.get(virt_type, _URI)


def open_read_only(uri: str) -> Any:
    """A connection that can change nothing.

    :returns: libvirt.virConnect
    :raises libvirt.libvirtError: it cannot be had
    """
    # Else libvirt writes every error to stderr, before whoever handles it.
    libvirt.registerErrorHandler(lambda context, error: None, None)
    return libvirt.openReadOnly(uri)


def kept(connection: Any, instances: pathlib.Path) -> Iterator[leaving.Kept]:
    """The XML that each guest of Nova's runs with, or will.

    Left out are domains that Nova did not make, those that are gone
    meanwhile, and those that are shut off: Nova's power_on is a hard reboot.

    :param connection: libvirt.virConnect; a read-only one will do
    :param instances: the folder that holds the servers' folders
    :raises libvirt.libvirtError: libvirt does not answer
    :raises ValueError: its answer is not the XML of a domain
    """
    for each in connection.listAllDomains():
        try:
            yield from _kept(each, instances)
        except libvirt.libvirtError as exc:
            if exc.get_error_code() != libvirt.VIR_ERR_NO_DOMAIN:
                raise


def _kept(guest: Any, instances: pathlib.Path) -> Iterator[leaving.Kept]:
    name, uuid = guest.name(), guest.UUIDString()
    xml = guest.XMLDesc()
    root = domain.parse(xml)
    if not leaving.is_novas(root):
        return
    if leaving.is_rescue(root):
        yield _rescued(name, uuid, instances)
    elif guest.isActive():
        yield leaving.Kept(name, uuid, leaving.State.RUNNING, xml)
    elif _is_saved(guest):
        yield _suspended(guest, name, uuid)


def _is_saved(guest: Any) -> bool:
    try:
        return bool(guest.hasManagedSaveImage())
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT:
            return False  # nor can Nova suspend guests there
        raise


def _suspended(guest: Any, name: str, uuid: str) -> leaving.Kept:
    """Of the image, which is what libvirt starts with, however it is defined.

    Read-only connections may have it (libvirt 3.7 and later), but for secrets.
    """
    state = leaving.State.SUSPENDED
    try:
        xml = guest.managedSaveGetXMLDesc()
    except libvirt.libvirtError as exc:
        if exc.get_error_code() == libvirt.VIR_ERR_NO_DOMAIN:
            raise
        return leaving.Kept(name, uuid, state, None, str(exc))
    return leaving.Kept(name, uuid, state, xml)


def _rescued(name: str, uuid: str, instances: pathlib.Path) -> leaving.Kept:
    """Of Nova's file: what runs meanwhile is gone once it is unrescued."""
    state = leaving.State.RESCUED
    try:
        xml = (instances / uuid / _UNRESCUE).read_text()
    except (OSError, UnicodeDecodeError) as exc:
        return leaving.Kept(name, uuid, state, None, str(exc))
    return leaving.Kept(name, uuid, state, xml)
