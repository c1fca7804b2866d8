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

"""Options that nova-compute alone reads."""

from oslo_config import cfg

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'floating_cells',
        default='',
        regex=r'^(\d+(-\d+)?(,\d+(-\d+)?)*)?$',
        help="""
The host's NUMA cells that are for floating guests, under isolation by cell.

Floating guests run on the shared CPUs of these cells and take their memory
from them. Nova is not told of these cells' topology, so that it places no
affined guest there.

nova-compute does not start if the cells contradict the rest of its
configuration: if the host has no such cell, or no other; if the cells have no
CPU of ``cpu_shared_set``; or if ``cpu_dedicated_set`` reaches into them.

Possible values:

* Ids of host NUMA nodes, such as ``0`` or ``0-1,4``

Related options:

* ``[numa_guard] isolation``, which must be ``cell``
* ``[numa_guard] floating_memory_mode``
* ``[compute] cpu_shared_set``
* ``[compute] cpu_dedicated_set``
""",
    ),
    cfg.StrOpt(
        'floating_memory_mode',
        default='restrictive',
        choices=[
            ('restrictive', "By the cpuset of the guest's process."),
            ('strict', 'By the cpuset, and by the policy of its memory.'),
        ],
        help="""
How floating guests' memory is confined to ``floating_cells``.

It is the mode of ``<memory>`` in ``<numatune>``. libvirt has others, but under
pressure these leave the cells. A running guest keeps its mode until its XML is
made anew.

Related options:

* ``[numa_guard] floating_cells``
""",
    ),
    cfg.StrOpt(
        'numatune',
        default='guard',
        choices=[
            (
                'guard',
                'No memory mode for the guest as a whole; huge pages are '
                'bound strictly to the host NUMA node of their cell, small '
                'pages as small_page_policy says.',
            ),
            ('stock', 'What Nova writes, unchanged.'),
        ],
        help="""
How the ``<numatune>`` of affined guests is written.

Nova binds all memory of an affined guest's QEMU process strictly, its own
overhead included, so that the process is killed when the host NUMA node runs
out of memory. Confidential guests (AMD SEV, Intel TDX) keep what Nova writes,
whatever this option says. A guest keeps its ``<numatune>`` until Nova makes
its XML anew: at a hard reboot, a stop and start, a resize, a cold migration, a
rebuild, an evacuation or an unshelving, but not when it is resumed or
unrescued.

Related options:

* ``[numa_guard] small_page_policy``
""",
    ),
    cfg.StrOpt(
        'small_page_policy',
        default='auto',
        choices=[
            (
                'auto',
                'strict for guests whose memory is all allocated when they '
                'start (passed-through devices, locked or realtime memory), '
                'preferred for the others.',
            ),
            (
                'preferred',
                'Memory comes from the host NUMA node of the cell while it '
                'has any, and from other nodes then.',
            ),
            (
                'local',
                'Memory comes from the node of the CPU that first touches it.',
            ),
            (
                'strict',
                'Memory comes from the host NUMA node of the cell only. The '
                'guest is killed when there is none.',
            ),
        ],
        help="""
The memory policy of guest NUMA cells that have small pages.

Cells with huge pages are always bound strictly, whatever this option says.

Guests with ``preferred`` or ``local`` memory are not killed when their node is
full, at a price: unless the kernel's ``vm.zone_reclaim_mode`` is 1, it takes
memory of another node before it drops file cache of this one, and does not
move it back.

Related options:

* ``[numa_guard] numatune``, which must be ``guard``
* The flavor extra spec ``numa_guard:mem_policy``, with the same values,
  replaces it.
""",
    ),
    cfg.BoolOpt(
        'accounting',
        default=True,
        help="""
Whether Nova is told how many huge pages the host has, and others hold.

Nova reads the size of the pools once, when nova-compute starts, and counts its
own guests. With this option it is told at every audit how large they are, and
pages that are in use by no guest that it counts are reserved, as if
``[DEFAULT] reserved_huge_pages`` said so. What that option says is reserved in
any case.

Possible values:

* True: what the scheduler, and the claims of all moves, go by is what the
  host has
* False: it is what Nova itself knows

Related options:

* ``[DEFAULT] reserved_huge_pages``
""",
    ),
    cfg.StrOpt(
        'page_check',
        default='enforce',
        choices=[
            (
                'enforce',
                'A guest whose host lacks the pages is refused. Nova tries '
                'the next host for a build or a live migration, and gives an '
                'unshelving or an evacuation up.',
            ),
            (
                'warn',
                'A shortage is logged, and QEMU is left to fail; what became '
                'of the guest is logged too.',
            ),
            ('off', 'Nothing is checked.'),
        ],
        mutable=True,
        help="""
Whether the pages that the host's kernel has free are read before a guest is
built, unshelved, evacuated or live-migrated to this host.

Nova counts the pages of its own guests only, and does not see what other
processes took. Huge pages are checked, and the small ones of guests whose
memory is bound strictly to its nodes (``small_page_policy``).

The option can be changed by sending SIGHUP to nova-compute
where that runs on eventlet. On native threads, which are the default since
2026.2, nova-compute must not be sent SIGHUP: it stops working, though it still
looks up. Restart it instead.

Related options:

* ``[numa_guard] page_check_on_restart``
* ``[numa_guard] page_wait``
""",
    ),
    cfg.StrOpt(
        'page_check_on_restart',
        default='enforce',
        choices=[
            (
                'enforce',
                'A guest whose host lacks the pages is refused before '
                'anything of it is touched, and stays as it is.',
            ),
            ('warn', 'A shortage is logged, and QEMU is left to fail.'),
            ('off', 'Nothing is checked.'),
        ],
        mutable=True,
        help="""
The same as ``page_check`` for guests that this host has already, and for those
that a resize or a cold migration has brought.

It concerns starts, hard and soft reboots, resuming, unrescuing, and the start
after a cold snapshot. The pages that the guest has itself count as free, and
are kept for it while it is down.

Some starts cannot be refused without a loss, and are only warned of: those of
a rebuild, a rescue, the end of a resize or migration, and those of guests that
ran when the host went down.

The option can be changed like ``page_check``.

Related options:

* ``[numa_guard] page_wait``
* ``[numa_guard] host_boot_wait``
""",
    ),
    cfg.IntOpt(
        'page_wait',
        default=60,
        min=0,
        help="""
For how many seconds at most a start waits for pages.

It does while other guests are starting in the same pools and it is not yet
known how much they leave, and after the guest's own domain has ended and
another process, such as a vhost-user switch, still has its memory.

Possible values:

* An integer; with 0 a start in doubt is refused at once.
""",
    ),
    cfg.IntOpt(
        'host_boot_wait',
        default=120,
        min=0,
        help="""
For how many seconds the guests of a host that has booted wait for its pools.

Huge pages may be reserved by a service that starts later. All guests that
nova-compute starts then (``[DEFAULT] resume_guests_state_on_host_boot``) share
the time. After it they are started whether the pages are there or not.

Possible values:

* An integer
""",
    ),
    cfg.IntOpt(
        'refusal_ttl',
        default=300,
        min=0,
        help="""
For how many seconds the scheduler puts this host last after a refusal.

It concerns guests that need pages of the size for want of which a guest was
refused, and no others. A later refusal begins the time anew.

Possible values:

* An integer; 0 means that refusals are neither reported to the scheduler nor
  sent as notifications.

Related options:

* ``[numa_guard] page_check``
* ``[numa_guard] weight_multiplier``
""",
    ),
]
