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

"""Whether the host can be isolated by cell, as it is configured."""

from collections.abc import Sequence

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_numa_guard import cells, domain, host_cells, pools, sets
from nova_numa_guard.status import checks, host, options

Code, Result = upgradecheck.Code, upgradecheck.Result


class CellCheck:
    """What nova-compute looks at when it starts with ``isolation = cell``.

    :param here: the host
    """

    name = 'Isolation by cell'

    def __init__(self, here: host.Host) -> None:
        self._here = here

    def run(self) -> upgradecheck.Result:
        conf = self._here.conf
        by_cell = options.value(conf, 'isolation') == 'cell'
        text = options.value(conf, 'floating_cells')
        try:
            wanted = sets.parse(text) if text else frozenset()
            cpu_sets = _cpu_sets(conf)
        except ValueError as exc:
            return Result(
                Code.FAILURE if by_cell else Code.WARNING,
                f'{exc}\nCorrect it, or nova-compute does not start.',
            )
        found = self._here.numa_cells(cpu_sets)
        if not by_cell and not wanted:
            return Result(Code.SUCCESS, '\n'.join(_possible(found)) or None)
        problems = cells.contradictions(wanted, found)
        if problems:
            return Result(
                Code.FAILURE if by_cell else Code.WARNING,
                '\n'.join(
                    [
                        *(f'{each}.' for each in problems),
                        'nova-compute does not start with that.'
                        if by_cell
                        else 'nova-compute would not start with isolation = '
                        'cell. Until then floating_cells has no effect.',
                    ]
                ),
            )
        if not by_cell:
            return Result(Code.SUCCESS)
        return self._inhabited(wanted, found)

    def _inhabited(
        self, wanted: frozenset[int], found: Sequence[cells.HostCell]
    ) -> upgradecheck.Result:
        """What nova-compute warns of when it starts."""
        lines = [
            f'- {each.uuid} {each.name}'
            for each in self._here.running
            if each.novas
            and any(
                memnode.nodes & wanted
                for memnode in domain.read(each.root).memnodes.values()
            )
        ]
        if lines:
            lines = [
                f'These servers with a NUMA topology are on floating cells '
                f'{sets.text(wanted)}, where floating guests may take memory '
                'that they need:',
                *lines,
                'Live-migrate them (openstack server migrate '
                '--live-migration UUID).',
            ]
        lines += self._overcommitted(wanted, found)
        if lines:
            return Result(Code.WARNING, '\n'.join(lines))
        return Result(Code.SUCCESS)

    def _overcommitted(
        self, wanted: frozenset[int], found: Sequence[cells.HostCell]
    ) -> list[str]:
        conf = self._here.conf
        ratio = conf.ram_allocation_ratio or conf.initial_ram_allocation_ratio
        if ratio <= 1:
            return []
        try:
            swap = self._here.kernel.swap()
        except pools.UnreadableError as exc:
            raise checks.CannotCheckError(str(exc)) from exc
        if swap:
            return []
        memory = sum(cell.small_memory for cell in found if cell.id in wanted)
        return [
            f'Floating cells {sets.text(wanted)} have {memory} MiB, of which '
            f'ram_allocation_ratio = {ratio:g} gives out '
            f'{int(memory * ratio)}, and the host has no swap: the kernel '
            'kills guests when they use it. Add swap, or set '
            'ram_allocation_ratio = 1.'
        ]


def _cpu_sets(conf: cfg.ConfigOpts) -> host_cells.CPUSets:
    """The CPUs that the configuration names.

    :raises ValueError: they are none
    """
    # It takes a second, and not every check needs it.
    from nova import exception
    from nova.virt import hardware

    found: dict[str, frozenset[int] | None] = {}
    for name in ('cpu_shared_set', 'cpu_dedicated_set'):
        text = conf.compute[name]
        try:
            found[name] = (
                frozenset(hardware.parse_cpu_spec(text)) if text else None
            )
        except exception.Invalid as exc:
            raise ValueError(f'[compute] {name}: {exc}') from exc
    return host_cells.CPUSets(
        found['cpu_shared_set'], found['cpu_dedicated_set']
    )


def _possible(found: Sequence[cells.HostCell]) -> list[str]:
    """For each cell, whether it could be the floating one."""
    if len(found) < 2:
        return [
            'isolation = cell is not possible here: the host has '
            f'{len(found)} NUMA cell, and one of each kind is needed.'
        ]
    lines = []
    for cell in found:
        problems = cells.contradictions({cell.id}, found)
        lines.append(
            f'floating_cells = {cell.id} would contradict: '
            f'{"; ".join(problems)}'
            if problems
            else f'floating_cells = {cell.id} would be possible: '
            f'{len(cell.shared_cpus)} CPUs that guests share, '
            f'{cell.small_memory} MiB of small pages.'
        )
    return lines
