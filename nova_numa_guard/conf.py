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

All of them live in the ``[numa_guard]`` group of nova.conf. The scheduler
reads the isolation options, nova-compute the others; one file may serve both.
"""

from oslo_config import cfg
from oslo_log import log as logging

LOG = logging.getLogger(__name__)

GROUP = cfg.OptGroup(
    'numa_guard',
    title='nova-numa-guard',
    help="""
Options of nova-numa-guard, which keeps guests without a NUMA topology
(floating) and guests with one (affined: huge pages, pinned CPUs,
``hw:numa_nodes``) from taking memory from each other.
""",
)

SCHEDULER_OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        'isolation',
        default='none',
        choices=[
            ('none', 'Floating and affined guests may share a host.'),
            (
                'host',
                'A host holds either floating or affined guests. A host that '
                'holds both already takes neither.',
            ),
        ],
        help="""
What floating and affined guests may share.

This option is read by nova-scheduler. It has an effect only if
``nova_numa_guard.scheduler.filters.NUMAGuardFilter`` is among the filters
that are available and enabled.

Related options:

* ``[numa_guard] isolation_mode``
* ``[filter_scheduler] available_filters``
* ``[filter_scheduler] enabled_filters``
""",
    ),
    cfg.StrOpt(
        'isolation_mode',
        default='enforce',
        choices=[
            ('enforce', 'Hosts that break the isolation are removed.'),
            (
                'warn',
                'No host is removed. What would have been removed is counted '
                'in one line of the log.',
            ),
        ],
        mutable=True,
        help="""
What happens to a host that breaks the isolation.

Begin with ``warn`` on a cloud that has guests already. The option can be
changed by sending SIGHUP to nova-scheduler. If the new value is bad, the last
one that the process has read is used.

Related options:

* ``[numa_guard] isolation``
""",
    ),
    cfg.FloatOpt(
        'weight_multiplier',
        default=100.0,
        help="""
How much the NUMA guard's weigher counts.

The weigher gives a host 1.0 if all its guests are of the kind of the guest
that is to be placed, 0.5 if it is empty, and 0.0 if all its guests are of the
other kind. Nova's own weighers (RAM, CPU, disk, PCI, soft affinity and
anti-affinity) give up to 1.0 times their multipliers, 1.0 each by default. So
the default lets this one outweigh them together: guests of a kind are stacked
on the hosts that have such guests, and empty hosts are kept empty. The weigher
for failed builds still comes first.

Possible values:

* An integer or float value; a negative one prefers hosts of the other kind,
  and 0 turns the weigher off. Below 1, Nova's weighers spread guests as they
  do without it.

Related options:

* The aggregate metadata ``numa_guard_weight_multiplier`` overrides it for the
  hosts of an aggregate; of several values the smallest is used.
* ``[filter_scheduler] weight_classes``
""",
    ),
]

COMPUTE_OPTS: list[cfg.Opt] = [
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

* ``[numa_guard] numatune``, which must be ``guard``.
""",
    ),
    cfg.StrOpt(
        'page_check',
        default='enforce',
        choices=[
            (
                'enforce',
                'A guest whose host lacks the huge pages is refused, and '
                'Nova tries the next host.',
            ),
            ('warn', 'A shortage is logged, and QEMU is left to fail.'),
            ('off', 'Nothing is checked.'),
        ],
        mutable=True,
        help="""
Whether the huge pages that the host's kernel has free are read before a guest
is built.

Nova counts the pages of its own guests only, and does not see what other
processes took. The option can be changed by sending SIGHUP to nova-compute
where that runs on eventlet. On native threads, which are the default since
2026.2, nova-compute must not be sent SIGHUP: it stops working, though it still
looks up. Restart it instead.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register every option. May be called more than once."""
    conf.register_group(GROUP)
    conf.register_opts(SCHEDULER_OPTS + COMPUTE_OPTS, group=GROUP)


def validate(conf: cfg.ConfigOpts) -> None:
    """Read every option once, so that a bad value stops the service.

    oslo.config looks at a value only when it is read.

    :raises oslo_config.cfg.ConfigFileValueError: names the option, the file,
        the value, and what is allowed
    """
    for opt in SCHEDULER_OPTS + COMPUTE_OPTS:
        try:
            conf[GROUP.name][opt.dest]
        except ValueError as exc:
            raise cfg.ConfigFileValueError(
                f'[{GROUP.name}] {opt.name}: {exc}'
            ) from exc


class LiveOption:
    """A mutable option; its last good value while the one it has is bad.

    oslo.config takes over whatever the file holds when a service is sent
    SIGHUP, and raises when it is read. A service that runs has to go on. A
    service that forks workers forks them anew at SIGHUP; in those the last
    good value is the one that the first process has read, at its start.

    :param conf: where the option is registered
    :param name: of the option in [numa_guard]
    """

    def __init__(self, conf: cfg.ConfigOpts, name: str) -> None:
        self._conf = conf
        self._name = name
        self._value: str | None = None
        self._complaint = ''

    @property
    def value(self) -> str:
        """The value.

        :raises oslo_config.cfg.ConfigFileValueError: it never had a good one
        """
        try:
            self._value = self._conf[GROUP.name][self._name]
            self._complaint = ''
        except ValueError as exc:
            if self._value is None:
                raise
            if self._complaint != str(exc):
                self._complaint = str(exc)
                LOG.error(
                    '[numa_guard] %s is bad, and %r is used instead: %s',
                    self._name,
                    self._value,
                    exc,
                )
        assert self._value is not None
        return self._value


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """The options, as oslo-config-generator asks for them."""
    return [(GROUP, SCHEDULER_OPTS + COMPUTE_OPTS)]
