"""Answers to questions of the management API about the objects of this broker, asked here or by another broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec

from openclust.manage.gather.ages import ages
from openclust.manage.gather.questions import (
    Act,
    CountTotals,
    FindRow,
    ListRows,
    Question,
    Reply,
    ReplyFailure,
    ReplyRows,
    ReplyValue,
)
from openclust.manage.gather.select import Shower, select
from openclust.manage.gather.selection import Row
from openclust.manage.gather.totals import Totals

_encode = msgspec.json.Encoder().encode


class RowSource(Shower, Protocol):
    """The objects of one kind that this broker has."""

    def objects(self, question: ListRows) -> Iterable[Any]:
        """Things may come and go while they are looked at: no live container must be gone through."""

    def find(self, question: FindRow) -> Any: ...
    def details(self, it: Any) -> Row:
        """The row of one object that was asked for alone, with more than lists show."""


class NumberSource(Protocol):
    """Numbers of this broker that make one number for the cluster with those of the others."""

    async def count(self, question: CountTotals) -> Totals: ...


Action = Callable[[Act], Awaitable[Reply]]


NO_COUNTS: Mapping[str, NumberSource] = {}


class Answering:
    """Answers questions of the management API about this broker."""

    def __init__(
        self,
        sources: Mapping[str, RowSource],
        actions: Mapping[str, Action],
        counts: Mapping[str, NumberSource] = NO_COUNTS,
    ) -> None:
        self._sources = sources
        self._actions = actions
        self._counts = counts

    async def answer(self, question: Question) -> Reply:
        if not isinstance(question, Act):
            ages.set(question.ages)
        match question:
            case ListRows():
                source = self._sources.get(question.kind)
                if source is None:
                    return ReplyRows()
                return await select(source.objects(question), source, question.selection)
            case FindRow():
                source = self._sources.get(question.kind)
                it = None if source is None else source.find(question)
                return ReplyValue() if source is None or it is None else ReplyValue(value=_encode(source.details(it)))
            case CountTotals():
                numbers = self._counts.get(question.of)
                if numbers is None:
                    return not_implemented(f"this broker cannot count {question.of}")
                return ReplyValue(value=_encode(await numbers.count(question)))
            case Act():
                action = self._actions.get(question.action)
                if action is None:
                    return not_implemented(f"this broker cannot {question.action}")
                return await action(question)


def not_implemented(reason: str) -> ReplyFailure:
    """The reply to what only a newer version understands."""
    return ReplyFailure(status=501, error="not_implemented", reason=reason)
