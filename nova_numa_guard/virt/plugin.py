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

"""How nova-compute finds the driver.

Nova loads ``nova.virt.<compute_driver>`` and nothing else, and a wheel that
put a module into Nova's own package would break a Nova that is installed in
editable mode, as devstack does. But nova-compute calls os_vif.initialize()
before it loads the driver, and that loads every plug-in of the ``os_vif``
entry point group. So this package registers one there, which plugs no VIF
and only adds the folder ``shim`` to the places where ``nova.virt`` looks for
modules. ``compute_driver = numa_guard.NUMAGuardDriver`` then finds
``shim/numa_guard.py``.
"""

import importlib
import pathlib
from typing import Any, Self

from os_vif import exception, objects, plugin

SHIM = str(pathlib.Path(__file__).parent / 'shim')


def extend_nova_virt() -> bool:
    """Let nova.virt find the driver; False where there is no Nova."""
    try:
        virt = importlib.import_module('nova.virt')
    except ImportError:
        return False
    if SHIM not in virt.__path__:
        virt.__path__.append(SHIM)
    return True


class DriverLocator(plugin.PluginBase):
    """An os-vif plug-in that plugs nothing."""

    @classmethod
    def load(cls, plugin_name: str) -> Self:
        extend_nova_virt()
        locator: Self = super().load(plugin_name)
        return locator

    def describe(self) -> Any:
        return objects.host_info.HostPluginInfo(
            plugin_name='numa_guard', vif_info=[]
        )

    def plug(self, vif: Any, instance_info: Any) -> None:
        raise exception.PlugException(vif=vif, err='numa_guard plugs no VIF')

    def unplug(self, vif: Any, instance_info: Any) -> None:
        raise exception.UnplugException(vif=vif, err='numa_guard plugs no VIF')
