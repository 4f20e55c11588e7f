"""Counts are exact: whatever clients do, each channel, queue and exchange counts what the clients have seen."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from openclust.broker.counts.message_counts import ChannelCounts, ExchangeCounts, QueueCounts
from openclust.broker.server.broker import Broker
from openclust.wire.methods import (
    BasicAck,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.support.client import Client, Delivery, new_broker, publish_frames
from tests.support.examples import seeds
from tests.support.invariants import check

STEPS = 150
PLAIN, CONFIRMED, TRANSACTIONAL = 1, 2, 3
CONSUMING = 1
QUEUES = ("straight", "acked", "pulled", "limited", "dead")
ROUTES: dict[tuple[str, str], tuple[str, ...]] = {
    **{("", name): (name,) for name in QUEUES if name != "dead"},
    ("all", ""): ("straight", "acked", "pulled"),
    ("news", "news.one"): ("pulled", "straight"),
    ("news", "nobody"): (),
    ("", "nobody"): (),
    ("by-header", ""): ("acked",),
}
CONSUMERS = {"of straight": "straight", "of acked": "acked"}


def add_route_counts(broker: Broker) -> None:
    for vhost in broker.vhosts.values():
        for route in vhost.routes_in_use():
            vhost.route_counts.add(route)
        while vhost.route_counts.add_forgotten():
            pass


class Course:
    """Two clients that do something at each step, and all that they have seen and done, counted."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.broker = new_broker()
        self.sender, self.receiver = Client(self.broker), Client(self.broker)
        self.of_channels: Counter[str] = Counter()
        self.of_queues: dict[str, Counter[str]] = {name: Counter() for name in QUEUES}
        self.of_exchanges: dict[str, Counter[str]] = {name: Counter() for name in ("", "all", "news", "by-header")}
        self.unacked: dict[int, str] = {}
        self.open_publishes: list[tuple[str, str, tuple[str, ...]]] = []
        self._declare()

    def _declare(self) -> None:
        sender = self.sender
        for name, type in (("all", "fanout"), ("news", "topic"), ("by-header", "headers")):
            sender.call(ExchangeDeclare(exchange=name, type=type), ExchangeDeclareOk)
        for name in QUEUES:
            arguments = {"x_max_length": 3, "x_dead_letter_exchange": "", "x_dead_letter_routing_key": "dead"}
            sender.queue(name, **(arguments if name == "limited" else {}))
        for name in ROUTES["all", ""]:
            sender.bind(name, "all")
        for name in ("pulled", "straight"):
            sender.bind(name, "news", "news.*")
        sender.bind("acked", "by-header", kind="this")
        sender.open_channel(CONFIRMED)
        sender.call(ConfirmSelect(), ConfirmSelectOk, channel=CONFIRMED)
        sender.open_channel(TRANSACTIONAL)
        sender.call(TxSelect(), TxSelectOk, channel=TRANSACTIONAL)
        self._consume()

    def _consume(self) -> None:
        self.receiver.call(BasicQos(prefetch_count=5), BasicQosOk)
        self.receiver.consume("straight", "of straight", no_ack=True)
        self.receiver.consume("acked", "of acked")
        self._hear()

    def step(self) -> None:
        actions: list[Callable[[], None]] = [
            self._publish,
            self._publish,
            self._publish_run,
            self._publish_copies,
            self._publish_in_transaction,
            self._commit,
            self._get,
            self._ack,
            self._ack,
            self._refuse,
            self._recover,
            self._change_topology,
            self._close_channel,
            self._look,
        ]
        self.random.choice(actions)()
        self._hear()

    # -- what the sender does

    def _route(self) -> tuple[str, str, tuple[str, ...]]:
        (exchange, key), queues = self.random.choice(sorted(ROUTES.items()))
        return exchange, key, queues

    def _count_publish(
        self, exchange: str, queues: tuple[str, ...], *, mandatory: bool = False, count: int = 1
    ) -> None:
        self.of_channels["publish"] += count
        self.of_exchanges[exchange]["publish_in"] += count
        self.of_exchanges[exchange]["publish_out"] += count * len(queues)
        for name in queues:
            self.of_queues[name]["publish"] += count
            if name == "limited":
                self._overflow(count)
        if not queues:
            self.of_channels["return_unroutable" if mandatory else "drop_unroutable"] += count

    def _overflow(self, count: int) -> None:
        """Heads of the short queue become dead letters, published to the queue "dead" through the default exchange."""
        length = self.of_queues["limited"]["length"] + count
        dead = max(0, length - 3)
        self.of_queues["limited"]["length"] = length - dead
        self.of_queues["dead"]["publish"] += dead
        self.of_exchanges[""]["publish_in"] += dead
        self.of_exchanges[""]["publish_out"] += dead

    def _publish(self) -> None:
        exchange, key, queues = self._route()
        channel = self.random.choice((PLAIN, CONFIRMED))
        mandatory = self.random.random() < 0.3
        headers = {"headers": {"kind": "this"}} if exchange == "by-header" else {}
        self.sender.publish(key, b"one", exchange=exchange, channel=channel, mandatory=mandatory, **headers)
        self._count_publish(exchange, queues, mandatory=mandatory)
        if channel == CONFIRMED:
            self.of_channels["confirm"] += 1

    def _publish_run(self) -> None:
        count = self.random.randrange(2, 30)
        self.sender.feed(b"".join(publish_frames("straight", b"%d" % number) for number in range(count)))
        self._count_publish("", ("straight",), count=count)

    def _publish_copies(self) -> None:
        self.sender.publish("straight", b"copied", headers={"CC": ["pulled"], "BCC": ["acked", "straight"]})
        self._count_publish("", ("straight", "pulled", "acked"))

    def _publish_in_transaction(self) -> None:
        exchange, key, queues = self._route()
        if exchange != "by-header":
            self.sender.publish(key, b"two", exchange=exchange, channel=TRANSACTIONAL)
            self.open_publishes.append((exchange, key, queues))

    def _commit(self) -> None:
        publishes, self.open_publishes = self.open_publishes, []
        if self.random.random() < 0.3:
            self.sender.call(TxRollback(), TxRollbackOk, channel=TRANSACTIONAL)
            return
        self.sender.call(TxCommit(), TxCommitOk, channel=TRANSACTIONAL)
        for exchange, _, queues in publishes:
            self._count_publish(exchange, queues)

    def _change_topology(self) -> None:
        """All routes are forgotten."""
        self.sender.queue("passing")
        self.sender.call(QueueDelete(queue="passing"), QueueDeleteOk)

    def _look(self) -> None:
        add_route_counts(self.broker)

    # -- what the receiver does

    def _get(self) -> None:
        name = self.random.choice(("pulled", "limited", "dead"))
        no_ack = self.random.random() < 0.5
        got = self.receiver.get(name, no_ack=no_ack)
        if got is None:
            self._count(name, "get_empty")
            return
        self._count(name, "get_no_ack" if no_ack else "get")
        self._count_redelivered(name, got)
        if name == "limited":
            self.of_queues[name]["length"] -= 1
        if not no_ack:
            self.unacked[got.tag] = name

    def _count(self, queue: str, what: str) -> None:
        self.of_channels[what] += 1
        self.of_queues[queue][what] += 1

    def _count_redelivered(self, queue: str, got: Delivery) -> None:
        if got.redelivered:
            self._count(queue, "redeliver")

    def _hear(self) -> None:
        for got in self.receiver.deliveries():
            assert isinstance(got.method, BasicDeliver)
            name = CONSUMERS[got.method.consumer_tag]
            self._count(name, "deliver" if name == "acked" else "deliver_no_ack")
            self._count_redelivered(name, got)
            if name == "acked":
                self.unacked[got.tag] = name

    def _settled(self) -> tuple[int, bool, list[str]]:
        tag = self.random.choice(sorted(self.unacked))
        multiple = self.random.random() < 0.4
        tags = [each for each in self.unacked if each == tag or (multiple and each < tag)]
        return tag, multiple, [self.unacked.pop(each) for each in tags]

    def _ack(self) -> None:
        if not self.unacked:
            return
        tag, multiple, queues = self._settled()
        self.receiver.send(BasicAck(delivery_tag=tag, multiple=multiple))
        for name in queues:
            self._count(name, "ack")

    def _refuse(self) -> None:
        if not self.unacked:
            return
        tag, multiple, queues = self._settled()
        back = self.random.random() < 0.5
        if multiple:
            self.receiver.send(BasicNack(delivery_tag=tag, multiple=True, requeue=back))
        else:
            self.receiver.send(BasicReject(delivery_tag=tag, requeue=back))
        self._left(queues, back=back)

    def _left(self, queues: list[str], *, back: bool) -> None:
        count = queues.count("limited")
        if count and back:
            self._overflow(count)
        elif count:
            self.of_queues["dead"]["publish"] += count
            self.of_exchanges[""]["publish_in"] += count
            self.of_exchanges[""]["publish_out"] += count

    def _recover(self) -> None:
        self.receiver.call(BasicRecover(requeue=True), BasicRecoverOk)
        queues, self.unacked = list(self.unacked.values()), {}
        self._left(queues, back=True)

    def _close_channel(self) -> None:
        self.receiver.call(ChannelClose(), ChannelCloseOk)
        queues, self.unacked = list(self.unacked.values()), {}
        self._left(queues, back=True)
        self.receiver.open_channel(CONSUMING)
        self._consume()

    # -- in the end

    def check(self) -> None:
        add_route_counts(self.broker)
        vhost = self.broker.vhosts["/"]
        total = vhost.closed_counts
        for client in (self.sender, self.receiver):
            for channel in client.connection.channels.values():
                total = total.plus(channel.counts())
        assert total == ChannelCounts(**self.of_channels)
        for name, counted in self.of_queues.items():
            wanted = {key: value for key, value in counted.items() if key in QueueCounts._fields}
            assert vhost.queues[name].counts() == QueueCounts(**wanted), name
        for name, counted in self.of_exchanges.items():
            assert vhost.exchanges[name].counts() == ExchangeCounts(**counted), name
        assert self.broker.published == total.publish
        check(self.broker)


