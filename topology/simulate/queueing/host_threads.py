"""The threads that share the cores of a host: those of brokers, with the rules of `broker_thread`, and of clients."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from topology.simulate.input.layout import LocalClients
from topology.simulate.queueing.broker_thread import GRAINS_A_US, JOBS_A_TURN, WAIT_US_MAX, Costs
from topology.simulate.queueing.write_queue import WriteQueue


class HostRow(NamedTuple):
    """The given values of a job of any broker of the host."""

    at_us: Any
    base_us: Any
    deliveries: Any
    topic: Any
    size: Any
    clients: Any
    batch_us: Any
    broker: Any
    publication: Any
    kind: Any
    source: Any
    copies: Any


class Job:
    """One row, and its result. It came `late_us` after `at_us`: its message waited so long at other brokers."""

    __slots__ = ("begun_us", "cost_us", "first", "from_us", "is_done", "last", "late_us", "relayed_us", "row", "to_us")

    def __init__(self, row: HostRow) -> None:
        self.row = row
        self.late_us = self.begun_us = self.relayed_us = self.from_us = self.to_us = self.cost_us = 0.0
        self.first = self.last = 0.0
        self.is_done = False

    def told(self) -> tuple[float, float, float, float, float]:
        """The result with the columns of `broker_thread.Done`. `late_us` is subtracted from its times."""
        late = self.late_us
        return self.begun_us - late, self.relayed_us - late, self.from_us - late, self.to_us - late, self.cost_us


class BrokerThread:
    """A turn of this thread does jobs, and then one part of the waiting writes."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._line = WriteQueue(costs.write_us)
        self._writing: list[Job] = []
        self._done_us = -inf
        self._wait_us = 0.0
        self.inbox: deque[Job] = deque()
        self.is_at_rest = True

    @property
    def wants_core(self) -> bool:
        return bool(self.inbox) or not self._line.is_empty

    def come(self, job: Job, now_us: float) -> None:
        costs, row = self._costs, job.row
        if self.is_at_rest:
            idle_us = min(max(0.0, now_us - self._done_us), WAIT_US_MAX)
            self._wait_us = _exact(idle_us * (costs.wait_us_per_ms / 1000))
        kb_us = row.deliveries * row.size * (costs.write_kb_us / 1000)
        work_us = _exact(costs.turn_us + row.batch_us) + self._work_us(row)
        self._done_us = now_us + work_us + row.deliveries * costs.write_us + kb_us
        self.inbox.append(job)

    def turn(self, now_us: float) -> tuple[float, list[Job], list[Job]]:
        """Returns the end of the turn, the jobs whose copies have left, and the jobs that are written."""
        jobs = [self.inbox.popleft() for _ in range(min(len(self.inbox), JOBS_A_TURN))]
        if jobs:
            now_us = self._do(jobs, now_us)
        written = [job for job in jobs if not job.row.deliveries]
        self._writing += (job for job in jobs if job.row.deliveries)
        if not self._line.is_empty:
            now_us = self._line.write(now_us, now_us)
            written += self._written()
        return now_us, jobs, written

    def _do(self, jobs: Sequence[Job], now_us: float) -> float:
        costs = self._costs
        once_us = _exact(costs.turn_us + max(job.row.batch_us for job in jobs)) + self._wait_us
        self._wait_us = 0.0
        now_us += once_us
        for job in jobs:
            row = job.row
            work_us = self._work_us(row)
            job.begun_us = now_us
            now_us += work_us
            job.cost_us = once_us / len(jobs) + work_us
            if row.deliveries:
                kb_us = row.deliveries * row.size * costs.write_kb_us / 1000
                job.first, job.last, grown = self._line.put(row.topic, row.deliveries, row.clients, kb_us)
                job.cost_us += grown * costs.write_us + kb_us
        for job in jobs:
            job.relayed_us = job.from_us = job.to_us = now_us
        return now_us

    def _work_us(self, row: HostRow) -> float:
        return _exact(float(row.base_us + row.deliveries * self._costs.delivery_us))

    def _written(self) -> list[Job]:
        """The jobs with all of their deliveries written."""
        line = self._line
        done = [job for job in self._writing if job.last <= line.written]
        if done:
            self._writing = [job for job in self._writing if job.last > line.written]
            first, last = np.array([job.first for job in done]), np.array([job.last for job in done])
            for job, from_us, to_us in zip(done, *line.times(first, last), strict=True):
                job.from_us, job.to_us = float(from_us), float(to_us)
        line.forget(min((job.first for job in self._writing), default=line.written))
        return done


class ClientsThread:
    """Publishes and reads. A delivery has arrived when this thread reads it."""

    def __init__(self, clients: LocalClients) -> None:
        self._clients = clients
        self._inbox: deque[tuple[float, Job, bool]] = deque()
        self.is_at_rest = True

    @property
    def wants_core(self) -> bool:
        return bool(self._inbox)

    def wake(self, now_us: float, job: Job, *, is_read: bool) -> None:
        """The deliveries of a job can be read; or a message is to be published, which becomes a job."""
        self._inbox.append((now_us, job, is_read))

    def turn(self, now_us: float) -> tuple[float, list[Job]]:
        """Returns the end of the turn, and the jobs whose deliveries were read."""
        clients, read = self._clients, []
        for woken_us, job, is_read in self._inbox:
            if is_read:
                wait_us = now_us - woken_us
                job.from_us += wait_us
                job.to_us += wait_us
                now_us += job.row.deliveries * clients.share * clients.message_us
                read.append(job)
            else:
                now_us += clients.message_us
        self._inbox.clear()
        return now_us, read


class OthersThread:
    """Clients that look for deliveries from time to time: a write to them does not wake them."""

    def __init__(self, clients: LocalClients) -> None:
        self._work_us, self._every_us = clients.others_us, clients.others_every_us
        self.due_us = clients.others_every_us
        self.wants_core = False
        self.is_at_rest = True

    def wake(self) -> None:
        """It is time to look."""
        self.due_us += self._every_us
        self.wants_core = True

    def turn(self, now_us: float) -> float:
        """Returns the end of the turn."""
        self.wants_core = False
        return now_us + self._work_us


def _exact(us: float) -> float:
    return round(us * GRAINS_A_US) / GRAINS_A_US
