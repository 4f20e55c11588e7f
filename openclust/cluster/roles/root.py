"""The elected primary that writes the log, and on which the shared queues are active."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.model.change_codec import encode_change
from openclust.cluster.log.log_writer import LogWriter
from openclust.cluster.protocol.status import Position, Reign
from openclust.cluster.relay.relay_lane import end_lanes
from openclust.cluster.roles.role import Role

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclust.broker.amqp.bundle import Bundle
    from openclust.broker.cluster_port import Done
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.journal.journal import Sealed
    from openclust.broker.model.changes import Change
    from openclust.cluster.protocol.messages import Answer, Ask, Enlist, Held, Question
    from openclust.cluster.roles.lasting import Lasting
    from openclust.cluster.shared_queues.forwarding import Letter
    from openclust.cluster.shared_queues.remote_queue import RemoteQueue


class Root(Role):
    """Requests, messages and consumers of shared queues are served here; those that waited for a root too."""

    is_root = True

    def __init__(self, parts: Lasting, epoch: int) -> None:
        super().__init__(parts)
        self.reign = Reign(epoch, parts.links.name)
        self.log = LogWriter(
            epoch,
            parts.broker,
            parts.links,
            parts.leadership,
            parts.elector,
            parts.replica,
            parts.log_store,
            parts.commit_index,
            parts.commit_registry,
            parts.cluster_uuid,
            wait_ms=parts.root_requests.wait_ms,
        )

    def enter(self) -> None:
        parts = self._parts
        parts.replica.own()
        self.log.begin()
        for change in parts.batch_commit.begin_reign(parts.replica.position):
            self.log.append_change(encode_change(change))
        parts.broker.take_charge()
        parts.handover.take_in()
        parts.meta_bindings.serve_secondaries(parts.links.secondaries_up())
        parts.remote_consumers.attach_all_here()
        parts.root_requests.ask_again()
        parts.forwarding.send_again()

    def leave(self) -> None:
        """Deliveries go back into their queues. The next root gets messages that no log has, and open requests."""
        parts = self._parts
        end_lanes(parts.peer_connections.values())
        entered, left = parts.batch_commit.abandon()
        parts.broker.topology_changed()
        parts.consumer_proxies.end()
        parts.remote_consumers.resigned()
        parts.meta_bindings.serve_secondaries(())
        parts.handover.resign(entered, left)
        parts.replica.sender.end_all()
        for change, done in self.log.give_up():
            parts.broker.define(change, done)

    def link_up(self, peer: str) -> None:
        if self._parts.links.is_secondary(peer):
            self._parts.meta_bindings.serve_secondary(peer)

    def peer_gone(self, name: str) -> None:
        self.log.peer_gone(name)

    def flush(self) -> None:
        self.log.flush()

    def tick(self) -> None:
        self.log.tick()

    def define(self, change: Change, done: Done) -> None:
        self.log.define(change, done)

    def tidy(self, change: Change) -> None:
        self._parts.broker.define(change)

    def ask(self, number: int, question: Question) -> None:
        """Answer a question that this broker asked, as root now."""
        parts, name = self._parts, self._parts.links.name

        def reply(answer: Answer) -> None:
            parts.root_requests.answered(name, answer)

        parts.root_answers.decide(name, question, reply, number, self.log)

    def forward(self, letter: Letter) -> bool:
        self._parts.forwarding.publish_here(letter)
        return True

    def registered(self, consumer: Consumer, source: RemoteQueue, confirm: Callable[[], None]) -> None:
        """The consumer asked before this broker was root: its client is told first, then the queue here delivers."""
        confirm()
        self._parts.remote_consumers.attach_here(consumer)

    def commit(self, bundle: Bundle, done: Done) -> None:
        self._parts.transactions.commit_here(bundle, done)

    def asked(self, peer: str, ask: Ask) -> None:
        parts = self._parts

        def reply(answer: Answer) -> None:
            parts.links.send(peer, answer)

        parts.root_answers.decide(peer, ask.question, reply, ask.number, self.log)

    def enlisted(self, peer: str, message: Enlist) -> None:
        self.log.enlisted(peer, message)
        self._parts.batch_commit.moved()

    def held(self, peer: str, message: Held) -> None:
        self.log.held(peer, message)
        self._parts.batch_commit.moved()

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
