"""One load generator at one broker: it declares, attaches, runs rounds, and cleans up in the end."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial

from openclust.bench.brokers.broker_process import BrokerProcess
from openclust.bench.client import frames
from openclust.bench.client.acknowledger import Acknowledger
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.spread import share, wait_until_known
from openclust.bench.client.subscribers import Subscription, attach, declaration, detach, raise_open_files
from openclust.bench.load.load_messages import Order
from openclust.bench.load.publisher import Publisher
from openclust.bench.load.traffic import Traffic
from openclust.bench.load.work import BY_QUEUE_NAME, LEFT_BEHIND, Figures

Tell = Callable[[str, int], None]


class Session:
    """Close it in any case: it deletes what it declared."""

    def __init__(self, order: Order, stop_fd: int | None, tell: Tell) -> None:
        self.work = work = order.work
        self._order = order
        self._broker = BrokerProcess(*order.broker_pids) if order.broker_pids else None
        self._stop_fd, self._tell = stop_fd, tell
        name = f"bench.{secrets.token_hex(4)}"
        self.queues = [f"{name}.{number}" for number in range(work.subscribers)]
        self.exchange = "" if work.pattern in BY_QUEUE_NAME else name
        self._sockets: list[socket.socket] = []
        self._traffic: Traffic | None = None
        self.connection = BenchConnection(order.url)
        self._elsewhere: list[BenchConnection] = []
        try:
            for place in order.subscribers_at:
                self._elsewhere.append(BenchConnection(place))
            if work.pattern != "connections":
                self._attach()
        except BaseException:
            self.close()
            raise

    def run(self, seconds: float | None) -> Figures:
        """Run one round; `seconds` is used instead of the length that the work says."""
        if self.work.pattern == "connections":
            return self._run_connections()
        assert self._traffic is not None
        count = self.work.count if seconds is None else None
        seconds = self.work.seconds if seconds is None else seconds
        return self._traffic.run(seconds, count, self._broker, lambda done: self._tell("deliveries", done))

    def close(self) -> None:
        """Detach the subscribers, delete what was declared, and close the connections."""
        self._detach()
        leftovers = []
        if self.exchange:
            leftovers.append((frames.exchange_delete(1, self.exchange), frames.EXCHANGE_DELETE_OK))
        if self.work.pattern in LEFT_BEHIND:
            leftovers += [(frames.queue_delete(1, queue), frames.QUEUE_DELETE_OK) for queue in self.queues]
        try:
            for request, answer in leftovers:
                self.connection.call(request, answer)
        except BenchError:
            pass  # the connection is lost, and the broker has deleted what was exclusive or auto-delete
        for connection in self._elsewhere:
            connection.close()
        self.connection.close()

    def _attach(self) -> None:
        work = self.work
        if self.exchange:
            kind = "topic" if work.pattern == "topic" else "fanout"
            for connection in (self.connection, *self._elsewhere):
                connection.call(frames.exchange_declare(1, self.exchange, kind), frames.EXCHANGE_DECLARE_OK)
        subscriptions = [
            Subscription(
                queue=queue,
                exchange=self.exchange,
                binding_keys=work.binding_keys(number),
                prefetch=work.prefetch if work.acknowledged else None,
                durable=work.pattern == "durable",
                exclusive=work.pattern not in LEFT_BEHIND,
                arguments=self._order.queue_arguments,
            )
            for number, queue in enumerate(self.queues)
        ]
        raise_open_files(len(subscriptions))
        self._declare_first(subscriptions)
        for place, part in share(subscriptions, self._elsewhere or [self.connection]):
            tell = partial(self._tell_attached, len(self._sockets))
            self._sockets += attach(place, [[each] for each in part], work.attach_window, tell)
        if self._elsewhere:
            self._wait_until_known(subscriptions[0])
        if work.acknowledged:
            self.connection.call(frames.confirm_select(1), frames.CONFIRM_SELECT_OK)
        publisher = Publisher(self.connection, work, self.exchange, self.queues[0])
        acknowledger = Acknowledger(self._sockets[0], self.queues[0]) if work.acknowledged else None
        self._traffic = Traffic(work, publisher, self._sockets, acknowledger, self._stop_fd)
        if work.pattern != "connections":
            self._traffic.calibrate()

    def _declare_first(self, subscriptions: Sequence[Subscription]) -> None:
        """Declare the queues at `declared_at`: most brokers keep a queue where it was declared."""
        if self._order.declared_at is not None:
            with closing(BenchConnection(self._order.declared_at)) as connection:
                for each in subscriptions:
                    connection.call(declaration(each), frames.QUEUE_DECLARE_OK)

    def _tell_attached(self, before: int, number: int) -> None:
        self._tell("attached", before + number)

    def _wait_until_known(self, first: Subscription) -> None:
        """The publisher's broker must know of the subscribers at the others, or the first messages miss them."""
        if self.exchange:
            wait_until_known(self.connection, self._elsewhere)
        else:
            self.connection.call(declaration(first), frames.QUEUE_DECLARE_OK)

    def _detach(self) -> None:
        detach(self._sockets)
        self._sockets = []

    def _run_connections(self) -> Figures:
        """Attach all and take the time; measure memory while they idle, and again after a few messages to each."""
        broker = self._broker
        rss_before = broker.rss() if broker else None
        cpu, started = broker.cpu_s() if broker else 0.0, time.perf_counter()
        self._attach()
        attach_s = time.perf_counter() - started
        attach_cpu_s = broker.cpu_s() - cpu if broker else None
        assert self._traffic is not None
        self._settle()
        rss_idle = broker.rss() if broker else None
        self._traffic.calibrate()
        figures = self._traffic.run(0.0, self.work.count or 20, broker, lambda done: self._tell("deliveries", done))
        self._settle()
        figures.attached, figures.attach_s, figures.attach_cpu_s = len(self._sockets), attach_s, attach_cpu_s
        figures.rss_before, figures.rss_idle = rss_before, rss_idle
        figures.rss_after_traffic = broker.rss() if broker else None
        self._detach()
        return figures

    def _settle(self) -> None:
        if self._broker:
            self._tell("waiting for the broker to be idle", 0)
            self._broker.settle()
