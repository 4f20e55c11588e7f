"""On the root: what consumers of other brokers receive from the shared queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclust.cluster.membership import Membership
    from openclust.cluster.messages import Answer, Cancel, Consume, Get, Prefetch, Settle, Taken


class Proxies:
    def __init__(self, membership: Membership) -> None:
        self._cluster = membership

    def ask(self, peer: str, question: Consume | Get, number: int) -> Answer:
        raise NotImplementedError

    def settle(self, peer: str, message: Settle) -> None: ...
    def taken(self, peer: str, message: Taken) -> None: ...
    def prefetch(self, peer: str, message: Prefetch) -> None: ...
    def cancel(self, peer: str, message: Cancel) -> None: ...
    def peer_gone(self, name: str) -> None: ...
    def end(self) -> None: ...
    def flush(self) -> None: ...
