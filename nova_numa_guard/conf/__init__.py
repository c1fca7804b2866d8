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

"""Every option of nova-numa-guard.

All of them live in the ``[numa_guard]`` group of nova.conf. The scheduler and
nova-compute read the isolation options, nova-compute most of the others; one
file may serve both.
"""

from oslo_config import cfg

from nova_numa_guard.conf import compute, isolation, metrics, scheduler, series
from nova_numa_guard.conf.live import LiveOption

__all__ = [
    'GROUP',
    'OPTS',
    'LiveOption',
    'list_opts',
    'register_opts',
    'validate',
]

GROUP = cfg.OptGroup(
    'numa_guard',
    title='nova-numa-guard',
    help="""
Options of nova-numa-guard, which keeps guests without a NUMA topology
(floating) and guests with one (affined: huge pages, pinned CPUs,
``hw:numa_nodes``) from taking memory from each other.
""",
)

OPTS: list[cfg.Opt] = (
    isolation.OPTS + scheduler.OPTS + compute.OPTS + metrics.OPTS + series.OPTS
)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register every option. May be called more than once."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)


def validate(conf: cfg.ConfigOpts) -> None:
    """Read every option once, so that a bad value stops the service.

    oslo.config looks at a value only when it is read.

    :raises oslo_config.cfg.ConfigFileValueError: names the option, the file,
        the value, and what is allowed
    """
    for opt in OPTS:
        try:
            conf[GROUP.name][opt.dest]
        except ValueError as exc:
            raise cfg.ConfigFileValueError(
                f'[{GROUP.name}] {opt.name}: {exc}'
            ) from exc


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """The options, as oslo-config-generator asks for them."""
    return [(GROUP, OPTS)]
