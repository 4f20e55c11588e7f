"""Consumers here of shared queues that are active on the root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.channel import Channel

if TYPE_CHECKING:
    from openclust.broker.cluster_port import Done
    from openclust.broker.connection import Connection
    from openclust.broker.consumer import Consumer
    from openclust.broker.queue import Queue
    from openclust.cluster.membership import Membership
    from openclust.cluster.messages import Cancelled, Fetched, Lane


class Distant:
    def __init__(self, membership: Membership) -> None:
        self._cluster = membership

    def consume(self, consumer: Consumer, done: Done) -> None:
        raise NotImplementedError

    def get(self, channel: Channel, queue: Queue, no_ack: bool, done: Done) -> None:
        raise NotImplementedError

    def lane(self, connection: Connection, lane: Lane) -> Channel:
        raise NotImplementedError

    def unexpected(self, peer: str, fetched: Fetched) -> None:
        """An answer to a basic.get that was asked twice: the message goes back."""

    def cancelled(self, peer: str, message: Cancelled) -> None: ...
    def root_changed(self) -> None: ...
    def root_lost(self) -> None: ...
    def resigned(self) -> None: ...
    def flush(self) -> None: ...
