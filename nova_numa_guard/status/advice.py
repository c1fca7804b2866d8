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

"""What an operator is told of the guests that were found.

Pure: findings in, text out.
"""

from collections.abc import Iterable, Sequence

from oslo_upgradecheck import upgradecheck

from nova_numa_guard import leaving
from nova_numa_guard.status import stage

Code, Result = upgradecheck.Code, upgradecheck.Result
Stage = stage.Stage
State, Trace = leaving.State, leaving.Trace

_SEVERITY = {
    Trace.UNBOUND: Code.FAILURE,
    Trace.UNREADABLE: Code.FAILURE,
    Trace.CONFINED: Code.WARNING,
    Trace.PREFERRED: Code.SUCCESS,
    Trace.NONE: Code.SUCCESS,
}

_HEADINGS = {
    Trace.UNBOUND: "Nova's own driver cannot live-migrate these servers, "
    'because their <numatune> lacks <memory> or a <memnode>:',
    Trace.UNREADABLE: 'It could not be found out whether Nova alone can '
    'live-migrate these servers:',
    Trace.CONFINED: 'These servers without a NUMA topology are confined to '
    'some cells of the host, and Nova alone would live-migrate them with '
    'that:',
    Trace.PREFERRED: 'These servers take their memory from their cells by '
    'preference, where Nova would bind it. Nova alone can live-migrate them, '
    'and nothing has to be done:',
}

_MIGRATE = (
    'live-migrate it (openstack server migrate --live-migration --host HOST '
    "UUID) to a host that has numatune = stock or Nova's own driver: it "
    'arrives with what Nova writes'
)
_REBOOT = 'hard-reboot it (openstack server reboot --hard UUID)'

# What makes the XML of a running guest Nova's again.
_RUNNING = {
    Stage.GUARDED: f'{_MIGRATE}. A hard reboot helps only once nova-compute '
    'has been restarted with [numa_guard] numatune = stock',
    Stage.STOCK: f'{_MIGRATE}; or {_REBOOT}',
    Stage.LEFT: f"{_REBOOT}. To live-migrate it instead, set the guard's "
    'compute_driver again, and restart nova-compute',
    Stage.UNKNOWN: f"while nova-compute has the guard's driver, {_MIGRATE}. "
    "Or, once it has numatune = stock or Nova's own driver, "
    f'{_REBOOT}',
}

# Nothing of it depends on numatune.
_CONFINED = (
    "while nova-compute has the guard's driver, live-migrate it; or, once it "
    f"has isolation = none or Nova's own driver, {_REBOOT}"
)

_STEPS = {
    State.SUSPENDED: 'suspended: resume it first (openstack server resume '
    'UUID); it comes back as it was, and then counts as running. A hard '
    'reboot would lose the memory that is saved',
    State.RESCUED: 'in rescue: unrescue it first (openstack server unrescue '
    'UUID); it comes back as it was, and then counts as running',
}

_UNREADABLE = (
    'Run this as root. If it still cannot be read: what virsh '
    'managedsave-dumpxml UUID shows of a suspended server, or unrescue.xml in '
    'the folder of one in rescue, has to have <memory mode="strict" in its '
    '<numatune>'
)


def result(
    findings: Sequence[leaving.Finding], host: stage.Stage
) -> upgradecheck.Result:
    """The result of the check.

    :param host: how far its host is
    """
    lines: list[str] = []
    for trace, heading in _HEADINGS.items():
        found = [each.kept for each in findings if each.trace is trace]
        if found:
            lines += [heading, *map(_line, found)]
            lines += _advice(trace, {kept.state for kept in found}, host)
    code = max(
        (_SEVERITY[each.trace] for each in findings), default=Code.SUCCESS
    )
    return Result(code, '\n'.join(lines) or None)


def _line(kept: leaving.Kept) -> str:
    # The server's own name is its owner's choice, whatever that holds.
    reason = f': {" ".join(kept.error.split())}' if kept.error else ''
    return f'- {kept.uuid} {kept.name} {kept.state.value}{reason}'


def _advice(
    trace: leaving.Trace, states: set[leaving.State], host: stage.Stage
) -> Iterable[str]:
    if trace is Trace.PREFERRED:
        return
    if trace is Trace.UNREADABLE:
        yield f'{_UNREADABLE}.'
        return
    steps = _CONFINED if trace is Trace.CONFINED else _RUNNING[host]
    yield f'running or paused: {steps}.'
    for state, step in _STEPS.items():
        if state in states:
            yield f'{step}.'
