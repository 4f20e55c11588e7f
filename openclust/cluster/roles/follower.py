"""A broker, primary or secondary, that follows a root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.cluster.log.following import Following
from openclust.cluster.protocol.messages import Ask
from openclust.cluster.roles.role import Role

if TYPE_CHECKING:
    from openclust.cluster.protocol.messages import Question
    from openclust.cluster.protocol.status import Position, Reign
    from openclust.cluster.roles.lasting import Lasting
    from openclust.cluster.shared_queues.forwarding import Letter


class Follower(Role):
    """The root feeds its log. Requests, messages for shared queues and consumers of these are passed on to the root."""

    def __init__(self, parts: Lasting, reign: Reign) -> None:
        super().__init__(parts)
        self.reign = reign
        self._root = reign.root
        self._following = Following(
            reign.root,
            reign.epoch,
            parts.broker,
            parts.links,
            parts.elector,
            parts.replica,
            parts.log_store,
            parts.disk_health,
            self._log_advanced,
        )

    def enter(self) -> None:
        self._parts.replica.feeder = self._following
        # The root tells secondaries which messages the others want.
        self._parts.meta_bindings.serve_secondaries(())
        if self._parts.links.root_outbox() is not None:
            self.met()

    def leave(self) -> None:
        parts = self._parts
        parts.replica.feeder = None
        parts.handover.stop()
        parts.remote_consumers.root_lost()
        parts.forwarding.take_back()

    def met(self) -> None:
        """Enlist with the root, and send it all requests, messages and consumers that waited."""
        parts = self._parts
        self._following.enlist()
        parts.root_requests.ask_again()
        parts.remote_consumers.register_again()
        parts.forwarding.send_again()
        parts.handover.begin()

    def _log_advanced(self) -> None:
        """More of the root's log is here: answers that speak of it are told, and messages that waited for it go on."""
        self._parts.root_requests.log_is_at(self._parts.replica.position)
        self._parts.handover.log_is_joined()

    def peer_gone(self, name: str) -> None:
        if name == self._root:
            self._parts.forwarding.take_back()

    def flush(self) -> None:
        self._following.flush()

    def ask(self, number: int, question: Question) -> None:
        self._parts.links.send(self._root, Ask(number=number, question=question))

    def forward(self, letter: Letter) -> bool:
        outbox = self._parts.links.root_outbox()
        if outbox is None:
            return super().forward(letter)
        self._parts.forwarding.send(outbox, letter)
        return True

    def root_is_at(self, position: Position) -> None:
        self._following.root_is_at(position)
