"""The thread of one broker: it takes jobs that have arrived, does them, and writes their deliveries to connections.

It does what the broker's event loop does. When the thread is free, it begins a turn: it takes all jobs that have
arrived, at most `JOBS_A_TURN`, and does them one after the other (their base cost, and their deliveries into outboxes).
Connections with something in their outbox wait in a queue to be written (`write_queue`). Each is in it once, however
much is in its outbox, and the thread writes a bounded number of them before it looks for jobs again. So under more load
one write carries more deliveries. Copies to other brokers leave when the jobs of the turn are done, before the writes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from topology.simulate.queueing.write_queue import WriteQueue

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

JOBS_A_TURN = 64
"""As `openclust.shell.host.event_loop.EVENTS_AT_ONCE`."""
WAIT_US_MAX = 10_000.0
"""The caches of a broker that was idle for so long are as cold as after an hour."""
GRAINS_A_US = 1024
"""The cost of a job is rounded to this part of a microsecond: so its sums are exact, wherever the stream is cut."""


class Costs(NamedTuple):
    """In microseconds, as `calibration.Calibration` has them."""

    turn_us: float
    delivery_us: float
    write_us: float
    write_kb_us: float
    wait_us_per_ms: float = 0.0


class Jobs(NamedTuple):
    """Columns of jobs in the order of their arrival. `clients` is the number of connected clients at that time.

    `batch_us` is a cost that a turn has once, however many of its jobs have it: copies for the links, a write to disk.
    """

    at_us: Floats
    base_us: Floats
    deliveries: Floats
    topic: Floats
    size: Floats
    clients: Floats
    batch_us: Floats


class Done(NamedTuple):
    """Columns of finished jobs: the first of those that were not returned before, in the order of their arrival."""

    begun_us: Floats
    relayed_us: Floats
    writes_from_us: Floats
    writes_to_us: Floats
    cost_us: Floats


class _Taken(NamedTuple):
    """Jobs of past turns. Some of their writes may be due; where all times are known, the places are nan."""

    first: Floats
    last: Floats
    done: Done


class SimulatedThread:
    """Give `take` the jobs of one broker, sorted by `at_us`, in chunks of any size; then call `end`.

    Both return jobs that are done. All jobs together do not depend on the sizes of the chunks.
    """

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._line = WriteQueue(costs.write_us)
        self._free_us = 0.0
        self._done_us = -inf
        """The end of the last job, or its end if it had found the broker idle."""
        self._is_written = True
        """Whether the writes since the last turn are done, as far as there was time before the next turn."""
        self._waiting = Jobs(*_nothing(len(Jobs._fields)))
        self._taken = _Taken(np.empty(0), np.empty(0), Done(*_nothing(len(Done._fields))))

    def take(self, jobs: Jobs) -> Done:
        return self._work(jobs, is_end=False)

    def end(self) -> Done:
        """There are no more jobs: returns all that are left."""
        return self._work(Jobs(*_nothing(len(Jobs._fields))), is_end=True)

    def _work(self, jobs: Jobs, *, is_end: bool) -> Done:
        jobs = Jobs(*map(_behind, self._waiting, jobs))
        chunk = _Chunk(jobs, self._costs, self._done_us, is_end)
        count = self._turns(chunk, is_end)
        if count:
            self._done_us = float(chunk.done_us[count - 1])
        if is_end and not self._line.is_empty:
            self._free_us = self._line.write(self._free_us, inf)
        self._waiting = Jobs(*(column[count:] for column in jobs))
        new = chunk.taken(count)
        before = self._taken
        done = Done(*map(_behind, before.done, new.done))
        return self._written(_Taken(_behind(before.first, new.first), _behind(before.last, new.last), done))

    def _turns(self, chunk: _Chunk, is_end: bool) -> int:
        """Does the jobs that no later arrival can change, and returns their number."""
        at, line, free, is_written = chunk.at, self._line, self._free_us, self._is_written
        job, count = 0, len(at)
        turn: Callable[[int, int, float, bool], float] | None = None
        while job < count:
            if not is_written:
                if not line.is_empty:
                    free = line.write(free, at[job])
                is_written = True
            is_rested = free <= at[job]
            if is_rested:
                if not line.is_empty:
                    is_written = False
                    continue
                free = at[job]
                end = chunk.alone_until[job]
                if end > job:
                    free = chunk.alone_to(end)
                    job = end
                    continue
            end = job + 1
            if end == count or at[end] <= free:
                end = bisect_right(at, free, job, min(job + JOBS_A_TURN, count))
                if end == count and end < job + JOBS_A_TURN and not is_end:
                    break  # A later chunk may hold jobs of this turn.
            turn = turn or chunk.turns(line)
            free = turn(job, end, free, is_rested)
            is_written = False
            job = end
        self._free_us, self._is_written = free, is_written
        return job

    def _written(self, taken: _Taken) -> Done:
        """Returns the jobs up to the first that is not written; keeps the others."""
        first, last, done = taken
        line = self._line
        unwritten = np.flatnonzero(last > line.written)
        count = int(unwritten[0]) if len(unwritten) else len(last)
        placed = np.flatnonzero(~np.isnan(first[:count]))
        if len(placed):
            done.writes_from_us[placed], done.writes_to_us[placed] = line.times(first[placed], last[placed])
        kept = first[count:]
        line.forget(float(np.nanmin(kept)) if len(kept) else inf)
        self._taken = _Taken(kept, last[count:], Done(*(column[count:] for column in done)))
        return Done(*(column[:count] for column in done))


class _Chunk:
    """Some jobs of the stream. If one finds the broker idle and is written before the next, it is done at once."""

    def __init__(self, jobs: Jobs, costs: Costs, before_us: float, is_end: bool) -> None:
        at, base, deliveries, topic, size, clients, batch = jobs
        self._write_us = costs.write_us
        work = np.rint((base + deliveries * costs.delivery_us) * GRAINS_A_US) / GRAINS_A_US
        self._kb_us = deliveries * size * (costs.write_kb_us / 1000)
        self._writes_us = deliveries * costs.write_us + self._kb_us
        self._at = at
        self._sum = np.concatenate((np.zeros(1), np.cumsum(work)))
        # The cost of a turn that has this job only.
        self._once = np.rint((costs.turn_us + batch) * GRAINS_A_US) / GRAINS_A_US
        self.done_us = at + self._once + work + self._writes_us
        # The same if the broker was idle, for the time that it was.
        idle_us = np.clip(at - np.append(before_us, self.done_us[:-1])[: len(at)], 0, WAIT_US_MAX)
        self._wait = np.rint(idle_us * (costs.wait_us_per_ms / 1000) * GRAINS_A_US) / GRAINS_A_US
        self._once_alone = self._once + self._wait
        self._relayed = at + self._once_alone + work
        self._ends = self._relayed + self._writes_us
        next_at = np.append(at[1:], inf if is_end else -inf)[: len(at)]
        held = np.flatnonzero(self._ends > next_at)
        # For each job: the first job, from this one on, that is not done when the next one comes.
        after = np.append(held, len(at))
        self.alone_until: list[int] = after[np.searchsorted(held, np.arange(len(at)))].tolist()
        self.at: list[float] = at.tolist()
        self._columns = deliveries, topic, clients, self._kb_us, self._once, self._wait
        # Four numbers a turn: its first job, the job after its last, the time it began them, and the cost it has once.
        self._turns = array("d")
        self._firsts: list[float] = []
        self._lasts: list[float] = []
        self._grown: list[float] = []

    def alone_to(self, end: int) -> float:
        """The end of the last job before `end`, if each job before `end` found the broker idle."""
        return float(self._ends[end - 1])

    def turns(self, line: WriteQueue) -> Callable[[int, int, float, bool], float]:
        """Returns a function that does one turn, and returns its end without the writes.

        Its arguments are the first job, the job after the last, the time, and whether the broker was idle. It is made
        when the first turn needs it: this is most of the work.
        """
        count = len(self.at)
        all_deliveries, topics, clients, kb_us, once, wait = (each.tolist() for each in self._columns)
        sums = self._sum.tolist()
        self._firsts, self._lasts, self._grown = [np.nan] * count, [np.nan] * count, [0.0] * count
        firsts, lasts, grown, told, put = self._firsts, self._lasts, self._grown, self._turns.extend, line.put

        def turn(job: int, end: int, now_us: float, is_rested: bool) -> float:
            for each in range(job, end):
                deliveries = all_deliveries[each]
                if deliveries:
                    firsts[each], lasts[each], grown[each] = put(topics[each], deliveries, clients[each], kb_us[each])
            once_us = once[job] if end == job + 1 else max(once[job:end])
            if is_rested:
                once_us += wait[job]
            now_us += once_us
            told((job, end, now_us, once_us))
            return now_us + (sums[end] - sums[job])  # type: ignore[no-any-return]

        return turn

    def taken(self, count: int) -> _Taken:
        """The results of the first jobs."""
        first, last = np.full(count, np.nan), np.full(count, np.nan)
        before, after = self._sum[:count], self._sum[1 : count + 1]
        begun = self._at[:count] + self._once_alone[:count]
        relayed, ends = self._relayed[:count].copy(), self._ends[:count].copy()
        cost = self._once_alone[:count] + (after - before) + self._writes_us[:count]
        if self._turns:
            turns = np.frombuffer(self._turns).reshape(-1, 4)
            (begins, stops), (starts, once) = turns[:, :2].T.astype(np.int64), turns[:, 2:].T
            lengths = stops - begins
            steps = np.zeros(count + 1, dtype=np.int8)
            steps[begins] += 1
            steps[stops] -= 1
            turned = np.cumsum(steps[:count]) > 0
            first, last = np.array(self._firsts[:count]), np.array(self._lasts[:count])
            since, since_sum = np.repeat(starts, lengths), np.repeat(self._sum[begins], lengths)
            begun[turned] = since + (before[turned] - since_sum)
            relayed[turned] = np.repeat(starts + (self._sum[stops] - self._sum[begins]), lengths)
            grown = np.array(self._grown[:count])[turned] * self._write_us + self._kb_us[:count][turned]
            cost[turned] = np.repeat(once / lengths, lengths) + (after - before)[turned] + grown
            ends[turned] = relayed[turned]
        return _Taken(first, last, Done(begun, relayed, relayed.copy(), ends, cost))


def _nothing(columns: int) -> list[Floats]:
    return [np.empty(0) for _ in range(columns)]


def _behind(before: Floats, column: Floats) -> Floats:
    return np.concatenate((before, column)) if len(before) else column
