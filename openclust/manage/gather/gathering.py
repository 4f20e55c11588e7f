"""One answer for the whole cluster: every broker is asked at the same time, and the rows of all are put in order.

A broker that does not answer in time is named in `missing`, and its rows are left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from openclust.manage.gather.answering import Answering
from openclust.manage.gather.ordering import first_of
from openclust.manage.gather.questions import (
    Act,
    CountTotals,
    ListRows,
    Question,
    Reply,
    ReplyRows,
    ReplyValue,
    decode_reply,
    encode,
)
from openclust.manage.gather.selection import Selection
from openclust.manage.gather.slices import Slices
from openclust.manage.gather.totals import Totals, summed

ANSWER_WAIT_MS = 1_500
"""A list is answered within two seconds, whoever stands still."""


class Neighbours(Protocol):
    """The other brokers of the cluster, to whoever asks them."""

    @property
    def name(self) -> str: ...
    def others(self) -> list[str]:
        """All brokers but this one that are in the cluster, or should be."""

    async def ask(self, peer: str, body: bytes, wait_ms: int) -> bytes | None:
        """The reply of a broker; None if there is none in time."""


class Answers(NamedTuple):
    """The replies by the brokers' names, and who did not reply."""

    replies: dict[str, Reply]
    missing: list[str]


class GatheredRows(NamedTuple):
    """The wanted rows of all brokers in order, as JSON, and how many there are in all."""

    rows: list[bytes]
    total: int
    filtered: int
    missing: list[str]

    def page_count(self, selection: Selection) -> int:
        return max(1, -(-self.filtered // selection.page_size))


class GatheredTotals(NamedTuple):
    """The sum of the numbers of the brokers that replied, and who did not."""

    totals: Totals
    missing: list[str]


class ClusterQuery:
    """Asks this broker and the others."""

    def __init__(self, answering: Answering, neighbours: Neighbours) -> None:
        self._answering = answering
        self._neighbours = neighbours

    def names(self) -> list[str]:
        """All brokers of the cluster, as far as they are known."""
        return sorted([self._neighbours.name, *self._neighbours.others()])

    async def ask_all(self, question: Question) -> Answers:
        return await self.ask([self._neighbours.name, *self._neighbours.others()], question)

    async def ask(self, names: Iterable[str], question: Question) -> Answers:
        names = list(names)
        found = await asyncio.gather(*(self._ask(name, question) for name in names))
        replies = {name: reply for name, reply in zip(names, found, strict=True) if reply is not None}
        return Answers(replies, [name for name in names if name not in replies])

    async def _ask(self, name: str, question: Question) -> Reply | None:
        if name == self._neighbours.name:
            own = question if isinstance(question, Act) else msgspec.structs.replace(question, is_own=True)
            return await self._answering.answer(own)
        body = await self._neighbours.ask(name, encode(question), ANSWER_WAIT_MS)
        if body is None:
            return None
        try:
            return decode_reply(body)
        except msgspec.DecodeError:
            return None

    async def totals(self, question: CountTotals) -> GatheredTotals:
        """The numbers of all brokers, added up; a broker that cannot count them is missing too."""
        replies, missing = await self.ask_all(question)
        values = {name: reply.value for name, reply in replies.items() if isinstance(reply, ReplyValue) and reply.value}
        totals = summed(msgspec.json.decode(value) for value in values.values())
        return GatheredTotals(totals, sorted([*missing, *(replies.keys() - values.keys())]))

    async def rows(self, question: ListRows) -> GatheredRows:
        """The rows of all brokers that are wanted."""
        answers = await self.ask_all(question)
        return await merged(
            [each for each in answers.replies.values() if isinstance(each, ReplyRows)],
            question.selection,
            answers.missing,
        )


async def merged(replies: list[ReplyRows], selection: Selection, missing: list[str]) -> GatheredRows:
    """The rows of several brokers in one order, and of these the wanted ones."""
    runs = [each.rows for each in replies]
    first = await first_of(runs, selection.end, reverse=selection.sort_reverse, slices=Slices())
    return GatheredRows(
        rows=[row for _, row in first[selection.start :]],
        total=sum(each.total for each in replies),
        filtered=sum(each.filtered for each in replies),
        missing=missing,
    )


def page_of(gathered: GatheredRows, selection: Selection) -> bytes:
    """The JSON answer: an array, or RabbitMQ's object around a page of rows."""
    items = b"[" + b",".join(gathered.rows) + b"]"
    if not selection.page:
        return items
    counts = {
        "filtered_count": gathered.filtered,
        "item_count": len(gathered.rows),
        "items": msgspec.Raw(items),
        "page": selection.page,
        "page_count": gathered.page_count(selection),
        "page_size": selection.page_size,
        "total_count": gathered.total,
    }
    return msgspec.json.encode(counts)
