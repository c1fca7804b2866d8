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

"""Whether isolation by host leaves hosts to fail over to."""

from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard import failover
from nova_numa_guard.status import checks, options

Code, Result = upgradecheck.Code, upgradecheck.Result


class FewestHostsCheck:
    """Zones and aggregates of fewer than three hosts, isolated by host.

    :param conf: has read the configuration of nova-scheduler
    :param fleet: reads nova_numa_guard.cloud.hosts.Fleet
    """

    name = 'Hosts to fail over to'

    def __init__(self, conf: cfg.ConfigOpts, fleet: Callable[[], Any]) -> None:
        self._conf = conf
        self._fleet = fleet

    def run(self) -> upgradecheck.Result:
        by_host = options.value(self._conf, 'isolation') != 'none'
        fleet = self._fleet()
        small = failover.too_small(
            failover.groups(
                (
                    (
                        host.name,
                        host.zone,
                        {
                            each.name: each.metadata.get(
                                'numa_guard:isolation'
                            )
                            == 'host'
                            for each in host.state.aggregates
                        },
                    )
                    for host in fleet.hosts
                    if not host.away
                ),
                by_host,
            )
        )
        if fleet.silent:
            raise checks.CannotCheckError(
                'The database of these cells of Nova does not answer: '
                f'{", ".join(fleet.silent)}.'
            )
        if not small:
            return Result(Code.SUCCESS)
        lines = [
            f'- {group.what} {group.name}: {", ".join(sorted(group.hosts))}'
            for group in small
        ]
        if options.value(self._conf, 'isolation_on_moves') == 'enforce':
            what = (
                'the guests of one that fails may find no host of their kind, '
                'and [numa_guard] isolation_on_moves is "enforce": they are '
                'not evacuated. Set it to "prefer", add a host, or use '
                'isolation = cell.'
            )
        else:
            what = (
                'when one fails its guests may be mixed with those of the '
                'other kind, and a new guest of a kind that has no host is '
                'refused. Add a host, or use isolation = cell.'
            )
        return Result(
            Code.WARNING,
            '\n'.join(
                [
                    'Isolated by host, with fewer than '
                    f'{failover.ENOUGH} hosts that may be chosen:',
                    *lines,
                    f'There {what}',
                ]
            ),
        )
