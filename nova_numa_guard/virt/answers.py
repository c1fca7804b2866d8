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

"""What comes of a check of pages: a start, a warning, or a refusal."""

from collections.abc import Iterable, Mapping
import dataclasses
from typing import Any

from nova import exception
from nova.compute import vm_states
from oslo_log import log as logging

from nova_numa_guard import (
    availability,
    facts,
    guests,
    metrics,
    reservations,
    standing,
)
from nova_numa_guard.virt import delivery, notification, refusal

LOG = logging.getLogger(__name__)

EVENT = 'compute_numa_guard_page_check'

# Of these Nova gives a claim up when they are refused.
_CLAIMED = (vm_states.BUILDING, vm_states.SHELVED_OFFLOADED)


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """What is to become of a start for which there are no pages.

    :param mode: enforce, warn or off
    :param option: that said so
    :param is_restart: of a guest that this host has already
    :param excuse: why it is not refused, whatever the mode; empty if it is
    """

    mode: str
    option: str
    is_restart: bool = False
    excuse: str = ''

    @property
    def refuses(self) -> bool:
        return self.mode == 'enforce' and not self.excuse

    @property
    def is_off(self) -> bool:
        return self.mode == 'off'


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """The pages of an instance are asked for.

    The instance itself is not in it: what is kept of a start must not be what
    keeps the instance.

    :param context: of Nova's request
    :param host: the name of this compute host
    :param needs: not empty; at most one entry per pool
    :param terms: not off
    """

    context: Any
    host: str
    needs: tuple[guests.PageNeed, ...]
    terms: Terms


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """A check that has been made.

    :param seconds: that it took, waiting not included
    :param found: what was found
    :param is_blind: there were no figures
    :param free: pages that the kernel has free, by pool
    """

    seconds: float
    found: reservations.Reservation
    is_blind: bool
    free: Mapping[facts.Key, int]


class Answers:
    """They are counted, logged and told to others.

    :param counts: where they are counted
    :param told: who tells the scheduler of refusals
    """

    def __init__(
        self, counts: metrics.Metrics, told: delivery.Delivery
    ) -> None:
        self.metrics = counts
        self._delivery = told

    def give(self, instance: Any, request: Request, check: Check) -> None:
        """Let a guest start, or refuse it.

        :raises nova.exception.GroupAffinityViolation: a build goes to the
            next host
        :raises nova.exception.ComputeResourcesUnavailable: any other start is
            given up
        """
        outcome, result = check.found.outcome, metrics.Result.PASSED
        terms = request.terms
        if check.found.waited:
            self.metrics.waited(check.found.waited)
        if outcome is None:
            if check.is_blind:
                self._count(metrics.Result.UNCHECKED, request, check)
            return
        for short in outcome.shortages:
            self.metrics.failed(short.page_size, short.node)
        shortage = lacking(check.found)
        if outcome.verdict is standing.Verdict.OVERCOMMITS:
            result = metrics.Result.OVERCOMMITTED
            LOG.warning(
                'Starting although the pools are too small, because the '
                'kernel may add to them (nr_overcommit_hugepages): %s',
                _text(outcome.shortages),
                instance=instance,
            )
        elif shortage and terms.refuses:
            self._count(metrics.Result.REFUSED, request, check)
            self._refuse(instance, request, check)
        elif shortage:
            result = metrics.Result.WARNED
            LOG.warning(
                'Starting although the kernel lacks pages, because %s; QEMU '
                'may fail: %s',
                terms.excuse
                or f'[numa_guard] {terms.option} is "{terms.mode}"',
                shortage,
                instance=instance,
            )
        self._count(result, request, check)

    def _count(
        self, result: metrics.Result, request: Request, check: Check
    ) -> None:
        sizes = frozenset(need.page_size for need in request.needs)
        self.metrics.checked(result, sizes, check.seconds)

    def _refuse(self, instance: Any, request: Request, check: Check) -> None:
        assert check.found.outcome is not None
        short = check.found.outcome.shortages
        free = {
            (each.node, each.page_size): check.free.get(
                (each.node, each.page_size), 0
            )
            for each in short
        }
        reason = _text(short)
        if check.found.waited >= 1:
            reason += f' (after {check.found.waited:.0f} s)'
        if check.found.outcome.verdict is standing.Verdict.UNCERTAIN:
            reason += ', while other guests are starting there'
        fresh = self._delivery.refused(
            free, build=instance.vm_state in _CLAIMED
        )
        error = refusal.refuse(
            request.context,
            instance,
            request.host,
            EVENT,
            reason,
            exception.ComputeResourcesUnavailable(
                reason=reason
            ).format_message(),
        )
        if fresh:
            notification.notify(
                request.context,
                instance,
                request.host,
                notification.payload(reason, short, free),
            )
        raise error


def lacking(found: reservations.Reservation) -> str:
    """For want of what a guest would have been refused; empty if not."""
    outcome = found.outcome
    if outcome is None or outcome.verdict in (
        standing.Verdict.FITS,
        standing.Verdict.OVERCOMMITS,
    ):
        return ''
    return _text(outcome.shortages)


def _text(shortages: Iterable[availability.Shortage]) -> str:
    return '; '.join(map(str, shortages))