@pytest.mark.parametrize("seed", seeds(6))
def test_counts_are_what_clients_have_done_and_seen(seed: int) -> None:
    course = Course(seed)
    for _ in range(STEPS):
        course.step()
    course.check()


def test_counts_of_closed_connections_stay_with_their_virtual_host() -> None:
    broker = new_broker()
    client = Client(broker)
    client.queue("q")
    client.publish("q", b"one")
    client.close()
    assert broker.vhosts["/"].closed_counts.publish == broker.closed_counts.publish == broker.published == 1


def test_counts_of_many_forgotten_routes_wait_and_are_not_lost() -> None:
    broker = new_broker()
    client = Client(broker)
    client.call(ExchangeDeclare(exchange="all", type="fanout"), ExchangeDeclareOk)
    for number in range(60):
        client.queue(f"q{number}")
        client.bind(f"q{number}", "all")
    for number in range(60):
        client.publish(f"key {number}", b"one", exchange="all")
    client.queue("one more")
    counts = broker.vhosts["/"].route_counts
    assert broker.vhosts["/"].queues["q0"].routed < 60
    while counts.add_forgotten():
        pass
    assert {broker.vhosts["/"].queues[f"q{number}"].routed for number in range(60)} == {60}


def test_what_comes_and_goes_is_counted() -> None:
    broker = new_broker()
    client = Client(broker)
    client.queue("q")
    client.queue("q")
    client.open_channel(2)
    client.call(QueueDelete(queue="q"), QueueDeleteOk)
    churn = broker.churn
    assert (churn.queue_declared, churn.queue_created, churn.queue_deleted) == (2, 1, 1)
    client.close()
    assert (churn.channel_created, churn.channel_closed) == (2, 2)
    assert (churn.connection_created, churn.connection_closed) == (1, 1)


def test_dead_letters_are_counted_by_their_reason() -> None:
    broker = new_broker()
    client = Client(broker)
    client.queue("dead")
    client.queue("q", x_max_length=1, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    for number in range(3):
        client.publish("q", b"%d" % number)
    client.get("q", no_ack=False)
    client.nack(1, requeue=False)
    assert broker.dead_lettered == {"maxlen": 2, "rejected": 1}
