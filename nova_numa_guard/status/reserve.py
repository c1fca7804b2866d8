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

"""Whether Nova leaves to others the huge pages that others hold."""

from collections.abc import Iterable, Mapping

from oslo_upgradecheck import upgradecheck

from nova_numa_guard import accounting, availability, domain, pools, reserve
from nova_numa_guard.status import checks, host, options

Code, Result = upgradecheck.Code, upgradecheck.Result


class ReserveCheck:
    """``reserved_huge_pages`` against what no guest of Nova's claims.

    :param here: the host
    """

    name = 'Huge pages that others hold'

    def __init__(self, here: host.Host) -> None:
        self._here = here

    def run(self) -> upgradecheck.Result:
        conf = self._here.conf
        try:
            reserved = reserve.read(conf.reserved_huge_pages or ())
        except ValueError as exc:
            return Result(
                Code.FAILURE,
                f'[DEFAULT] reserved_huge_pages: {exc}\n'
                'nova-compute fails of it.',
            )
        claims = list(_claims(self._here.running))
        try:
            found = self._here.kernel.pools()
        except pools.UnreadableError as exc:
            raise checks.CannotCheckError(str(exc)) from exc
        # All that a guest claims counts as Nova's: one at rest holds it.
        counted = {claim.uuid: claim.by_pool for claim in claims}
        others = accounting.outsiders(claims, counted, {}, (), found)
        few = list(_too_few(found, others, reserved))
        if few:
            few.append(_advice(options.value(conf, 'accounting')))
        many = list(_too_many(found, reserved))
        if few or many:
            return Result(Code.WARNING, '\n'.join([*few, *many]))
        return Result(Code.SUCCESS)


def _claims(
    running: Iterable[host.Running],
) -> Iterable[availability.Claim]:
    for each in running:
        if not each.novas:
            continue
        needs, anywhere = domain.claim(
            domain.read(each.root), pools.SMALL_PAGE
        )
        yield availability.Claim(
            uuid=each.uuid,
            domain_id=0,
            name=each.name,
            needs=needs,
            anywhere=anywhere,
        )


def _too_few(
    found: Iterable[availability.Pool],
    others: Mapping[availability.Key, int],
    reserved: Mapping[availability.Key, int],
) -> Iterable[str]:
    for pool in found:
        key = pool.node, pool.page_size
        if others.get(key, 0) > reserved.get(key, 0):
            yield (
                f'Node {pool.node}, pages of {pool.page_size} KiB: '
                f'{others[key]} are held by others than Nova, and '
                f'{reserved.get(key, 0)} are reserved. For nova.conf: '
                f'reserved_huge_pages = node:{pool.node},'
                f'size:{pool.page_size},count:{others[key]}'
            )


def _too_many(
    found: Iterable[availability.Pool],
    reserved: Mapping[availability.Key, int],
) -> Iterable[str]:
    totals = {
        (pool.node, pool.page_size): pool.total - pool.surplus
        for pool in found
    }
    for (node, size), pages in sorted(reserved.items()):
        total = totals.get((node, size))
        if total is None:
            yield (
                f'reserved_huge_pages has {pages} pages of {size} KiB on node '
                f'{node}, but the host has no such pool.'
            )
        elif pages > total:
            yield (
                f'reserved_huge_pages has {pages} pages of {size} KiB on node '
                f'{node}, but its pool has {total}.'
            )


def _advice(accounting_on: bool) -> str:
    if accounting_on:
        return (
            'While the others run, the guard tells Nova of what they hold '
            '([numa_guard] accounting). While they do not, as after the host '
            'has booted, only what is reserved is kept for them.'
        )
    return (
        '[numa_guard] accounting is off, so Nova believes that its guests '
        'can have all that is not reserved.'
    )
