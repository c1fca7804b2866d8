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

"""Options of the isolation, which schedulers and computes both read."""

from oslo_config import cfg

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'isolation',
        default='none',
        choices=[
            ('none', 'Floating and affined guests may share a host.'),
            ('host', 'A host holds either floating or affined guests.'),
            (
                'cell',
                'A host holds both, floating guests on its floating_cells and '
                'affined guests on the others.',
            ),
        ],
        help="""
What floating and affined guests may share.

nova-scheduler and nova-compute both read this option. The scheduler chooses
hosts by it. A nova-compute with ``host`` judges every guest that is built,
unshelved or evacuated to it once more, because two schedulers may choose the
same empty host at once. A nova-compute with ``cell`` confines its floating
guests to ``floating_cells``, and hides these from Nova's NUMA topology.

Of the scheduler's option, the compute's and the metadata of aggregates the
strictest counts, with one exception: a host is isolated by cell if, and only
if, its nova-compute says so. In a scheduler ``cell`` means ``host`` for the
other hosts.

The scheduler's part has an effect only if
``nova_numa_guard.scheduler.filters.NUMAGuardFilter`` is among the filters
that are available and enabled.

Related options:

* ``[numa_guard] isolation_mode``
* ``[numa_guard] mixed_hosts``
* ``[numa_guard] isolation_on_moves``
* ``[numa_guard] floating_cells``
* The aggregate metadata ``numa_guard:isolation`` (``none`` or ``host``)
* ``[filter_scheduler] available_filters``
* ``[filter_scheduler] enabled_filters``
""",
    ),
    cfg.StrOpt(
        'isolation_mode',
        default='enforce',
        choices=[
            (
                'enforce',
                'Hosts that break the isolation, or lack room for a floating '
                'guest, are removed; a compute refuses the guest.',
            ),
            (
                'warn',
                'Nothing is removed or refused. What would have been is '
                'logged: by the scheduler counted in one line a request, by '
                'the compute in one line a guest.',
            ),
        ],
        mutable=True,
        help="""
What happens to a host that breaks the isolation.

Begin with ``warn`` on a cloud that has guests already. The option can be
changed by sending SIGHUP to nova-scheduler, and to nova-compute where that
runs on eventlet. If the new value is bad, the last one that the process has
read is used.

Related options:

* ``[numa_guard] isolation``
* The aggregate metadata ``numa_guard:isolation_mode`` replaces the scheduler's
  option for the hosts of an aggregate; of several ``enforce`` counts.
""",
    ),
    cfg.StrOpt(
        'mixed_hosts',
        default='dominant',
        choices=[
            (
                'dominant',
                'The kind whose guests have more of the memory, so that the '
                'other kind dies out there.',
            ),
            ('closed', 'Neither kind.'),
            ('open', 'Both kinds.'),
        ],
        mutable=True,
        help="""
What a host that holds both kinds already may still take.

Near the middle, with 40 to 60 percent of the guests' memory, the dominant kind
stays what it was when the host last reported; a tie goes to the affined
guests. It has an effect under isolation by host only, and can be changed like
``isolation_mode``.

Related options:

* ``[numa_guard] isolation``
""",
    ),
    cfg.StrOpt(
        'isolation_on_moves',
        default='prefer',
        choices=[
            (
                'prefer',
                'A host of the right kind is taken if there is one. If not, '
                'the guest goes to another one, with a warning.',
            ),
            (
                'enforce',
                'Without a host of the right kind the move fails.',
            ),
        ],
        mutable=True,
        help="""
How evacuation, live migration and cold migration are isolated.

A resize that has to leave its host is a move as well: the scheduler cannot
tell it from a cold migration. With ``prefer`` the weigher puts hosts of the
wrong kind last, so ``NUMAGuardWeigher`` must be among the ``weight_classes``
with a multiplier above 0. Room for a floating guest is needed in any case. It
can be changed like ``isolation_mode``.

Related options:

* ``[numa_guard] isolation``
* ``[numa_guard] weight_multiplier``
""",
    ),
]
