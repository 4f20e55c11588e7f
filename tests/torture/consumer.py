"""A consumer that acknowledges what it got, returns a little, and finds another broker when its own is gone."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time

from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelInvalidStateError, MessageProcessError

import openclust.client
from openclust.client import RobustClusterConnection
from tests.torture.ledger import Ledger
from tests.torture.traffic import QueuePlan

PREFETCH = 50
RETURNED = 499
"""One message of so many is put back into the queue at its first delivery."""
LINGERS_AFTER = 300
LINGERS_S = 4.0
CLOSE_WAIT_S = 2.0


class Consumer:
    """`open` it, and `close` it at the end."""

    def __init__(self, plan: QueuePlan, ledger: Ledger, urls: list[str]) -> None:
        self.received = 0
        self._plan = plan
        self._ledger = ledger
        self._urls = urls
        self._connection: RobustClusterConnection | None = None
        self._may_acknowledge = asyncio.Event()
        self._may_acknowledge.set()
        self._is_lingering = plan.lingers

    async def open(self) -> None:
        """aio-pika's exceptions, or TimeoutError, where the cluster does not let it consume."""
        self._connection = await openclust.client.connect_robust(self._urls, fail_fast=False)
        channel = await self._connection.channel()
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.declare_queue(self._plan.name, durable=True, arguments=dict(self._plan.arguments))
        await queue.consume(self._take)

    async def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(Exception, asyncio.CancelledError):
                await asyncio.wait_for(self._connection.close(), CLOSE_WAIT_S)

    def hurry(self) -> None:
        """No more pauses."""
        self._is_lingering = False
        self._may_acknowledge.set()

    async def _take(self, message: AbstractIncomingMessage) -> None:
        # Nothing is awaited before the message is in the ledger: the order of arrival is what counts.
        is_redelivered = bool(message.redelivered)
        if self._is_returned(message, is_redelivered):
            answer = functools.partial(message.reject, requeue=True)
        else:
            self.received += 1
            attempt = message.headers.get("attempt")
            through = str(self._connection.url.host) if self._connection is not None else ""
            name, message_id, now = self._plan.name, message.message_id or "", time.monotonic()
            self._ledger.received(name, message_id, attempt, is_redelivered, message.body, now, through)
            answer = functools.partial(message.ack)
        if self._is_lingering and self.received % LINGERS_AFTER == 0 and self._may_acknowledge.is_set():
            self._may_acknowledge.clear()
            asyncio.get_running_loop().call_later(LINGERS_S, self._may_acknowledge.set)
        await self._may_acknowledge.wait()
        # A channel that is gone took what was not acknowledged back with it.
        with contextlib.suppress(AMQPError, ChannelInvalidStateError, MessageProcessError, OSError, RuntimeError):
            await answer()

    def _is_returned(self, message: AbstractIncomingMessage, is_redelivered: bool) -> bool:
        number = (message.message_id or "").rpartition("/")[2]
        return not is_redelivered and number.isdecimal() and int(number) % RETURNED == RETURNED // 2
