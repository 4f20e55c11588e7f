"""The elected primary that writes the log, and on which the shared queues are active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.cluster.log.log_writer import LogWriter
from openclust.cluster.protocol.status import Position, Reign
from openclust.cluster.roles.role import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclust.broker.amqp.bundle import Bundle
    from openclust.broker.cluster_port import Done
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.journal.journal import Sealed
    from openclust.broker.model.changes import Change
    from openclust.cluster.membership.membership import Membership
    from openclust.cluster.protocol.messages import Answer, Ask, Enlist, Held, Question
    from openclust.cluster.shared_queues.forwarding import Letter
    from openclust.cluster.shared_queues.remote_queue import RemoteQueue


class Root(Role):
    """Whatever was waiting for a root is done here."""

    is_root = True

    def __init__(self, membership: Membership, epoch: int) -> None:
        super().__init__(membership)
        self.reign = Reign(epoch, membership.name)
        self.log = LogWriter(membership, epoch)

    def enter(self) -> None:
        cluster = self._cluster
        cluster.replica.own()
        self.log.begin()
        cluster.broker.take_charge()
        cluster.handover.take_in()
        cluster.meta_bindings.serve_secondaries(cluster.links.secondaries_up())
        cluster.remote_consumers.attach_all_here()
        cluster.root_requests.ask_again()
        cluster.forwarding.send_again()

    def leave(self) -> None:
        """Deliveries go back into their queues. What no log has goes to the next root, and so do open requests."""
        cluster = self._cluster
        cluster.control_room.end_reign()
        entered, left = cluster.storing.abandon()
        cluster.broker.topology_changed()
        cluster.proxies.end()
        cluster.remote_consumers.resigned()
        cluster.meta_bindings.serve_secondaries(())
        cluster.handover.resign(entered, left)
        cluster.replica.sender.end_all()
        for change, done in self.log.give_up():
            cluster.broker.define(change, done)

    def link_up(self, peer: str) -> None:
        if self._cluster.links.is_secondary(peer):
            self._cluster.meta_bindings.serve_secondary(peer)

    def peer_gone(self, name: str) -> None:
        self.log.peer_gone(name)

    def flush(self) -> None:
        self.log.flush()

    def tick(self) -> None:
        self.log.tick()

    def define(self, change: Change, done: Done) -> None:
        self.log.define(change, done)

    def tidy(self, change: Change) -> None:
        self._cluster.broker.define(change)

    def ask(self, number: int, question: Question) -> None:
        """This broker has become root while it asked."""
        cluster, name = self._cluster, self._cluster.name

        def reply(answer: Answer) -> None:
            cluster.root_requests.answered(name, answer)

        cluster.root_answers.decide(name, question, reply, number, self.log)

    def forward(self, letter: Letter) -> bool:
        self._cluster.forwarding.publish_here(letter)
        return True

    def registered(self, consumer: Consumer, source: RemoteQueue, confirm: Callable[[], None]) -> None:
        """It asked before this broker was root: the queue itself delivers, after its client was told."""
        confirm()
        self._cluster.remote_consumers.attach_here(consumer)

    def commit(self, bundle: Bundle, done: Done) -> None:
        self._cluster.transactions.commit_here(bundle, done)

    def asked(self, peer: str, ask: Ask) -> None:
        cluster = self._cluster

        def reply(answer: Answer) -> None:
            cluster.links.send(peer, answer)

        cluster.root_answers.decide(peer, ask.question, reply, ask.number, self.log)

    def enlisted(self, peer: str, message: Enlist) -> None:
        self.log.enlisted(peer, message)

    def held(self, peer: str, message: Held) -> None:
        self.log.held(peer, message)

    def add_work(self, batch: Sealed) -> Position:
        return self.log.add_work(batch)

    def is_on_disk(self) -> None:
        self.log.settle()

    @property
    def waiting(self) -> int:
        return self.log.waiting

    def lag(self, name: str) -> int | None:
        return self.log.lag(name)

    def lag_on_disk(self, name: str) -> int | None:
        return self.log.lag_on_disk(name)
