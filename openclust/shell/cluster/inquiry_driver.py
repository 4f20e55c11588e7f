"""Questions to the other brokers, and theirs to this one, for whoever serves people."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.messages import Inquiry

log = logging.getLogger("openclust.cluster")

ANSWERING_MAX = 64
"""Questions that are answered at the same time; who asks one more gets no answer."""

Answering: TypeAlias = Callable[[bytes], Awaitable[bytes]]


async def _answer_nothing(body: bytes) -> bytes:
    return b""


class InquiryDriver:
    """Call `look` after each turn. `answer` is set by the service that answers; until then every reply is empty."""

    def __init__(self, membership: Membership, now_ms: Callable[[], int], turn_soon: Callable[[], None]) -> None:
        self._membership = membership
        self._now_ms = now_ms
        self._turn_soon = turn_soon
        self._tasks: set[asyncio.Task[None]] = set()
        self.answer: Answering = _answer_nothing

    @property
    def name(self) -> str:
        return self._membership.name

    def others(self) -> list[str]:
        """The defined primaries and the brokers that are online, but for this one."""
        membership = self._membership
        names = {*membership.primaries, *(each.name for each in membership.roster.brokers)}
        return sorted(names - {membership.name})

    async def ask(self, peer: str, body: bytes, wait_ms: int) -> bytes | None:
        """The reply of a broker; None if there is none in time."""
        replied: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def done(reply: bytes | None) -> None:
            if not replied.done():
                replied.set_result(reply)

        self._membership.inquiries.ask(peer, body, self._now_ms() + wait_ms, done)
        self._turn_soon()
        return await replied

    def look(self) -> None:
        """Begin to answer what has come in."""
        for inquiry in self._membership.inquiries.take_received():
            if len(self._tasks) < ANSWERING_MAX:
                task = asyncio.get_running_loop().create_task(self._reply(inquiry))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _reply(self, inquiry: Inquiry) -> None:
        try:
            body = await self.answer(inquiry.body)
        except Exception:
            log.exception("a question of %s could not be answered", inquiry.asker)
            return
        self._membership.inquiries.reply(inquiry, body)
        self._turn_soon()

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
