"""A running cluster, as the HTTP API of one of its brokers tells it (`/api/cluster`)."""

from __future__ import annotations

from typing import Any

import msgspec


class LiveBroker(msgspec.Struct, frozen=True):
    """`address` is where clients are sent; empty where the broker that was asked never heard it."""

    name: str
    partition: str = "primary"
    online: bool = False
    address: str = ""
    http: str = ""


class Live(msgspec.Struct, frozen=True):
    """What it says beyond this is left out. `name` is the broker that was asked."""

    cluster_key: str
    name: str
    brokers: tuple[LiveBroker, ...]
    root: str | None = None

    def of(self, partition: str) -> dict[str, LiveBroker]:
        return {each.name: each for each in self.brokers if each.partition == partition}


def live_of(document: Any) -> Live:
    """What the answer says; ValueError where it is none."""
    try:
        return msgspec.convert(document, Live)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
