"""What a broker is in its cluster at the moment: one of `Leaderless`, `Follower`, `TakingOver` and `Root`.

The membership ends the old role and begins the new one. While a role ends, the new one is in force already: what is
taken back then waits for it. What a role makes ends with it; what outlives roles is handed to it (`lasting.py`), and
calls the role in force.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.model.change_codec import encode_change
from openclust.cluster.protocol.messages import Define
from openclust.cluster.protocol.status import Position
from openclust.cluster.shared_queues.root_requests import defined

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclust.broker.amqp.bundle import Bundle
    from openclust.broker.cluster_port import Done
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.journal.journal import Sealed
    from openclust.broker.model.changes import Change
    from openclust.cluster.protocol.messages import Ask, Enlist, Held, Question
    from openclust.cluster.protocol.status import Reign
    from openclust.cluster.roles.lasting import Lasting
    from openclust.cluster.shared_queues.forwarding import Letter
    from openclust.cluster.shared_queues.remote_queue import RemoteQueue


class Role:
    """A broker without a root: requests, messages and consumers of shared queues wait."""

    reign: Reign | None = None
    is_root = False

    def __init__(self, parts: Lasting) -> None:
        self._parts = parts

    # -- life

    def enter(self) -> None:
        """Begin; the role before has ended."""

    def leave(self) -> None:
        """End; the next role is in force already."""

    def met(self) -> None:
        """There are links to and from the root: all that waited for it can be sent."""

    def link_up(self, peer: str) -> None:
        """This broker's link to a peer is there."""

    def peer_gone(self, name: str) -> None:
        """This broker's link to a peer is gone."""

    def speaks_anew(self, name: str) -> None:
        """A peer's link to this broker is a new one: messages on the old one may be lost."""

    def flush(self) -> None:
        """A turn ends."""

    def tick(self) -> None:
        """A heartbeat has passed."""

    # -- what the broker asks

    def define(self, change: Change, done: Done) -> None:
        self._parts.root_requests.ask(Define(encode_change(change)), lambda answer: done(defined(answer)))

    def tidy(self, change: Change) -> None:
        """The root makes the change, not this broker."""

    # -- what needs the root

    def ask(self, number: int, question: Question) -> None:
        """Send a question of this broker to the root: here it waits for one."""

    def forward(self, letter: Letter) -> bool:
        """Pass a message for shared queues on to the root; here it waits. False where it was refused."""
        return self._parts.forwarding.wait(letter)

    def registered(self, consumer: Consumer, source: RemoteQueue, confirm: Callable[[], None]) -> None:
        """The root has a consumer of this broker; `confirm` tells its client."""
        self._parts.remote_consumers.follow(consumer, source)
        confirm()

    def commit(self, bundle: Bundle, done: Done) -> None:
        """Do a transaction of a client here."""
        self._parts.transactions.ask_root(bundle, done)

    # -- what peers ask of a root

    def asked(self, peer: str, ask: Ask) -> None:
        """A peer asks this broker as root. It is not: the peer will ask the next root."""

    def enlisted(self, peer: str, message: Enlist) -> None:
        """A peer enlists with this broker as root. It is not."""

    def held(self, peer: str, message: Held) -> None:
        """A peer tells this broker, as root, how much of the log it holds. It is not root."""

    def root_is_at(self, position: Position) -> None:
        """The root says that its log ends at `position`."""

    # -- the log

    def add_work(self, batch: Sealed) -> Position:
        raise AssertionError("only a root has work for the log")

    def is_on_disk(self) -> None:
        """More of the log is on this broker's disk."""
        self._parts.replica.is_on_disk()

    @property
    def waiting(self) -> int:
        """How many changes are not known to be committed."""
        return 0

    def lag(self, name: str) -> int | None:
        """How many entries a follower is behind; None where it is none."""
        return None

    def lag_on_disk(self, name: str) -> int | None:
        """How many entries a follower has yet to bring to its disk; None where it is none."""
        return None
