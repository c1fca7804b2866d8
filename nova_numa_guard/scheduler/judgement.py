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
    room,
)
from nova_numa_guard.scheduler import host_states

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)


# Not frozen, as little as what occupancy makes for each host.
@dataclasses.dataclass(slots=True)
class Look:
    """What was found of one host, and what holds for it.

    :param record: what the host has reported
    :param present: the guests on it
    :param rule: what is to be kept apart on it
    :param unreported: what is believed of hosts that have reported nothing
    """

    record: report.Report | None
    present: occupancy.HostContent
    rule: 'Rule'
    unreported: occupancy.Correction


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """What holds for the hosts of some aggregates.

    :param decision: whose word counts there
    :param policy: the same, as hosts are judged by it
    :param aggregates: kept, so that no other has the id of one of them
    """

    decision: policies.Decision
    policy: isolation.Policy
    aggregates: tuple[Any, ...]


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
            kind=host_states.kind_of(spec_obj),
            tied=bool(spec_obj.numa_topology),
            need=room.Need(spec_obj.memory_mb, spec_obj.vcpus),
            lenient=(
                self._on_moves.value == 'prefer'
                and host_states.is_move(spec_obj)
            ),
            configured=isolation.Isolation(CONF.numa_guard.isolation),
            enforce=self._mode.value == 'enforce',
            mixed_hosts=isolation.MixedHosts(self._mixed_hosts.value),
            unreported=host_states.assumed(),
        )

    def complain(self, host: str, *complaints: str) -> None:
        """Warn once of what is wrong with a host."""
        if (host, *complaints) not in self._complaints:
            self._complaints.add((host, *complaints))
            LOG.warning('NUMA guard, host %s: %s', host, '; '.join(complaints))


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """A request, and the options that hold for it.

    To read an option, or a field of the request, takes longer than to judge a
    host.

    :param tied: whether the guest has a NUMA topology
    :param need: what it asks for
    :param configured: the scheduler's own isolation
    :param lenient: whether a host of the wrong kind is better than none
    :param unreported: what is believed of hosts that have reported nothing
    """

    judge: Judge
    kind: guests.Kind | None
    tied: bool
    need: room.Need
    lenient: bool
    configured: isolation.Isolation
    enforce: bool
    mixed_hosts: isolation.MixedHosts
    unreported: occupancy.Correction
    rules: dict[tuple[object, ...], Rule] = dataclasses.field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def look(self, host_state: Any) -> Look:
        """Find out what there is to be known of one host.

        :raises Exception: the host is not what Nova makes them
        """
        record = host_states.report_of(host_state)
        return Look(
            record,
            host_states.content_of(host_state, record, self.unreported),
            self._rule(host_state, record),
            self.unreported,
        )

    def kind_fits(self, look: Look) -> isolation.Verdict:
        """Whether the guest is of a kind that may join the host."""
        return isolation.judge(self.kind, look.present, look.rule.policy)

    def fits(self, host_state: Any, look: Look) -> isolation.Verdict:
        """Whether it may join, and has room there.

        :raises Exception: the host is not what Nova makes them
        """
        verdict = self.kind_fits(look)
        # A host of the wrong kind that may be kept for a move needs room too.
        if self.tied or not (verdict.passes or self.lenient):
            return verdict
        return (
            host_states.judge_room(
                host_state,
                self.need,
                look.record,
                look.present,
                self.unreported,
            )
            or verdict
        )

    def _rule(self, host_state: Any, record: report.Report | None) -> Rule:
        """What holds for a host: it is settled once for all that are alike."""
        compute = last = None
        if record:
            compute, last = record.isolation, record.dominant
        key = compute, last, *map(id, host_state.aggregates)
        rule = self.rules.get(key)
        if rule is None:
            decision = policies.decide(
                self.configured,
                self.enforce,
                host_states.wishes_of(host_state),
                compute,
            )
            policy = isolation.Policy(
                decision.isolation, self.mixed_hosts, decision.accepts, last
            )
            rule = self.rules[key] = Rule(
                decision, policy, tuple(host_state.aggregates)
            )
        if rule.decision.conflicts:
            self.judge.complain(host_state.host, *rule.decision.conflicts)
        return rule


def name(spec_obj: Any) -> str:
    """What a guest is called in the log."""
    try:
        kind: guests.Kind | None = host_states.kind_of(spec_obj)
        word = kind.value if kind else 'exempt'
    except Exception:
        word = 'unreadable'
    return f'{word} guest {getattr(spec_obj, "instance_uuid", None)}'
