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

"""The few options of Nova's that a command needs.

Importing nova.conf takes longer than all the rest of a command; so these
options are described once more. A test compares them with Nova's.
"""

from collections.abc import Sequence

from oslo_config import cfg, types

from nova_numa_guard.cmd import errors

OPTIONS: dict[str | None, list[cfg.Opt]] = {
    None: [  # [DEFAULT]
        cfg.MultiOpt('reserved_huge_pages', item_type=types.Dict())
    ],
    'libvirt': [
        cfg.StrOpt('connection_uri', default=''),
        cfg.StrOpt('virt_type', default='kvm'),
    ],
}


def read(config_files: Sequence[str] | None = None) -> cfg.ConfigOpts:
    """Read what nova-compute reads.

    :param config_files: instead of the files that nova-compute finds
    :raises errors.CommandError: a file cannot be read
    """
    conf = cfg.ConfigOpts()
    for group, options in OPTIONS.items():
        conf.register_opts(options, group=group)
    files, folders = config_files, []
    if files is None:
        # Some distributions keep its options in files of its own.
        names = {'project': 'nova', 'prog': 'nova-compute'}
        files = cfg.find_config_files(**names)
        folders = cfg.find_config_dirs(**names)
    try:
        conf(
            [],
            project='nova',
            default_config_files=list(files),
            default_config_dirs=folders,
        )
    except cfg.Error as exc:
        raise errors.CommandError(
            f"Nova's configuration cannot be read: {exc}"
        ) from exc
    return conf
