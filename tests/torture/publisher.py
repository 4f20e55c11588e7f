"""A publisher that keeps every message until it is confirmed, and sends it again where it was not."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from aio_pika.exceptions import DeliveryError, PublishError

import openclust.client
from tests.torture.gaps import Gaps
from tests.torture.ledger import Stream
from tests.torture.traffic import Connected, QueuePlan

TICK_S = 0.05
PENDING_MAX = 200
CONFIRM_WAIT_S = 12.0
"""A connection on which a confirm takes longer is given up: it may lead nowhere."""
CONNECT_WAIT_S = 20.0
OPEN_WAIT_S = 35.0
"""Longer than a broker waits for a root."""
CLOSE_WAIT_S = 1.0
NACKED_PAUSE_S = 0.1
CONNECTIONS_MAX = 10_000

log = logging.getLogger(__name__)


class Publisher:
    """`run` it; after `stop` it sends nothing new, and ends when all that it sent is confirmed."""

    def __init__(self, plan: QueuePlan, stream: Stream, urls: list[str], gaps: Gaps) -> None:
        self.nacks = 0
        self.returns = 0
        self.connections: list[Connected] = []
        self.own_gaps = Gaps()
        self.problems: dict[str, int] = {}
        self._plan = plan
        self._stream = stream
        self._urls = urls
        self._gaps = gaps
        self._pending: dict[int, float] = {}
        """Not confirmed, with the time of the last attempt, in the order of their numbers."""
        self._nacked: list[int] = []
        self._is_stopping = False
        self._lost = asyncio.Event()
        self._flying: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        self._is_stopping = True

    @property
    def name(self) -> str:
        return f"{self._plan.name}/{self._stream.publisher}"

    @property
    def pending(self) -> int:
        return len(self._pending)

    async def run(self) -> None:
        while not (self._is_stopping and not self._pending):
            try:
                # Not connect_robust: what was sent on which connection is to be known.
                connection = await openclust.client.connect(self._urls, timeout=CONNECT_WAIT_S)
            except Exception as error:
                self._note(error)
                await asyncio.sleep(TICK_S)
                continue
            if len(self.connections) < CONNECTIONS_MAX:
                self.connections.append(Connected(time.monotonic(), str(connection.url.host)))
            try:
                await self._publish_on(connection)
            except Exception as error:
                self._note(error)
            finally:
                await self._leave(connection)
        now = time.monotonic()
        self.own_gaps.end(now)

    async def _leave(self, connection: AbstractConnection) -> None:
        for task in self._flying:
            task.cancel()
        await asyncio.gather(*self._flying, return_exceptions=True)
        with contextlib.suppress(Exception, asyncio.CancelledError):
            await asyncio.wait_for(connection.close(), CLOSE_WAIT_S)

    async def _publish_on(self, connection: AbstractConnection) -> None:
        """Until this connection is of no use any more, or all is done."""
        self._lost = lost = asyncio.Event()
        self._flying = set()
        self._nacked = []
        connection.close_callbacks.add(lambda *_: lost.set())
        async with asyncio.timeout(OPEN_WAIT_S):
            channel: AbstractChannel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            channel.close_callbacks.add(lambda *_: lost.set())
            await channel.declare_queue(self._plan.name, durable=True, arguments=dict(self._plan.arguments))
        exchange = channel.default_exchange
        for number in sorted(self._pending):
            self._send(exchange, number, self._stream.again(number))
        allowance = 0.0
        while not lost.is_set() and not (self._is_stopping and not self._pending):
            allowance = min(allowance + self._plan.rate * TICK_S, self._plan.rate)
            self._send_again(exchange)
            while allowance >= 1.0 and not self._is_stopping and len(self._pending) < PENDING_MAX:
                allowance -= 1.0
                now = time.monotonic()
                self._gaps.begin(now)
                self.own_gaps.begin(now)
                self._send(exchange, self._stream.new(now), 1)
            oldest = min(self._pending.values(), default=None)
            if oldest is not None and time.monotonic() - oldest > CONFIRM_WAIT_S:
                raise TimeoutError(f"no confirm within {CONFIRM_WAIT_S:.0f} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(lost.wait(), TICK_S)

    def _send_again(self, exchange: AbstractExchange) -> None:
        """Those that were refused, after a pause."""
        now = time.monotonic()
        ready = sorted(number for number in self._nacked if now - self._pending[number] > NACKED_PAUSE_S)
        self._nacked = [number for number in self._nacked if number not in ready]
        for number in ready:
            self._send(exchange, number, self._stream.again(number))

    def _send(self, exchange: AbstractExchange, number: int, attempt: int) -> None:
        # Tasks begin in the order in which they are made, and aiormq's lock is fair: what is sent first goes first.
        self._pending[number] = time.monotonic()
        task = asyncio.get_running_loop().create_task(self._sent(exchange, number, attempt))
        self._flying.add(task)
        task.add_done_callback(self._flying.discard)

    async def _sent(self, exchange: AbstractExchange, number: int, attempt: int) -> None:
        message = aio_pika.Message(
            self._stream.body(number),
            message_id=self._stream.message_id(number),
            delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
            priority=self._stream.priority(number),
            headers={"attempt": attempt},
        )
        try:
            await exchange.publish(message, self._plan.name, mandatory=True)
        except PublishError:
            self.returns += 1
            self._refused(number)
        except DeliveryError:
            self.nacks += 1
            self._refused(number)
        except Exception as error:
            self._note(error)
            self._lost.set()
        else:
            now = time.monotonic()
            self._pending.pop(number, None)
            self._stream.confirmed(number, now)
            self._gaps.confirmed(now)
            self.own_gaps.confirmed(now)

    def _refused(self, number: int) -> None:
        if number in self._pending and number not in self._nacked:
            self._pending[number] = time.monotonic()
            self._nacked.append(number)

    def _note(self, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"[:200]
        if text in self.problems or len(self.problems) < 50:
            self.problems[text] = self.problems.get(text, 0) + 1
