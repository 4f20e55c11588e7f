"""A broker, primary or secondary, that follows a root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.cluster.log.following import Following
from openclust.cluster.protocol.messages import Ask
from openclust.cluster.roles.role import Role

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership
    from openclust.cluster.protocol.messages import Question
    from openclust.cluster.protocol.status import Position, Reign
    from openclust.cluster.shared_queues.forwarding import Letter


class Follower(Role):
    """Fed by the root's log. Requests, messages for shared queues and consumers of these are passed on to the root."""

    def __init__(self, membership: Membership, reign: Reign) -> None:
        super().__init__(membership)
        self.reign = reign
        self._root = reign.root
        self._following = Following(membership, reign.root, reign.epoch)

    def enter(self) -> None:
        self._cluster.replica.feeder = self._following
        # What they want of each other is told by the root.
        self._cluster.meta_bindings.serve_secondaries(())
        if self._cluster.links.root_outbox() is not None:
            self.met()

    def leave(self) -> None:
        cluster = self._cluster
        cluster.replica.feeder = None
        cluster.handover.stop()
        cluster.remote_consumers.root_lost()
        cluster.forwarding.take_back()

    def met(self) -> None:
        """Be fed by the root, and tell and ask it all that is open."""
        cluster = self._cluster
        self._following.enlist()
        cluster.root_requests.ask_again()
        cluster.remote_consumers.register_again()
        cluster.forwarding.send_again()
        cluster.handover.begin()

    def peer_gone(self, name: str) -> None:
        if name == self._root:
            self._cluster.forwarding.take_back()

    def flush(self) -> None:
        self._following.flush()

    def ask(self, number: int, question: Question) -> None:
        self._cluster.links.send(self._root, Ask(number=number, question=question))

    def forward(self, letter: Letter) -> bool:
        outbox = self._cluster.links.root_outbox()
        if outbox is None:
            return super().forward(letter)
        self._cluster.forwarding.send(outbox, letter)
        return True

    def root_is_at(self, position: Position) -> None:
        self._following.root_is_at(position)
