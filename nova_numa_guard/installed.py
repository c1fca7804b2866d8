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

"""The Nova that is installed, and what a service does with it."""

import contextlib
import functools
from importlib import metadata
import sys

from oslo_config import cfg
from oslo_log import log as logging

from nova_numa_guard import series

LOG = logging.getLogger(__name__)

_OPTION = '[numa_guard] unsupported_nova'


def version() -> str | None:
    """The version of Nova as Python has it; None if it does not say."""
    # Whatever is wrong with the metadata of a package, it is not this that
    # has to stop a service.
    with contextlib.suppress(Exception):
        return metadata.version('nova')
    return None


@functools.cache
def guard() -> str:
    """The version of nova-numa-guard; empty if Python does not say."""
    with contextlib.suppress(Exception):
        return metadata.version('nova-numa-guard')
    return ''


def warn(consequence: str) -> None:
    """Log one line if the Nova is none that is supported. Never raises.

    :param consequence: what is to be expected then
    """
    found = version()
    support = series.judge(found)
    if support is series.Support.UNSUPPORTED:
        LOG.warning('%s: %s', series.describe(found), consequence)
    elif support is series.Support.DEVELOPMENT:
        LOG.warning(
            '%s: a version in development may differ from what was tried',
            series.describe(found),
        )


def check(conf: cfg.ConfigOpts) -> None:
    """Have nova-compute start, or end it with one line in its log.

    :raises SystemExit: the Nova is not supported, and the option says
        "refuse". Nova itself leaves a start so where it loads its driver; an
        exception would be a traceback, and one in init_host() would leave a
        process on native threads behind that does nothing
    """
    if series.judge(version()) is series.Support.UNSUPPORTED:
        if _refuses(conf):
            _leave(
                f'nova-compute does not start, because {_OPTION} is "refuse"; '
                'install a nova-numa-guard for this Nova, or set it to "warn"'
            )
        warn(
            f'starting all the same, because {_OPTION} is "warn"; guests may '
            'fail to start or to migrate, or be guarded by nothing'
        )
    else:
        warn('')


def explain(error: Exception) -> None:
    """End nova-compute with one line if a driver cannot be loaded, and why.

    With a Nova that is supported it does nothing: there the traceback is what
    tells.

    :param error: what came of loading it
    :raises SystemExit: the Nova is not supported
    """
    if series.judge(version()) is series.Support.UNSUPPORTED:
        _leave(
            "nova-compute does not start, because the guard's driver needs "
            f'what this Nova does not have: {error}; install a '
            f'nova-numa-guard for this Nova, {_OPTION} cannot help'
        )


def _refuses(conf: cfg.ConfigOpts) -> bool:
    try:
        return bool(conf.numa_guard.unsupported_nova != 'warn')
    except ValueError:
        return True  # a word that is no choice has not asked for a warning


def _leave(why: str) -> None:
    LOG.critical('%s: %s', series.describe(version()), why)
    sys.exit(1)
