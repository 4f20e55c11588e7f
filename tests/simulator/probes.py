"""What is tried when all is well again: messages reach whom they must, and a root that steps down loses none."""

from __future__ import annotations

from collections import Counter

from openclust.broker.model.changes import DeclareQueue
from openclust.wire.codec import method_frame
from openclust.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicReturn,
    ConfirmSelect,
)
from tests.simulator.application import Application
from tests.simulator.host import Host
from tests.simulator.invariants import Violation
from tests.simulator.nodes import Nodes
from tests.simulator.peace import settle
from tests.simulator.workload import BUILT_IN, KEYS, Publisher, Subscriber

QUEUE = "probe"
FEED = "feed"
ANSWERED_US = 1_000_000
DELIVERED_US = 3_000_000
MESSAGES = 3
AT_ONCE = (1, 7, 40)


class _Sender(Application):
    """Publishes to the queue, and counts what is not confirmed."""

    def __init__(self, world: Nodes, host: Host) -> None:
        self.waits: dict[int, bytes] = {}
        self.number = 0
        super().__init__(world, host)

    def send(self) -> bytes:
        self.number += 1
        body = self.waits[self.number] = self.publish("", QUEUE, mandatory=True)
        return body

    def confirmed(self, method: BasicAck | BasicNack) -> None:
        if isinstance(method, BasicNack):
            raise Violation(f"{self.host.name} refuses a message, though all is well: {method}")
        upto = method.delivery_tag
        for tag in [each for each in self.waits if each == upto or (method.multiple and each < upto)]:
            del self.waits[tag]

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        raise Violation(f"{self.host.name} gives a message back, though there is a queue for it: {method}")


class _Receiver(Application):
    """Consumes from the queue, with acks."""

    def __init__(self, world: Nodes, host: Host, got: Counter[bytes], again: Counter[bytes]) -> None:
        self._got = got
        self._again = again
        super().__init__(world, host)

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        assert isinstance(method, BasicDeliver), method
        (self._again if method.redelivered else self._got)[body] += 1
        self.say(method_frame(1, BasicAck(delivery_tag=method.delivery_tag)))

    def cancelled(self) -> None:
        raise Violation(f"{self.host.name} cancels a consumer of a queue that is there")


class _Taker(Application):
    """Consumes the feed, without acks."""

    def __init__(self, world: Nodes, host: Host) -> None:
        self.got: list[bytes] = []
        super().__init__(world, host)

    def delivered(self, method: BasicDeliver | BasicGetOk | BasicReturn, body: bytes) -> None:
        self.got.append(body)


def probe_private(world: Nodes) -> None:
    """Messages published at every broker reach every private queue that wants them."""
    applications = [each for host in world.brokers.values() for each in host.applications]
    subscribers = [each for each in applications if isinstance(each, Subscriber)]
    sent = []
    for host in world.brokers.values():
        publisher = Publisher(world, host)
        world.run(until_us=world.now_us + 5_000)
        for exchange in BUILT_IN[1:]:
            key = world.chance.choice(KEYS)
            sent.append((host.name, exchange, key, publisher.publish(exchange, key)))
    world.run(until_us=world.now_us + 50_000)
    for origin, exchange, key, body in sent:
        for each in subscribers:
            wants = each.is_consuming and each.is_open and (exchange, key) in each.bound
            if wants and not world.ledger.has(each.place, body):
                text = f"message {body!r}, published at {origin} to {exchange} with {key}"
                raise Violation(f"{text}, has not come to {each.queue} at {each.host.name}")


