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

"""The option for a Nova that the guard was not tried with."""

from oslo_config import cfg

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'unsupported_nova',
        default='refuse',
        choices=[
            (
                'refuse',
                'nova-compute does not start, and says why in one line of '
                'its log.',
            ),
            ('warn', 'It starts, with a warning in its log.'),
        ],
        help="""
What nova-compute does with a series of Nova that the guard does not support.

The guard extends methods of Nova's libvirt driver that Nova may change in any
release. With a Nova that it was not tried with, at best all is as it was. At
worst guests are started unguarded and nobody knows, until the kernel kills
one; or they fail to start or to migrate.

So by default a nova-compute that was upgraded before the guard does not start.
That harms no guest that runs: it only keeps the host from being managed. It
shows on the first host of an upgrade, while somebody is looking. An upgrade
within a series is not concerned. To go on without a new guard, say ``warn``,
or go back to Nova's own driver; read first in the documentation how, because
guests that the guard started cannot be live-migrated by Nova alone.

It is the major of Nova's version that counts, that of a version in development
too: 34.1.0.dev123 counts as 34, with a warning, and 35.0.0.0b1 as 35. A
version that cannot be read is not supported. nova-scheduler always starts, and
its filter warns: without it no guest could be placed at all. If a Nova lacks
what the guard's driver cannot do without, nova-compute does not start whatever
the option says.

""",
    ),
]
