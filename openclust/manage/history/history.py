"""What passed through this broker: counts and rates of every object, and the last ten minutes of some."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import islice
from operator import sub
from typing import Generic, TypeVar

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.connection import Connection
from openclust.broker.counts.message_counts import ChannelCounts
from openclust.broker.queues.queue import Queue
from openclust.broker.routing.exchange import Exchange
from openclust.broker.server.broker import Broker
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.slices import Slices
from openclust.manage.history.sample import (
    BROKER_COLUMNS,
    CHANNEL_COLUMNS,
    CHURN_COLUMNS,
    CONNECTION_COLUMNS,
    EXCHANGE_COLUMNS,
    GAUGE_COLUMNS,
    QUEUE_COLUMNS,
    VHOST_COLUMNS,
    Numbers,
    Sample,
    sampled,
)
from openclust.manage.history.series import Series

SERIES_MAX = 256
"""Of queues, of exchanges and of virtual hosts, so many have a series each: 3 MB together at most."""

K = TypeVar("K", bound=Hashable)

COUNTS_AT_ONCE = 500

_NO_CHANNEL = ChannelCounts()


class Samples(Generic[K]):
    """The newest sample of each object of one kind, and series of a bounded number: those that are active."""

    def __init__(self, columns: tuple[str, ...], series_max: int = 0) -> None:
        self.columns = columns
        self.newest: dict[K, Sample] = {}
        self.series: dict[K, Series] = {}
        self._series_max = series_max
        self._coming: dict[K, Sample] = {}
        # Those that should have a series: active ones always, idle ones while there is room.
        self._lacking: list[K] = []

    def take(self, it: K, counts: Numbers, passed_ms: int) -> None:
        """The counts of an object in this round."""
        before = self.newest.get(it)
        self._coming[it] = sample = sampled(counts, before, passed_ms)
        if it not in self.series and (sample.is_active or len(self.series) + len(self._lacking) < self._series_max):
            self._lacking.append(it)

    async def end_round(self, at_ms: int, slices: Slices) -> None:
        """Objects that were not taken in this round are gone."""
        former, self.newest, self._coming = self.newest, self._coming, {}
        lacking, self._lacking = self._lacking if self._series_max else [], []
        for it in [it for it in self.series if it not in self.newest]:
            del self.series[it]
        excess = len(self.series) + len(lacking) - self._series_max
        if excess > 0:
            idle = (it for it in self.series if not self.newest[it].is_active)
            for it in list(islice(idle, excess)):
                del self.series[it]
        for it in lacking[: self._series_max - len(self.series)]:
            self.series[it] = Series(len(self.columns))
        for it, series in self.series.items():
            series.add(at_ms, self.newest[it].counts)
        # To free all former samples at once takes long.
        while former:
            former.popitem()
            await slices.rest()


class _VhostRound:
    """The sums of one virtual host in one round."""

    def __init__(self) -> None:
        self.messages = _NO_CHANNEL
        self._waiting: list[ChannelCounts] = []
        self.ready = self.unacked = 0
        self.received_bytes = self.sent_bytes = 0

    def add_counts(self, counts: ChannelCounts) -> None:
        self._waiting.append(counts)
        if len(self._waiting) == COUNTS_AT_ONCE:
            self._sum_up()

    def take_counts(self, counts: ChannelCounts) -> None:
        self.messages = ChannelCounts(*map(sub, self.messages, counts))

    def total(self) -> ChannelCounts:
        self._sum_up()
        return self.messages

    def _sum_up(self) -> None:
        """To add up many at once takes a fraction of the time."""
        self.messages = ChannelCounts(*map(sum, zip(self.messages, *self._waiting, strict=True)))
        self._waiting.clear()


class History:
    """Call `look` every five seconds. It looks at all objects, in slices: the loop is never held for long."""

    def __init__(
        self,
        broker: Broker,
        wall_ms: Callable[[], int],
        octets: Callable[[Connection], tuple[int, int]],
        gauges: Callable[[], Numbers] = lambda: (0,) * len(GAUGE_COLUMNS),
    ) -> None:
        self._broker = broker
        self._wall_ms = wall_ms
        self._octets = octets
        self._gauges = gauges
        self._before_ms = 0
        self.at_ms = 0
        self.channels: Samples[Channel] = Samples(CHANNEL_COLUMNS)
        self.connections: Samples[Connection] = Samples(CONNECTION_COLUMNS)
        self.queues: Samples[Queue] = Samples(QUEUE_COLUMNS, SERIES_MAX)
        self.exchanges: Samples[Exchange] = Samples(EXCHANGE_COLUMNS, SERIES_MAX)
        self.vhosts: Samples[VirtualHost] = Samples(VHOST_COLUMNS, SERIES_MAX)
        self.broker: Samples[None] = Samples(BROKER_COLUMNS, 1)
        # Bytes of connections that are closed by now.
        self._closed: dict[VirtualHost, tuple[int, int]] = {}

    @property
    def now_ms(self) -> int:
        return self._wall_ms()

    async def look(self) -> None:
        """Take a sample of everything."""
        at_ms = self._wall_ms()
        passed_ms = max(1, at_ms - self._before_ms) if self._before_ms else 0
        slices = Slices()
        vhosts = list(self._broker.vhosts.values())
        await self._ask_routes(vhosts, slices)
        rounds = {vhost: _VhostRound() for vhost in vhosts}
        await self._look_at_connections(rounds, passed_ms, slices)
        await self._look_at_queues(rounds, at_ms, passed_ms, slices)
        for vhost in vhosts:
            for exchange in list(vhost.exchanges.values()):
                counts = exchange.counts()
                if any(counts):
                    self.exchanges.take(exchange, counts, passed_ms)
                await slices.rest()
        await self.exchanges.end_round(at_ms, slices)
        await self._sum_up(rounds, at_ms, passed_ms, slices)
        self._before_ms = self.at_ms = at_ms

    async def _ask_routes(self, vhosts: Iterable[VirtualHost], slices: Slices) -> None:
        for vhost in vhosts:
            while vhost.route_counts.add_forgotten():
                await slices.rest()
            for route in vhost.routes_in_use():
                vhost.route_counts.add(route)
                await slices.rest()

    async def _look_at_connections(
        self, rounds: dict[VirtualHost, _VhostRound], passed_ms: int, slices: Slices
    ) -> None:
        seen: list[tuple[_VhostRound, Channel, ChannelCounts]] = []
        for connection in list(self._broker.connections):
            await slices.rest()
            if not connection.was_open or connection.vhost not in rounds or connection.peer.is_peer:
                continue
            of_vhost = rounds[connection.vhost]
            received, sent = self._octets(connection)
            of_vhost.received_bytes += received
            of_vhost.sent_bytes += sent
            self.connections.take(connection, (received, sent), passed_ms)
            for channel in list(connection.channels.values()):
                counts = channel.counts() if channel.state == OPEN else _NO_CHANNEL
                if counts != _NO_CHANNEL:
                    self.channels.take(channel, (*counts, counts.deliver_get), passed_ms)
                    of_vhost.add_counts(counts)
                    seen.append((of_vhost, channel, counts))
        # From here to the end without a pause: what channels have counted that were closed meanwhile is with their
        # virtual host now, and must not be counted twice.
        for of_vhost, channel, counts in seen:
            if channel.state != OPEN:
                of_vhost.take_counts(counts)
        for vhost, of_vhost in rounds.items():
            of_vhost.add_counts(vhost.closed_counts)
        for connection, sample in self.connections.newest.items():
            if connection not in self._broker.connections:
                received, sent = self._closed.get(connection.vhost, (0, 0))
                self._closed[connection.vhost] = (received + sample.counts[0], sent + sample.counts[1])
        self._closed = {vhost: octets for vhost, octets in self._closed.items() if vhost in rounds}
        await self.connections.end_round(0, slices)
        await self.channels.end_round(0, slices)

    async def _look_at_queues(
        self, rounds: dict[VirtualHost, _VhostRound], at_ms: int, passed_ms: int, slices: Slices
    ) -> None:
        cluster = self._broker.cluster
        for vhost, of_vhost in rounds.items():
            for queue in list(vhost.queues.values()):
                await slices.rest()
                if cluster.is_elsewhere(queue):
                    continue
                counts, ready, unacked = queue.counts(), len(queue), queue.unacked
                of_vhost.ready += ready
                of_vhost.unacked += unacked
                if any(counts) or ready or unacked:
                    numbers = (*counts, counts.deliver_get, ready + unacked, ready, unacked)
                    self.queues.take(queue, numbers, passed_ms)
        await self.queues.end_round(at_ms, slices)

    async def _sum_up(self, rounds: dict[VirtualHost, _VhostRound], at_ms: int, passed_ms: int, slices: Slices) -> None:
        ready = unacked = received = sent = 0
        for vhost, of_vhost in rounds.items():
            counts = of_vhost.total()
            closed = self._closed.get(vhost, (0, 0))
            octets = (of_vhost.received_bytes + closed[0], of_vhost.sent_bytes + closed[1])
            lengths = (of_vhost.ready + of_vhost.unacked, of_vhost.ready, of_vhost.unacked)
            self.vhosts.take(vhost, (*counts, counts.deliver_get, *lengths, *octets), passed_ms)
            ready += of_vhost.ready
            unacked += of_vhost.unacked
            received += octets[0]
            sent += octets[1]
        await self.vhosts.end_round(at_ms, slices)
        messages = ChannelCounts(*map(sum, zip(*(each.total() for each in rounds.values()), strict=True)))
        journal = self._broker.journal
        stored = (journal.page_store.fetched, journal.stored)
        churn = tuple(getattr(self._broker.churn, name) for name in CHURN_COLUMNS)
        numbers = (
            *messages,
            messages.deliver_get,
            ready + unacked,
            ready,
            unacked,
            received,
            sent,
            *stored,
            *churn,
            *self._gauges(),
        )
        self.broker.take(None, numbers, passed_ms)
        await self.broker.end_round(at_ms, slices)