def probe_shared(world: Nodes) -> None:
    """Messages for a shared queue, published at every broker, are consumed on some; the root steps down meanwhile."""
    hosts = list(world.brokers.values())
    _declare(world, world.chance.choice(hosts), DeclareQueue(vhost="/", name=QUEUE))
    senders = [_Sender(world, host) for host in hosts]
    _wait(world, lambda: all(each.asked is None for each in senders), "a channel for each publisher", ANSWERED_US)
    for each in senders:
        each.ask(ConfirmSelect())
    _wait(world, lambda: all(each.asked is None for each in senders), "an answer to each publisher", ANSWERED_US)
    sent = _send(world, senders)
    world.step_down(world.root())
    settle(world)
    got: Counter[bytes] = Counter()
    again: Counter[bytes] = Counter()
    chosen = world.chance.sample(hosts, min(3, len(hosts)))
    receivers = [_Receiver(world, host, got, again) for host in chosen]
    for question in (BasicQos(prefetch_count=world.chance.choice((0, 1, 10))), BasicConsume(queue=QUEUE)):
        _wait(world, lambda: all(each.asked is None for each in receivers), "an answer to each consumer", ANSWERED_US)
        for receiver in receivers:
            receiver.ask(question)
    sent += _send(world, senders)
    _wait(world, lambda: not set(sent) - got.keys() - again.keys(), "what the root had, and more", DELIVERED_US)
    once = list(sent)
    _demand_once(once, got, again, may_come_again=False)
    # A root that goes before its log tells what it has delivered can tell nobody: the next one delivers it as new.
    _wait(world, lambda: _is_told(world), "a log that tells of all acks", DELIVERED_US)
    world.step_down(world.root())
    sent += _send(world, senders)
    settle(world)
    _wait(world, lambda: not set(sent) - got.keys() - again.keys(), "what came while roots changed", DELIVERED_US)
    # The last round may come twice: brokers gave it to the next root too, not knowing that the last one had it.
    _demand_once(once, got, again, may_come_again=True)
    for application in (*senders, *receivers):
        application.close()


def _is_told(world: Nodes) -> bool:
    """Whether the queue is empty, and was so in time for the log that all have."""
    root = world.root()
    if not root:
        return False
    node = world.brokers[root].running
    queue, replica = node.broker.vhosts["/"].queues[QUEUE], node.membership.replica
    is_told = node.broker.journal.is_empty and node.membership.commit_index.disk == replica.position
    return is_told and not queue.backlog and not queue.recorded_unacked


def probe_feed(world: Nodes) -> None:
    """What is published at one broker, some and many at once, comes to a consumer at another: each once, in order."""
    hosts = list(world.brokers.values())
    _declare(world, world.chance.choice(hosts), DeclareQueue(vhost="/", name=FEED, durable=False))
    known = lambda: all(FEED in host.running.broker.vhosts["/"].queues for host in hosts)  # noqa: E731
    _wait(world, known, "a queue that all know", DELIVERED_US)
    taker, publisher = _Taker(world, world.chance.choice(hosts)), Application(world, world.chance.choice(hosts))
    _wait(world, lambda: taker.asked is None and publisher.asked is None, "channels", ANSWERED_US)
    taker.ask(BasicConsume(queue=FEED, no_ack=True))
    _wait(world, lambda: taker.asked is None, "an answer to a consumer", ANSWERED_US)
    sent = []
    for count in world.chance.sample(AT_ONCE, len(AT_ONCE)):
        sent += publisher.publish_at_once("", FEED, count)
    _wait(world, lambda: len(taker.got) >= len(sent), "what was published without confirms", DELIVERED_US)
    world.run(until_us=world.now_us + 10_000)
    if taker.got != sent:
        raise Violation(f"of {sent}, published at {publisher.host.name}, {taker.host.name} delivered {taker.got}")
    taker.close()
    publisher.close()


def _declare(world: Nodes, host: Host, declare: DeclareQueue) -> None:
    answers: list[object] = []
    world.give(host, host.life, lambda now_ms: host.running.broker.define(declare, answers.append))
    _wait(world, lambda: bool(answers), "a queue", ANSWERED_US)
    if isinstance(answers[0], Exception):
        raise Violation(f"{host.name} refuses a queue, though all is well: {answers[0]}")
    # A broker that lacks entries which the root keeps no more installs a snapshot first, in many turns.
    _wait(world, lambda: all(_knows(each, declare) for each in world.brokers.values()), "all to know it", ANSWERED_US)


def _knows(host: Host, declare: DeclareQueue) -> bool:
    replica = host.running.membership.replica
    return not replica.is_installing and declare.name in host.running.broker.vhosts[declare.vhost].queues


def _send(world: Nodes, senders: list[_Sender]) -> list[bytes]:
    sent = [sender.send() for sender in senders for _ in range(MESSAGES)]
    _wait(world, lambda: not any(each.waits for each in senders), "confirms", DELIVERED_US)
    return sent


def _wait(world: Nodes, stop: object, what: str, within_us: int) -> None:
    assert callable(stop)
    if not stop() and not world.run(until_us=world.now_us + within_us, stop=stop):
        raise Violation(f"waited in vain for {what}, {within_us // 1_000} ms")


def _demand_once(bodies: list[bytes], got: Counter[bytes], again: Counter[bytes], *, may_come_again: bool) -> None:
    twice = [body for body in bodies if got[body] > 1 or (not may_come_again and got[body] + again[body] > 1)]
    if twice:
        raise Violation(f"messages {twice} were delivered twice, and not as redelivered")
