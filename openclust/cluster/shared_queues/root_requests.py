"""Questions that only the root can answer: sent to it, sent again to the next root, and given up after a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol
from zlib import crc32

import msgspec

from openclust.broker.cluster_port import Done
from openclust.broker.model.changes import Counts
from openclust.cluster.protocol.messages import NO_CONSUMER, Answer, FetchedMessage, Question, Settle
from openclust.cluster.protocol.status import Position
from openclust.wire.errors import RESOURCE_ERROR, AmqpError, ChannelError, ConnectionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclust.broker.server.broker import Broker
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links

PENDING_MAX = 100_000
LIFE_BITS = 20
"""So many bits count the questions of one life of a broker; those above tell its lives apart."""


class AskingRole(Protocol):
    """The role in force: it sends a question to the root, or answers it as root."""

    def ask(self, number: int, question: Question) -> None: ...


class LogHere(Protocol):
    @property
    def position(self) -> Position:
        """The position of the newest entry in the log of this broker."""


class _Open(msgspec.Struct):
    """A question without an answer. A `lasting` one is not given up, however long there is no root to answer."""

    question: Question
    done: Done
    since_ms: int
    lasting: bool


class RootRequests:
    """`done` of a question is called with the root's `Answer`, or with an AmqpError. Call `tick` now and then."""

    def __init__(
        self,
        broker: Broker,
        links: Links,
        leadership: Leadership[AskingRole],
        replica: LogHere,
        *,
        unanswerable: Callable[[], str],
        wait_ms: int,
    ) -> None:
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._replica = replica
        self._unanswerable = unanswerable
        self.wait_ms = wait_ms
        # The root may still answer questions that this broker asked in its last life: their numbers are others.
        self._number = crc32(broker.unguessable().encode()) << LIFE_BITS
        self._pending: dict[int, _Open] = {}
        # Answers, by number, about log entries that are not here yet.
        self._early: dict[int, Answer] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def ask(self, question: Question, done: Done, *, lasting: bool = False) -> int:
        """Ask the root, as soon as there is one. Returns the question's number, for `forget`."""
        if len(self._pending) >= PENDING_MAX:
            done(ChannelError(RESOURCE_ERROR, f"{PENDING_MAX} requests wait for the root, the most that may"))
            return 0
        if not lasting and (problem := self._unanswerable()):
            done(ChannelError(RESOURCE_ERROR, problem))
            return 0
        self._number = number = self._number + 1
        self._pending[number] = _Open(question, done, self._broker.now_ms, lasting)
        self._leadership.role.ask(number, question)
        return number

    def forget(self, number: int) -> None:
        """Nobody waits for the answer any more; `done` is not called."""
        self._pending.pop(number, None)
        self._early.pop(number, None)

    def ask_again(self) -> None:
        """There is another root, or another link to it: ask all questions again that have no answer yet.

        An answer that waits for entries of the log does not count: they may never come now.
        """
        self._early.clear()
        for number, pending in list(self._pending.items()):
            self._leadership.role.ask(number, pending.question)

    def answered(self, peer: str, answer: Answer) -> None:
        if peer != self._leadership.root:
            return
        pending = self._pending.get(answer.number)
        if pending is None:
            if answer.fetched is not None:
                # The question was asked twice, by a new link; nobody waits for the second message.
                self.give_back(peer, answer.fetched)
            return
        if answer.failure is None and answer.position > self._replica.position:
            self._early[answer.number] = answer
            return
        del self._pending[answer.number]
        failure = answer.failure
        if failure is not None:
            error = ConnectionError if failure.closes_connection else ChannelError
            pending.done(error(failure.code, failure.text))
        else:
            pending.done(answer)

    def give_back(self, peer: str, fetched: FetchedMessage) -> None:
        """Return the message of a basic.get that nobody waits for to its queue at the root."""
        self._links.send(peer, Settle(source=NO_CONSUMER, returned=[fetched.number]))

    def log_is_at(self, position: Position) -> None:
        """The log here has come to this position: give the answers that waited for it."""
        for number, answer in list(self._early.items()):
            if answer.position <= position:
                del self._early[number]
                pending = self._pending.pop(number, None)
                if pending is not None:
                    pending.done(answer)

    def tick(self) -> None:
        """Give up questions that have waited too long."""
        if not self._pending:
            return
        oldest_ms = self._broker.now_ms - self.wait_ms
        for number, pending in list(self._pending.items()):
            if pending.lasting:
                continue
            if pending.since_ms > oldest_ms:
                return
            del self._pending[number]
            self._early.pop(number, None)
            pending.done(ChannelError(RESOURCE_ERROR, no_root(self._leadership.root, self.wait_ms)))


def defined(answer: Answer | AmqpError) -> Counts | int | AmqpError:
    """The result of a change, a purge or an inspection: counts of a queue, a number of messages, or the error."""
    if isinstance(answer, AmqpError):
        return answer
    return answer.counts if answer.counts is not None else answer.count


def no_root(root: str, wait_ms: int) -> str:
    """The text of the error for a question or message that has waited too long; `root` is empty where there is none."""
    if root:
        return f"the root {root} did not answer for {wait_ms} ms"
    return f"the cluster has had no root for {wait_ms} ms (openclust why-no-root tells why)"
