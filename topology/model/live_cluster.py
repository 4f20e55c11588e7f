"""A running cluster, as the HTTP API of one of its brokers tells it (`/api/cluster`)."""

from __future__ import annotations

from typing import Any

import msgspec


class LiveBroker(msgspec.Struct, frozen=True):
    """`address` is that for clients; empty if the asked broker never heard it."""

    name: str
    partition: str = "primary"
    online: bool = False
    address: str = ""
    http: str = ""


class Live(msgspec.Struct, frozen=True):
    """The part of the answer that is used here. `name` is the broker that was asked."""

    cluster_key: str
    name: str
    brokers: tuple[LiveBroker, ...]
    root: str | None = None

    def of(self, partition: str) -> dict[str, LiveBroker]:
        return {each.name: each for each in self.brokers if each.partition == partition}


def live_of(document: Any) -> Live:
    """The answer as a `Live`. Raises ValueError if it is no such answer."""
    try:
        return msgspec.convert(document, Live)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
