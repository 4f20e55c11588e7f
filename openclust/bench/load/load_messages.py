"""The messages between a load generator and the command that started it: one JSON object a line."""

from __future__ import annotations

import msgspec

from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.work import Figures, LoadWork


class Order(msgspec.Struct, frozen=True, kw_only=True, tag="order"):
    """Comes first: connect to this broker and get ready for this work. Answered by `LoadReady`.

    The subscribers are spread evenly over `subscribers_at`, if given. Queues that are not exclusive are declared at
    `declared_at` first, with `queue_arguments`.
    """

    url: BrokerUrl
    work: LoadWork
    broker_pids: tuple[int, ...] = ()
    subscribers_at: tuple[BrokerUrl, ...] = ()
    declared_at: BrokerUrl | None = None
    queue_arguments: dict[str, str] = {}


class RunRound(msgspec.Struct, frozen=True, kw_only=True, tag="run"):
    """Run a round, with `seconds` or else `count` of the work. Answered by `RoundDone`."""

    seconds: float | None = None


class LoadReady(msgspec.Struct, frozen=True, kw_only=True, tag="ready"):
    product: str
    version: str


class Progressed(msgspec.Struct, frozen=True, kw_only=True, tag="progressed"):
    """Comes a few times a second: what is being done, and how many times it was done so far."""

    doing: str
    number: int


class RoundDone(msgspec.Struct, frozen=True, kw_only=True, tag="done"):
    figures: Figures


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """Comes last, instead of an answer."""

    why: str


Command = Order | RunRound
Answer = LoadReady | Progressed | RoundDone | Failed
