"""Consumers everywhere, links that come and go, clients that stop reading: in the end nothing is lost or stuck.

A failing seed replays: `Play(seed).run()`.
"""

from __future__ import annotations

from random import Random

import pytest

from openclust.broker.queues.queue import Queue
from openclust.wire.methods import BasicAck, BasicCancel, BasicConsume, BasicQos, BasicQosOk
from tests.support.cluster.joined import Application, Joined
from tests.support.examples import seeds

NAMES = ("p1", "p2", "p3", "s1")
QUEUES = ("q", "r")
STEPS = 120
ROUNDS_MAX = 5_000
LINKS = [(one, other) for one in NAMES for other in NAMES if one != other]


class Consuming:
    """A client with consumers: their tags, and the deliveries that it has to acknowledge."""

    def __init__(self, client: Application) -> None:
        self.client = client
        self.consumers: list[str] = []
        self.unacked: list[int] = []

    def hear(self, seen: set[bytes]) -> None:
        for each in self.client.deliveries():
            seen.add(each.body)
            self.unacked.append(each.tag)


class Play:
    """One random course of events. With `moves`, the root changes too, and leaves its messages behind."""

    def __init__(self, seed: int, *, moves: bool = False) -> None:
        self.random = Random(seed)
        self.moves = moves
        outbox_bytes_max = self.random.choice([1_000, 20_000, 1_000_000])
        self.cluster = Joined("p1", "p2", "p3", secondaries=("s1",), outbox_bytes_max=outbox_bytes_max)
        self.publishers = {name: self.cluster.client(name) for name in NAMES}
        for queue in QUEUES:
            self.publishers["p1"].queue(queue)
        self.clients: list[Consuming] = []
        self.sent: set[bytes] = set()
        self.seen: set[bytes] = set()
        self.cut: frozenset[str] = frozenset()

    def run(self) -> None:
        events = [self.publish] * 4 + [self.answer] * 3
        events += [self.come, self.leave, self.stop_reading, self.read_on, self.relink, self.cut_or_mend]
        events += [self.hold_or_let_go, self.pass_time]
        for _ in range(STEPS):
            self.random.choice(events)()
        self.heal()
        self.finish()
        self.check()

    # -- what happens

    def publish(self) -> None:
        name = self.random.choice(NAMES) if self.moves else "p1"
        for _ in range(self.random.choice([1, 3, 40])):
            body = b"%d" % len(self.sent)
            self.sent.add(body)
            self.publishers[name].publish(self.random.choice(QUEUES), body)

    def come(self) -> None:
        if len(self.clients) == 8:
            return
        consuming = Consuming(self.cluster.client(self.random.choice(NAMES)))
        qos = BasicQos(prefetch_count=self.random.choice([0, 1, 3, 50]), global_=self.random.random() < 0.3)
        consuming.client.call(qos, BasicQosOk)
        for tag in ("a", "b")[: self.random.choice([1, 2])]:
            consuming.client.send(BasicConsume(queue=self.random.choice(QUEUES), consumer_tag=tag))
            consuming.consumers.append(tag)
        self.clients.append(consuming)

    def answer(self) -> None:
        if not self.clients:
            return
        each = self.random.choice(self.clients)
        each.hear(self.seen)
        if not each.unacked or each.client.connection.hold:
            return
        at = self.random.randrange(len(each.unacked))
        tag = each.unacked[at]
        multiple = self.random.random() < 0.4
        del each.unacked[0 if multiple else at : at + 1]
        if self.random.random() < 0.7:
            each.client.ack(tag, multiple=multiple)
        else:
            each.client.nack(tag, multiple=multiple)

    def leave(self) -> None:
        if not self.clients:
            return
        each = self.random.choice(self.clients)
        if self.random.random() < 0.5:
            self.clients.remove(each)
            each.hear(self.seen)
            each.client.lose()
        elif each.consumers and not each.client.connection.hold:
            each.client.send(BasicCancel(consumer_tag=each.consumers.pop()))

    def stop_reading(self) -> None:
        if self.clients:
            self.random.choice(self.clients).client.stop_reading()

    def read_on(self) -> None:
        if self.clients:
            each = self.random.choice(self.clients)
            each.client.read_on()
            each.hear(self.seen)

    def relink(self) -> None:
        link = self.random.choice(LINKS)
        if link not in self.cluster.held and link[0] in self.cluster.members[link[1]].wires:
            self.random.choice([self.cluster.redial, self.cluster.replace_link])(*link)

    def cut_or_mend(self) -> None:
        one, other = self.random.choice(LINKS)
        if self.cut:
            self.cluster.mend(*sorted(self.cut))
            self.cut = frozenset()
        elif one in self.cluster.members[other].wires:
            self.cut = frozenset((one, other))
            self.cluster.cut(one, other)

    def hold_or_let_go(self) -> None:
        link = self.random.choice(LINKS)
        if link in self.cluster.held:
            self.cluster.let_go(*link)
        elif link[0] in self.cluster.members[link[1]].wires:
            self.cluster.hold(*link)

    def pass_time(self) -> None:
        self.let_all_go()
        self.cluster.tick()
        if self.moves and self.cluster.root and self.random.random() < 0.3:
            self.cluster.step_down(self.cluster.root)

    def let_all_go(self) -> None:
        for link in sorted(self.cluster.held):
            self.cluster.let_go(*link)

    # -- how it ends

    def heal(self) -> None:
        self.let_all_go()
        if self.cut:
            self.cluster.mend(*sorted(self.cut))
        self.cluster.tick(1_500)
        self.cluster.await_root()

    def finish(self) -> None:
        """All read and acknowledge, until nothing more comes."""
        for _ in range(ROUNDS_MAX):
            is_busy = False
            for each in self.clients:
                each.client.read_on()
                each.hear(self.seen)
                if each.unacked:
                    is_busy = True
                    each.unacked.clear()
                    each.client.send(BasicAck(delivery_tag=0, multiple=True))
            if not is_busy:
                return
        raise AssertionError("deliveries without end")

    def check(self) -> None:
        cluster, root = self.cluster, self.cluster.root
        queues: list[Queue] = [cluster.broker(root).vhosts["/"].queues[name] for name in QUEUES]
        assert sum(len(queue.consumers) for queue in queues) == sum(len(each.consumers) for each in self.clients)
        assert all(queue.unacked == 0 for queue in queues)
        assert not any(proxy.held for proxy in cluster[root].consumer_proxies)
        assert [len(cluster[name].root_requests) for name in NAMES] == [0] * len(NAMES)
        for each in self.clients:
            channel = each.client.connection.channels[1]
            assert not each.client.cancelled and not channel.unacked and not channel.credit_used
            assert all(not consumer.unacked for consumer in (channel.consumers or {}).values())
        if self.moves or cluster[root].epoch > 1:
            return
        left = [entry.message for queue in queues for entry in queue.backlog]
        assert self.seen | {message.body for message in left} == self.sent
        assert not any(len(queue) for queue in queues if len(queue.consumers))
        held = {name: cluster.broker(name).memory_accounts.held_bytes for name in NAMES}
        assert held == {**dict.fromkeys(NAMES, 0), root: sum(message.cost for message in left)}


@pytest.mark.parametrize("seed", seeds(6))
def test_whatever_happens_to_links_and_clients_no_message_is_lost_or_stuck(seed: int) -> None:
    Play(seed).run()


@pytest.mark.parametrize("seed", seeds(6))
def test_however_often_the_root_moves_all_consumers_are_there_and_nothing_is_stuck(seed: int) -> None:
    Play(seed, moves=True).run()
