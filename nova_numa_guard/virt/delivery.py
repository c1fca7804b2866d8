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

"""Put a refusal into the scheduler's hands, and do not do it too often."""

from collections.abc import Callable, Mapping
import threading
import time
from typing import Any

from nova import context as nova_context
import nova.conf
from oslo_log import log as logging

from nova_numa_guard import refusals, report

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

# Seconds. At most one write is asked for in each.
INTERVAL = 5.0
# Seconds after which a record that a build left in the tracker has to be in
# the database. So it is there within INTERVAL if it has to be written after
# all.
CHECK = INTERVAL / 2


class Delivery:
    """What one compute host tells the scheduler between two audits.

    Nova writes a ComputeNode whenever a claim begins or ends, with the stats
    that its tracker holds. So of a build it is enough to leave the record
    there before the build is refused: the claim that is given up takes it
    along. Anything else asks Nova's tracker for an audit, from a thread of
    its own that ends when there is nothing to do: an audit holds the lock
    that all claims need, and may be what the caller is part of.

    :param virtapi: of the driver; the tracker is found through it
    :param refused: where a refusal is remembered
    :param refresh: makes the record anew; None if there is none yet
    :param clock: seconds
    :param spawn: runs a function in a thread
    :param wait: for a change of the condition, or seconds
    """

    def __init__(
        self,
        virtapi: Any,
        refused: refusals.Refusals,
        refresh: Callable[[], str | None],
        clock: Callable[[], float] = time.monotonic,
        spawn: Callable[[Callable[[], None]], None] | None = None,
        wait: Callable[
            [threading.Condition, float], object
        ] = threading.Condition.wait,
    ) -> None:
        self._virtapi = virtapi
        self._refused = refused
        self._refresh = refresh
        self._clock = clock
        self._spawn = spawn or _spawn
        self._wait = wait
        self._changed = threading.Condition()
        self._working = False
        self._wanted = False
        self._may_write = float('-inf')
        self._left: tuple[float, str] | None = None  # since when, which record

    def refused(
        self, pools: Mapping[tuple[int, int], int], build: bool
    ) -> tuple[refusals.Refusal, ...]:
        """Remember a refusal, and have the scheduler know it within INTERVAL.

        Call it before the refusal is raised. Never raises itself.

        :param pools: the free pages of those that were too small, by node and
            page size in KiB
        :param build: whether an instance's claim is given up for it: at a
            build or an unshelving
        :returns: those that did not hold before, of which others may be told
            without telling them of each refusal
        """
        ttl = CONF.numa_guard.refusal_ttl
        if ttl <= 0:
            return ()
        fresh = self._refused.add(pools, time.time(), ttl)
        tracker = self._tracker()
        if tracker is None:
            return fresh
        try:
            left = build and self._leave(tracker)
        except Exception as exc:
            # The refusal has to be raised, whatever is in the way of its news.
            LOG.warning('The scheduler does not know a refusal yet: %s', exc)
            left = False
        if not left:
            self.request_audit()
        return fresh

    def request_audit(self) -> None:
        """Have Nova's tracker look at this host soon, and report it."""
        if self._tracker() is None:
            return
        with self._changed:
            self._wanted = True
            self._work()

    def stop(self) -> None:
        """Let an audit end that is under way, and begin no other.

        Until it is asked for again: the service may be started again. Waits
        for INTERVAL at most.
        """
        until = self._clock() + INTERVAL
        with self._changed:
            self._wanted, self._left = False, None
            self._changed.notify_all()
            while self._working and (left := until - self._clock()) > 0:
                self._wait(self._changed, left)

    def _tracker(self) -> Any:
        """nova.compute.resource_tracker.ResourceTracker.

        Nova makes it after the driver, and has no other way to it.
        """
        manager = getattr(self._virtapi, '_compute', None)
        tracker = getattr(manager, 'rt', None)
        if tracker is None:
            LOG.debug('There is no tracker that could report a refusal')
        return tracker

    def _leave(self, tracker: Any) -> bool:
        """Leave the record in the tracker's stats, if one may be written now.

        The stats are a plain dict, of which the tracker makes a copy for the
        ComputeNode under its lock, when the claim is given up.
        """
        with self._changed:
            now = self._clock()
            if now < self._may_write:
                return False
            record = self._refresh()
            if record is None:
                return False
            for node in list(tracker.compute_nodes):
                tracker.stats[node][report.STATS_KEY] = record
            self._may_write = now + INTERVAL
            self._left = now, record
            self._work()
            return True

    def _work(self) -> None:
        """See to it that somebody works; under the lock."""
        if self._working:
            self._changed.notify_all()
            return
        self._working = True
        try:
            self._spawn(self._run)
        except RuntimeError as exc:  # "can't start new thread"
            self._working = False
            LOG.warning('The scheduler does not know a refusal yet: %s', exc)

    def _run(self) -> None:
        while True:
            with self._changed:
                due = self._due()
                if due is None:
                    self._working = False
                    self._changed.notify_all()
                    return
                left = due - self._clock()
                if left > 0:
                    self._wait(self._changed, left)
                    continue
                audit = self._take()
            if audit:
                self._audit()

    def _due(self) -> float | None:
        """When there is something to do; None if there is nothing."""
        times = [self._may_write] if self._wanted else []
        if self._left is not None:
            times.append(self._left[0] + CHECK)
        return min(times, default=None)

    def _take(self) -> bool:
        """Whether it is an audit that is due."""
        now, lost = self._clock(), False
        if self._left is not None and self._left[0] + CHECK <= now:
            # Not there if the claim is not given up yet, if an audit that had
            # begun before was in between, or for an evacuation.
            lost = not _is_saved(self._tracker(), self._left[1])
            self._left = None
        if not lost and not (self._wanted and self._may_write <= now):
            return False
        self._wanted = False
        self._may_write = now + INTERVAL
        return True

    def _audit(self) -> None:
        tracker = self._tracker()
        try:
            for node in list(tracker.compute_nodes):
                tracker.update_available_resource(
                    nova_context.get_admin_context(), node
                )
        except Exception as exc:
            # Of whatever Nova's audit does. The next one is a minute away.
            LOG.warning('The scheduler does not know a refusal yet: %s', exc)


def _spawn(function: Callable[[], None]) -> None:
    threading.Thread(
        target=function, name='numa-guard-delivery', daemon=True
    ).start()


def _is_saved(tracker: Any, record: str) -> bool:
    """Whether the refusals of a record are in what Nova has written last."""
    for node in list(tracker.compute_nodes):
        written = tracker.old_resources.get(node)
        stats = written.stats if written and 'stats' in written else None
        if not _holds(stats or {}, record):
            return False
    return True


def _holds(stats: Mapping[str, Any], record: str) -> bool:
    try:
        saved, wanted = map(
            report.decode, (stats.get(report.STATS_KEY), record)
        )
    except ValueError:
        return False
    if saved is None or wanted is None:
        return False
    ends = {
        (each.node, each.page_size): each.expires for each in saved.refused
    }
    return all(
        ends.get((each.node, each.page_size), 0) >= each.expires
        for each in wanted.refused
    )
