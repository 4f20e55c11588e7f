"""The roster: the addresses and the load of every broker, as the root gathers and tells them."""

from __future__ import annotations

from typing import Literal

import msgspec

from openclust.broker.parameters.limited_use import LimitedUse, UseKind
from openclust.wire.text import encode_text

Partition = Literal["primary", "secondary"]


class BrokerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One broker. `client` is where applications reach it, as `host:port`; `http` is its API, or empty.

    `tls` is where they reach it by TLS, or empty; without it, clients that came by TLS are not sent to this broker.

    `weight` is its share of the clients: one of weight 2 gets twice as many as one of weight 1.

    Since it started, `newcomers` have come by themselves, those included that it has sent on, and `redirected` because
    another broker sent them. The numbers are from `age_ms` before the root told them. `life` tells a broker from an
    earlier or another one of its name: it is that of the broker whose link the root has. `limited` is how much is used
    there of what has a limit.
    """

    name: str
    partition: Partition = "primary"
    client: str
    tls: str = ""
    http: str = ""
    connections: int = 0
    newcomers: int = 0
    redirected: int = 0
    queues: int = 0
    weight: int = 1
    is_draining: bool = False
    age_ms: int = 0
    life: str = ""
    limited: LimitedUse = LimitedUse()


class Roster(msgspec.Struct, frozen=True, kw_only=True):
    """The brokers that are online, by name in order; `root` is empty where there is none."""

    root: str = ""
    brokers: tuple[BrokerInfo, ...] = ()

    def find(self, name: str) -> BrokerInfo | None:
        return next((each for each in self.brokers if each.name == name), None)

    def used_elsewhere(self, own: str, kind: UseKind, name: str) -> int:
        """How much all brokers but `own` use of something that has a limit."""
        key = encode_text(name)
        return sum(getattr(each.limited, kind).get(key, 0) for each in self.brokers if each.name != own)
