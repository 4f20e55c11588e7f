"""All publishers and consumers, in one process: `python -m tests.torture.clients`, told what to do on its input.

The first line is a Task. A second line, `stop`, ends the publishing and begins the draining; then comes the Outcome.
Every second it tells its progress. When its input ends it ends, so that it is never left behind.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time

import msgspec

import openclust.client
from tests.torture.consumer import Consumer
from tests.torture.gaps import Gap, Gaps
from tests.torture.ledger import Count, Ledger
from tests.torture.publisher import Publisher
from tests.torture.traffic import Outcome, Progress, Task, Told

PROGRESS_S = 1.0
QUIET_S = 8.0
"""When nothing came for so long, and something is missing, consumers are opened anew, once; then all is said."""
LATE_S = 1.5
"""Duplicates may come so long after the last message that was missing."""
OPEN_WAIT_S = 40.0


class Clients:
    def __init__(self, task: Task) -> None:
        self._task = task
        self._ledger = Ledger()
        self._gaps = Gaps()
        self._publishers = [
            Publisher(plan, self._ledger.stream(plan.name, number, plan.priorities), task.urls, self._gaps)
            for plan in task.queues
            for number in range(plan.publishers)
        ]
        self._consumers: list[Consumer] = []
        self._problems: list[str] = []
        self._opened_anew = 0
        self._missing_before = 0

    async def run(self, stop: asyncio.Event) -> Outcome:
        await self._open(at_the_end=False)
        publishing = [asyncio.create_task(each.run()) for each in self._publishers]
        await stop.wait()
        began = time.monotonic()
        for publisher in self._publishers:
            publisher.stop()
        _, late = await asyncio.wait(publishing, timeout=self._task.drain_s)
        self._gaps.end(time.monotonic())
        for task in late:
            task.cancel()
        if late:
            self._problems.append(f"{len(late)} publishers got no confirm for what they had sent")
        for consumer in self._consumers:
            consumer.hurry()
        await self._open(at_the_end=True)
        await self._drain(began)
        counts = await self._counts()
        for consumer in self._consumers:
            await consumer.close()
        return self._outcome(counts, time.monotonic() - began)

    async def _open(self, at_the_end: bool) -> None:
        for plan in self._task.queues:
            if plan.consumed_at_the_end == at_the_end:
                for _ in range(plan.consumers):
                    consumer = Consumer(plan, self._ledger, self._task.urls)
                    self._consumers.append(consumer)
                    try:
                        await asyncio.wait_for(consumer.open(), OPEN_WAIT_S)
                    except Exception as error:
                        self._problems.append(f"cannot consume {plan.name}: {type(error).__name__}: {error}")

    async def _drain(self, began: float) -> None:
        """Until nothing is missing, or nothing comes any more, or the time is over."""
        received, last_at = -1, time.monotonic()
        while self._ledger.missing and time.monotonic() - began < 2 * self._task.drain_s:
            await asyncio.sleep(0.1)
            now = time.monotonic()
            if self.received != received:
                received, last_at = self.received, now
            elif now - last_at > QUIET_S:
                if self._opened_anew:
                    return
                await self._open_anew()
                last_at = time.monotonic()
        await asyncio.sleep(LATE_S)

    async def _open_anew(self) -> None:
        """Whether it is the consumers that do not consume, or the messages that are not there."""
        before = self._consumers
        self._consumers = []
        for consumer in before:
            await consumer.close()
        self._opened_anew = len(before)
        self._missing_before = self._ledger.missing
        for at_the_end in (False, True):
            await self._open(at_the_end)
        for consumer in self._consumers:
            consumer.hurry()
            consumer.received = 0
        self._consumers[0].received = sum(consumer.received for consumer in before)

    async def _counts(self) -> list[Count]:
        """With what the broker says is left."""
        counts = self._ledger.counts()
        plans = {plan.name: plan for plan in self._task.queues}
        try:
            async with asyncio.timeout(10), await openclust.client.connect(self._task.urls) as connection:
                for count in counts:
                    channel = await connection.channel()
                    queue = await channel.declare_queue(
                        count.queue, durable=True, passive=True, arguments=dict(plans[count.queue].arguments)
                    )
                    count.left = queue.declaration_result.message_count or 0
                    await channel.close()
        except Exception as error:
            self._problems.append(f"cannot ask what is left in the queues: {type(error).__name__}: {error}")
        return counts

    @property
    def received(self) -> int:
        return sum(consumer.received for consumer in self._consumers)

    def progress(self) -> Progress:
        streams = self._ledger.streams.values()
        return Progress(
            sent=sum(map(len, streams)),
            confirmed=sum(stream.confirmed_count for stream in streams),
            received=self.received,
            missing=self._ledger.missing,
        )

    def _outcome(self, counts: list[Count], drained_s: float) -> Outcome:
        told: dict[str, int] = {}
        for publisher in self._publishers:
            for text, number in publisher.problems.items():
                told[text] = told.get(text, 0) + number
        return Outcome(
            counts=counts,
            gaps=self._gaps.found,
            longest=self._gaps.longest,
            longest_of_one=max((each.own_gaps.longest for each in self._publishers), key=lambda gap: gap.length_s)
            if self._publishers
            else Gap(0.0, 0.0),
            nacks=sum(each.nacks for each in self._publishers),
            returns=sum(each.returns for each in self._publishers),
            connections={each.name: each.connections for each in self._publishers},
            found_by_new_consumers=max(self._missing_before - self._ledger.missing, 0),
            drained_s=drained_s,
            problems=self._problems + [f"{number} x {text}" for text, number in sorted(told.items())],
        )


def tell(what: Told) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(what) + b"\n")
    sys.stdout.buffer.flush()


async def main() -> None:
    # What fails here is told by the outcome; aio-pika says each of it many times.
    for name in ("aiormq", "aio_pika", "openclust.client"):
        logging.getLogger(name).setLevel("CRITICAL")
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    clients = Clients(msgspec.json.decode(await lines.readline(), type=Task))
    stop = asyncio.Event()
    working = asyncio.create_task(clients.run(stop))
    asking = asyncio.create_task(lines.readline())
    while True:
        done, _ = await asyncio.wait(
            {working, *([] if stop.is_set() else [asking])}, timeout=PROGRESS_S, return_when=asyncio.FIRST_COMPLETED
        )
        if working in done:
            tell(working.result())
            return
        if asking in done and not stop.is_set():
            if not asking.result():
                return
            stop.set()
        tell(clients.progress())


if __name__ == "__main__":
    asyncio.run(main())
