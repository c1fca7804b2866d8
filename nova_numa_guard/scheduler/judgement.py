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

"""The verdict on one host, which the filter and the weigher share."""

import dataclasses
from typing import Any

import nova.conf
from oslo_log import log as logging

from nova_numa_guard import (
    conf,
    guests,
    isolation,
    occupancy,
    policies,
    report,
)
from nova_numa_guard.scheduler import host_states

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Judgement:
    """What was found of one host, and what follows from it.

    :param enforce: whether a verdict that it does not pass counts
    :param isolation: in force on the host
    """

    verdict: isolation.Verdict
    enforce: bool
    isolation: isolation.Isolation
    present: occupancy.HostContent
    record: report.Report | None

    @property
    def removes(self) -> bool:
        """Whether the host may not have a guest that is new."""
        return self.enforce and not self.verdict.passes


class Judge:
    """Judges hosts by the scheduler's options and the hosts' own words."""

    def __init__(self) -> None:
        conf.validate(CONF)
        self._mode = conf.LiveOption(CONF, 'isolation_mode')
        self._mixed_hosts = conf.LiveOption(CONF, 'mixed_hosts')
        self._on_moves = conf.LiveOption(CONF, 'isolation_on_moves')
        self._complaints: set[tuple[str, ...]] = set()

    @property
    def mode(self) -> str:
        """What [numa_guard] isolation_mode says."""
        return self._mode.value

    def request(self, spec_obj: Any) -> 'Request':
        """Read what all hosts are judged by, once for a request.

        :raises Exception: the request is not what Nova makes them
        """
        return Request(
            judge=self,
            spec_obj=spec_obj,
            kind=host_states.kind_of(spec_obj),
            tied=bool(spec_obj.numa_topology),
            lenient=(
                self._on_moves.value == 'prefer'
                and host_states.is_move(spec_obj)
            ),
            configured=isolation.Isolation(CONF.numa_guard.isolation),
            enforce=self._mode.value == 'enforce',
            mixed_hosts=isolation.MixedHosts(self._mixed_hosts.value),
        )

    def complain(self, host: str, *complaints: str) -> None:
        """Warn once of what is wrong with a host."""
        if (host, *complaints) not in self._complaints:
            self._complaints.add((host, *complaints))
            LOG.warning('NUMA guard, host %s: %s', host, '; '.join(complaints))


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request, and the options that hold for it.

    To read an option takes longer than to judge a host.

    :param tied: whether the guest has a NUMA topology
    :param configured: the scheduler's own isolation
    :param lenient: whether a host of the wrong kind is better than none
    """

    judge: Judge
    spec_obj: Any
    kind: guests.Kind | None
    tied: bool
    lenient: bool
    configured: isolation.Isolation
    enforce: bool
    mixed_hosts: isolation.MixedHosts

    def of(self, host_state: Any, room: bool = True) -> Judgement:
        """Judge one host.

        :param room: whether to look if there is room as well
        :raises Exception: the host is not what Nova makes them
        """
        record = host_states.report_of(host_state)
        present = host_states.content_of(host_state, record)
        decision = policies.decide(
            self.configured,
            self.enforce,
            host_states.wishes_of(host_state),
            record.isolation if record else None,
        )
        if decision.conflicts:
            self.judge.complain(host_state.host, *decision.conflicts)
        verdict = isolation.judge(
            self.kind,
            present,
            isolation.Policy(
                decision.isolation,
                self.mixed_hosts,
                decision.accepts,
                record.dominant if record else None,
            ),
        )
        # A host of the wrong kind that may be kept for a move needs room too.
        if room and not self.tied and (verdict.passes or self.lenient):
            verdict = (
                host_states.judge_room(
                    host_state, self.spec_obj, record, present
                )
                or verdict
            )
        return Judgement(
            verdict, decision.enforce, decision.isolation, present, record
        )


def name(spec_obj: Any) -> str:
    """What a guest is called in the log."""
    try:
        kind: guests.Kind | None = host_states.kind_of(spec_obj)
        word = kind.value if kind else 'exempt'
    except Exception:
        word = 'unreadable'
    return f'{word} guest {getattr(spec_obj, "instance_uuid", None)}'
