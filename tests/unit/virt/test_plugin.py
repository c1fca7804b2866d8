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

"""How nova-compute finds the driver."""

import importlib
import sys
from unittest import mock

import nova.virt
from nova.virt.libvirt import driver as nova_driver
import os_vif
from os_vif import exception as vif_exception
from os_vif import objects as vif_objects
from os_vif import plugin as vif_plugin
from stevedore import extension

from nova_numa_guard.virt import plugin
from tests.unit import base

MODULE = 'nova.virt.numa_guard'


class PluginTestCase(base.TestCase):
    def setUp(self):
        super().setUp()
        self.remove()
        self.addCleanup(self.remove)
        vif_objects.register_all()

    def remove(self):
        while plugin.SHIM in nova.virt.__path__:
            nova.virt.__path__.remove(plugin.SHIM)
        sys.modules.pop(MODULE, None)
        nova.virt.__dict__.pop('numa_guard', None)
        importlib.invalidate_caches()


class ExtendTest(PluginTestCase):
    def test_nova_does_not_find_the_driver_by_itself(self):
        self.assertRaises(ImportError, importlib.import_module, MODULE)

    def test_nova_finds_the_driver(self):
        self.assertTrue(plugin.extend_nova_virt())
        found = importlib.import_module(MODULE).NUMAGuardDriver
        self.assertTrue(issubclass(found, nova_driver.LibvirtDriver))

    def test_once(self):
        before = list(nova.virt.__path__)
        for _ in range(3):
            self.assertTrue(plugin.extend_nova_virt())
        self.assertEqual([*before, plugin.SHIM], list(nova.virt.__path__))

    def test_novas_own_modules_come_first(self):
        plugin.extend_nova_virt()
        self.assertNotEqual(plugin.SHIM, nova.virt.__path__[0])

    def test_the_shim_holds_nothing_of_novas(self):
        """Else it could stand in for a module of Nova's."""
        plugin.extend_nova_virt()
        found = importlib.import_module('nova.virt.driver')
        self.assertFalse(found.__file__.startswith(plugin.SHIM))

    def test_where_there_is_no_nova(self):
        """os-vif is used by Neutron and Zun as well."""
        for name in ('nova', 'nova.virt'):
            with mock.patch.dict(sys.modules, {name: None}):
                if name == 'nova':
                    sys.modules.pop('nova.virt', None)
                self.assertIs(False, plugin.extend_nova_virt())
        self.assertNotIn(plugin.SHIM, nova.virt.__path__)


class DriverLocatorTest(PluginTestCase):
    def test_os_vif_loads_it(self):
        loaded = plugin.DriverLocator.load('numa_guard')
        self.assertIsInstance(loaded, plugin.DriverLocator)
        self.assertIsInstance(loaded, vif_plugin.PluginBase)
        self.assertIn(plugin.SHIM, nova.virt.__path__)

    def test_os_vif_loads_it_twice(self):
        for _ in range(2):
            plugin.DriverLocator.load('numa_guard')
        self.assertEqual(1, list(nova.virt.__path__).count(plugin.SHIM))

    def test_os_vif_loads_it_where_there_is_no_nova(self):
        with mock.patch.dict(sys.modules, {'nova.virt': None}):
            self.assertIsInstance(
                plugin.DriverLocator.load('numa_guard'), plugin.DriverLocator
            )

    def test_it_describes_no_vif(self):
        info = plugin.DriverLocator.load('numa_guard').describe()
        self.assertIsInstance(info, vif_objects.host_info.HostPluginInfo)
        self.assertEqual('numa_guard', info.plugin_name)
        self.assertEqual([], info.vif_info)
        self.assertTrue(info.obj_to_primitive())

    def test_os_vif_lists_it(self):
        """os_vif.host_info() asks every plug-in, and fails with any."""
        loaded = plugin.DriverLocator.load('numa_guard')
        manager = extension.ExtensionManager.make_test_instance(
            [
                extension.Extension(
                    'numa_guard', None, plugin.DriverLocator, loaded
                )
            ]
        )
        with mock.patch.object(os_vif, '_EXT_MANAGER', manager):
            everything = os_vif.host_info()
            useful = os_vif.host_info(permitted_vif_type_names=['VIFBridge'])
        self.assertEqual(
            ['numa_guard'],
            [found.plugin_name for found in everything.plugin_info],
        )
        self.assertEqual([], useful.plugin_info)

    def test_it_plugs_nothing(self):
        loaded = plugin.DriverLocator.load('numa_guard')
        vif = vif_objects.vif.VIFBase(id='vif')
        for method, error in (
            (loaded.plug, vif_exception.PlugException),
            (loaded.unplug, vif_exception.UnplugException),
        ):
            exc = self.assertRaises(error, method, vif, None)
            self.assertIn('numa_guard plugs no VIF', str(exc))
