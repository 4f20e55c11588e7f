"""Whatever happens to a cluster, when it is whole again all brokers are equal, and each message arrives once."""

from __future__ import annotations

import random

import pytest

from openclust.cluster.relay.meta_bindings import OTHERS, MetaBinding
from openclust.wire.methods import (
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueueUnbind,
)
from tests.cluster.relay.test_meta_bindings import agree
from tests.support.cluster.joined import HEARTBEAT_MS, Application, Joined
from tests.support.examples import seeds
from tests.support.shared_state import digest, shared_state

PRIMARIES = ("p1", "p2", "p3")
SECONDARIES = ("s1", "s2")
STEPS = 60


class Life:
    """One cluster's life, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = Joined(*PRIMARIES, secondaries=SECONDARIES)
        self.subscribers: list[Application] = []

    def run(self) -> None:
        for _ in range(STEPS):
            self.random.choice((self.define, self.define, self.define, self.subscribe, self.leave, self.disturb))()

    # -- what applications do

    def somewhere(self) -> str:
        """A broker that lets clients in."""
        members = self.cluster.members.values()
        return self.random.choice(sorted(each.name for each in members if not each.membership.closed_to_clients))

    def define(self) -> None:
        """A change by an application that does not wait for the answer."""
        name, other = (self.random.choice("abc") for _ in range(2))
        key = self.random.choice(("", "k"))
        methods: tuple[Method, ...] = (
            QueueDeclare(queue=f"q-{name}"),
            QueueDeclare(queue=f"q-{name}", auto_delete=True),
            QueueDeclare(queue=f"q-{name}", exclusive=True),
            QueueDelete(queue=f"q-{name}"),
            ExchangeDeclare(exchange=f"e-{name}", type=self.random.choice(("fanout", "topic", "direct"))),
            ExchangeDelete(exchange=f"e-{name}"),
            QueueBind(queue=f"q-{name}", exchange=f"e-{other}", routing_key=key),
            QueueUnbind(queue=f"q-{name}", exchange=f"e-{other}", routing_key=key),
        )
        client = self.cluster.client(self.somewhere())
        client.send(self.random.choice(methods))
        self.subscribers.append(client)

    def subscribe(self) -> None:
        client = self.cluster.client(self.somewhere())
        client.send(QueueDeclare(queue="", exclusive=True), channel=1)
        client.send(QueueBind(queue="", exchange=self.random.choice(("amq.fanout", "e-a", "e-b")), routing_key="k"))
        self.subscribers.append(client)

    def leave(self) -> None:
        living = [each for each in self.subscribers if each.broker in self.brokers()]
        if living:
            client = self.random.choice(living)
            self.subscribers.remove(client)
            client.lose()

    def brokers(self) -> list[object]:
        return [each.broker for each in self.cluster.members.values()]

    # -- what happens to brokers

    def disturb(self) -> None:
        cluster = self.cluster
        one, other = self.random.sample(sorted(cluster.members), 2)
        are_linked = other in cluster.members[one].wires and one in cluster.members[other].wires
        choice = self.random.randrange(8)
        if choice == 0 and len(cluster.members) > 3:
            cluster.kill(one)
        elif choice == 1:
            for name in (*PRIMARIES, *SECONDARIES):
                if name not in cluster.members:
                    cluster.start(name)
        elif choice == 2 and are_linked:
            cluster.cut(one, other)
        elif choice == 3:
            self.mend()
        elif choice == 4 and are_linked:
            cluster.redial(one, other)
        elif choice == 5 and are_linked:
            cluster.hold(one, other)
        elif choice == 6 and cluster.root:
            cluster.step_down(cluster.root)
        else:
            cluster.tick(self.random.choice((1, 3, 10)) * HEARTBEAT_MS)

    def mend(self) -> None:
        for pair in sorted(map(sorted, self.cluster.cuts)):
            self.cluster.mend(*pair)
        for sender, receiver in sorted(self.cluster.held):
            self.cluster.let_go(sender, receiver)

    def heal(self) -> None:
        for name in (*PRIMARIES, *SECONDARIES):
            if name not in self.cluster.members:
                self.cluster.start(name)
        self.mend()
        self.cluster.await_root(within_ms=30_000)
        self.cluster.tick(10 * HEARTBEAT_MS)
        self.cluster.await_root()
        for name in self.cluster.members:
            self.cluster[name].tell_digests()
        self.cluster.settle()


@pytest.fixture(params=seeds(20))
def healed(request: pytest.FixtureRequest) -> Joined:
    life = Life(request.param)
    life.run()
    life.heal()
    return life.cluster


def wanted_by_others(cluster: Joined, secondary: str) -> set[MetaBinding]:
    others = [cluster[name].meta_bindings.own for name in SECONDARIES if name != secondary]
    return {item for told in others for item in told.counts}


def test_a_cluster_that_is_whole_again_is_as_if_nothing_had_been(healed: Joined) -> None:
    names = sorted(healed.members)
    # Definitions
    assert len({healed[name].replica.position for name in names}) == 1
    states = {
        name: digest(shared_state(healed.broker(name)) + healed[name].replica.definitions.hidden.changes())
        for name in names
    }
    assert len(set(states.values())) == 1, states
    # Meta-bindings
    for one in names:
        for other in healed[one].links.outboxes:
            assert agree(healed, one, other), f"{other} holds something else of {one}"
    for name in SECONDARIES:
        known = healed[name].meta_bindings.held.get(OTHERS)
        assert (set(known.items()) if known is not None else set()) == wanted_by_others(healed, name)
    # Nothing waits any more
    for name in names:
        assert len(healed[name].root_requests) == 0 and healed[name].forwarding.waiting == 0
    # Messages
    inboxes = {name: healed.client(name) for name in names}
    for client in inboxes.values():
        queue = client.queue(exclusive=True)
        client.bind(queue, "amq.fanout")
        client.consume(queue, no_ack=True)
    for at in names:
        healed.client(at).publish("", at.encode(), exchange="amq.fanout")
        for name, client in inboxes.items():
            assert client.bodies() == [at.encode()], f"from {at} at {name}"
