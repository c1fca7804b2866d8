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

"""A configuration as the status command reads it."""

import pathlib

import fixtures
from oslo_config import cfg

from nova_numa_guard import conf as guard_conf
from nova_numa_guard.status import cmd

GUARD = 'numa_guard.NUMAGuardDriver'


def of(test, driver=GUARD, default=(), **groups):
    """A configuration that is read from a file.

    All configurations of a process share the groups, and overrides with them.

    :param test: that it is for
    :param default: values of [DEFAULT], by option; several as a list
    :param groups: the same of other groups, by group
    """
    groups = {
        'DEFAULT': {'compute_driver': driver, **dict(default)},
        'libvirt': {'connection_uri': 'test:///default'},
        **groups,
    }
    lines = []
    for group, values in groups.items():
        lines.append(f'[{group}]')
        for name, value in values.items():
            several = value if isinstance(value, list) else [value]
            lines += [f'{name} = {each}' for each in several if each != '']
    folder = pathlib.Path(test.useFixture(fixtures.TempDir()).path)
    path = folder / 'nova.conf'
    path.write_text('\n'.join(lines))
    conf = cfg.ConfigOpts()
    guard_conf.register_opts(conf)
    for module in cmd._NOVAS:
        module.register_opts(conf)
    conf([f'--config-file={path}'])
    return conf
