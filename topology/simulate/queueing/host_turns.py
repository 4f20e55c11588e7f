"""Brokers of one host with fewer cores than brokers: a thread with something to do waits for a core.

A thread that is woken up, or has more to do after its turn, waits behind the other threads that wait for a core. So the
wait is longest if one message wakes several brokers at once. A copy from one broker of the host to another arrives when
it has left the first: so the second broker is woken up later by the time that the first one waited.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from math import inf

import numpy as np

from topology.simulate.input.layout import SharedHost
from topology.simulate.queueing.broker_thread import Costs, Done
from topology.simulate.queueing.host_threads import BrokerThread, ClientsThread, HostRow, Job, OthersThread
from topology.simulate.spark.schemas import JobKind

FOLLOWING = frozenset((JobKind.RELAYED, JobKind.PASSED_ON, JobKind.FROM_ROOT))
"""Kinds of jobs for a copy that another broker has sent."""
LEFT_MAX = 100_000
"""The greatest number of remembered messages that have copies at brokers of other hosts."""

Thread = BrokerThread | ClientsThread | OthersThread


class HostTurns:
    """Give `take` rows of all brokers of the host, sorted by `at_us`, in chunks of any size; then call `end`.

    Both return results of the first rows that were not returned before.
    """

    def __init__(self, host: SharedHost, costs: Costs, left_max: int = LEFT_MAX) -> None:
        self._brokers = {number: BrokerThread(costs) for number in host.brokers}
        clients = host.clients
        self._clients = ClientsThread(clients) if clients is not None else None
        self._others = OthersThread(clients) if clients is not None and clients.others_us else None
        self._free_cores = host.cores
        self._wanting: deque[Thread] = deque()
        self._events: list[tuple[float, int, Thread, Job | None]] = []
        """A job comes to a thread, which does it or reads its deliveries. Without a job, the thread's turn ends."""
        self._events_ever = 0
        self._left: dict[tuple[int, int], tuple[float, int]] = {}
        """For messages that a broker has sent on: how late, and the number of copies that no row was found for yet."""
        self._left_max = left_max
        self._behind: dict[tuple[int, int], list[Job]] = {}
        """Copies that wait for another broker to send them."""
        self._untold: deque[Job] = deque()

    def take(self, rows: Sequence[HostRow]) -> Done:
        for row in rows:
            self._until(row.at_us)
            job = Job(row)
            self._untold.append(job)
            self._come(job)
        return self._told()

    def end(self) -> Done:
        """There are no more rows: returns all results that are left."""
        self._until(inf)
        alone = [job for jobs in self._behind.values() for job in jobs]
        for job in sorted(alone, key=lambda each: each.row.at_us):
            self._push(job.row.at_us, self._brokers[job.row.broker], job)
        self._until(inf)
        return self._told()

    def _come(self, job: Job) -> None:
        row = job.row
        if row.kind in FOLLOWING and row.source in self._brokers:
            sent = row.publication, row.source
            if sent not in self._left:
                self._behind.setdefault(sent, []).append(job)
                return
            job.late_us, others = self._left[sent]
            if others > 1:
                self._left[sent] = job.late_us, others - 1
            else:
                del self._left[sent]
        self._push(row.at_us + job.late_us, self._brokers[row.broker], job)

    def _until(self, end_us: float) -> None:
        """Handles all events before this time."""
        events, others = self._events, self._others
        while events and events[0][0] < end_us:
            if others is not None and others.due_us <= events[0][0]:
                now_us = others.due_us
                others.wake()
                self._want(others)
            else:
                now_us, _, thread, job = heapq.heappop(events)
                self._happen(thread, job, now_us)
            while self._free_cores and self._wanting:
                self._free_cores -= 1
                self._run(self._wanting.popleft(), now_us)

    def _happen(self, thread: Thread, job: Job | None, now_us: float) -> None:
        if job is None:
            self._free_cores += 1
            thread.is_at_rest = True
            self._want(thread)
        elif isinstance(thread, BrokerThread):
            self._come_to(thread, job, now_us)
        elif isinstance(thread, ClientsThread):
            thread.wake(now_us, job, is_read=True)
            self._want(thread)

    def _come_to(self, broker: BrokerThread, job: Job, now_us: float) -> None:
        broker.come(job, now_us)
        self._want(broker)
        if self._clients is not None and job.row.kind == JobKind.PUBLISHED:
            self._clients.wake(now_us, job, is_read=False)
            self._want(self._clients)

    def _want(self, thread: Thread) -> None:
        if thread.is_at_rest and thread.wants_core:
            thread.is_at_rest = False
            self._wanting.append(thread)

    def _run(self, thread: Thread, now_us: float) -> None:
        if isinstance(thread, BrokerThread):
            ends_us, went_on, written = thread.turn(now_us)
            for job in went_on:
                self._leave(job)
            for job in written:
                self._write(job)
        elif isinstance(thread, ClientsThread):
            ends_us, read = thread.turn(now_us)
            for job in read:
                job.is_done = True
        else:
            ends_us = thread.turn(now_us)
        self._push(ends_us, thread, None)

    def _leave(self, job: Job) -> None:
        """The copies of a job, if it has any, go to other brokers."""
        row = job.row
        if not row.copies or row.topic < 0:
            return
        sent, late_us = (row.publication, row.broker), job.relayed_us - row.at_us
        followers = self._behind.pop(sent, [])
        for each in followers:
            each.late_us = late_us
            self._push(each.row.at_us + late_us, self._brokers[each.row.broker], each)
        if row.copies > len(followers):
            self._left[sent] = late_us, row.copies - len(followers)
            if len(self._left) > self._left_max:
                del self._left[next(iter(self._left))]

    def _write(self, job: Job) -> None:
        """A job is done when it is written; if its clients are on this host, when they have read it."""
        if self._clients is not None and job.row.deliveries:
            self._push(job.to_us, self._clients, job)
        else:
            job.is_done = True

    def _push(self, at_us: float, thread: Thread, job: Job | None) -> None:
        self._events_ever += 1
        heapq.heappush(self._events, (at_us, self._events_ever, thread, job))

    def _told(self) -> Done:
        found = []
        while self._untold and self._untold[0].is_done:
            found.append(self._untold.popleft().told())
        columns = zip(*found, strict=True) if found else [()] * len(Done._fields)
        return Done(*(np.array(column, dtype=np.float64) for column in columns))
