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

"""Which checks are for which service of Nova's."""

import enum
import os
from typing import Any

from oslo_config import cfg

from nova_numa_guard.status import (
    cell,
    checks,
    configured,
    driver,
    failed_builds,
    fewest_hosts,
    filters,
    guests,
    host,
    mounts,
    old_guests,
    options,
    overcommit,
    reclaim,
    release,
    reserve,
    starts,
    validators,
    weighers,
)


class Role(enum.Enum):
    """A service of Nova's that the guard is installed beside."""

    API = 'api'
    SCHEDULER = 'scheduler'
    COMPUTE = 'compute'


def found(conf: cfg.ConfigOpts) -> list[Role]:
    """The roles of this host, as far as its configuration tells.

    A compute has a driver, and must not know the API database; nova-api and
    nova-scheduler have to.
    """
    roles = []
    if conf.api_database.connection:
        roles += [Role.API, Role.SCHEDULER]
    if conf.compute_driver:
        roles.append(Role.COMPUTE)
    return roles


def of(
    conf: cfg.ConfigOpts,
    roles: list[Role],
    uri: str = '',
    root: str | os.PathLike[str] = '/',
) -> list[checks.Check]:
    """The checks of some roles.

    :param uri: of libvirt; empty for the one that nova-compute uses
    :param root: the folder below which ``sys`` and ``proc`` are
    """
    wanted: list[checks.Check] = [
        options.OptionsCheck(conf),
        release.ReleaseCheck(conf),
    ]
    if Role.API in roles:
        wanted.append(validators.ValidatorsCheck())
    if Role.SCHEDULER in roles:
        wanted += [
            filters.FilterCheck(conf),
            weighers.WeigherCheck(conf),
            failed_builds.FailedBuildsCheck(conf),
            fewest_hosts.FewestHostsCheck(conf, lambda: _fleet(conf)),
        ]
    if Role.COMPUTE in roles or not roles:
        wanted.append(driver.DriverCheck())
    if Role.COMPUTE in roles:
        here = host.Host(conf, uri, root)
        wanted += [
            configured.ConfiguredCheck(conf),
            cell.CellCheck(here),
            reserve.ReserveCheck(here),
            old_guests.OldGuestsCheck(here),
            mounts.MountsCheck(here),
            overcommit.OvercommitCheck(here),
            reclaim.ReclaimCheck(here),
        ]
    return wanted


def leaving(conf: cfg.ConfigOpts, uri: str = '') -> list[checks.Check]:
    """The checks of a compute host that is to go back to Nova's driver."""
    return [
        options.OptionsCheck(conf),
        starts.StartsCheck(conf),
        guests.GuestsCheck(conf, uri),
    ]


def _fleet(conf: cfg.ConfigOpts) -> Any:
    """The hosts by Nova's databases.

    :raises CannotCheckError: they do not tell
    """
    # It takes a second, and not every check needs it.
    from nova_numa_guard.cloud import config, errors, hosts

    try:
        config.load(conf.config_file or (), conf.config_dir or ())
        return hosts.read()
    except errors.CloudError as exc:
        raise checks.CannotCheckError(str(exc)) from exc
