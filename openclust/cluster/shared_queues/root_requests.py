"""Questions that only the root can answer: sent to it, sent again to the next one, and not for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from openclust.broker.amqp.declaring import counted
from openclust.broker.cluster_port import Done
from openclust.broker.model.change_codec import decode_change
from openclust.broker.model.changes import Counts
from openclust.broker.queues.queue import Queue
from openclust.cluster.definitions.name_collisions import shared_queue
from openclust.cluster.protocol.messages import (
    Answer,
    Commit,
    Consume,
    Define,
    Failure,
    Get,
    Inspect,
    Purge,
    Question,
)
from openclust.cluster.protocol.status import Position
from openclust.cluster.shared_queues.transactions import Transactions
from openclust.wire.errors import RESOURCE_ERROR, AmqpError, ChannelError, ConnectionError
from openclust.wire.text import decode_text

if TYPE_CHECKING:
    from openclust.cluster.log.log_writer import LogWriter
    from openclust.cluster.membership.membership import Membership

PENDING_MAX = 100_000
LIFE_BITS = 20
"""So many bits count the questions of one life of a broker; those above tell its lives apart."""


class _Open(msgspec.Struct):
    """A `lasting` one is not given up: who asks it waits as long as there is no root to answer."""

    question: Question
    done: Done
    since_ms: int
    lasting: bool


class RootRequests:
    """`done` of a question is called with the root's `Answer`, or with an AmqpError. Call `tick` now and then."""

    def __init__(self, membership: Membership, *, wait_ms: int) -> None:
        self._cluster = membership
        self._broker = membership.broker
        self.commits = Transactions(membership, self.ask)
        self.wait_ms = wait_ms
        # The root may still answer what this broker has asked in its last life.
        self._number = crc32(membership.broker.unguessable().encode()) << LIFE_BITS
        self._pending: dict[int, _Open] = {}
        # Answers, by number, that speak of what is not here yet.
        self._early: dict[int, Answer] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def ask(self, question: Question, done: Done, *, lasting: bool = False) -> int:
        """Ask the root, as soon as there is one. By the number, who asked may `forget` the question."""
        if len(self._pending) >= PENDING_MAX:
            done(ChannelError(RESOURCE_ERROR, f"{PENDING_MAX} requests wait for the root, the most that may"))
            return 0
        if not lasting and (problem := self._cluster.readiness.unanswerable):
            done(ChannelError(RESOURCE_ERROR, problem))
            return 0
        self._number = number = self._number + 1
        self._pending[number] = _Open(question, done, self._broker.now_ms, lasting)
        self._cluster.leadership.role.ask(number, question)
        return number

    def forget(self, number: int) -> None:
        """Nobody waits for the answer any more; `done` is not called."""
        self._pending.pop(number, None)
        self._early.pop(number, None)

    def ask_again(self) -> None:
        """There is another root, or another link to it: what is not answered yet is asked again.

        So is what was answered of a log that is not here: it may never come now.
        """
        self._early.clear()
        for number, pending in list(self._pending.items()):
            self._cluster.leadership.role.ask(number, pending.question)

    def answered(self, peer: str, answer: Answer) -> None:
        if peer != self._cluster.leadership.root:
            return
        pending = self._pending.get(answer.number)
        if pending is None:
            if answer.fetched is not None:
                # It was asked twice, by a new link; nobody waits for the second message.
                self._cluster.remote_consumers.unexpected(peer, answer.fetched)
            return
        if answer.failure is None and answer.position > self._cluster.replica.position:
            # What the answer speaks of is not here yet.
            self._early[answer.number] = answer
            return
        del self._pending[answer.number]
        failure = answer.failure
        if failure is not None:
            error = ConnectionError if failure.closes_connection else ChannelError
            pending.done(error(failure.code, failure.text))
        else:
            pending.done(answer)

    def log_is_at(self, position: Position) -> None:
        for number, answer in list(self._early.items()):
            if answer.position <= position:
                del self._early[number]
                pending = self._pending.pop(number, None)
                if pending is not None:
                    pending.done(answer)

    def tick(self) -> None:
        """Give up what has waited too long."""
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
            pending.done(ChannelError(RESOURCE_ERROR, no_root(self._cluster, self.wait_ms)))

    # -- the root

    def decide(self, peer: str, question: Question, reply: Done, number: int, log: LogWriter) -> None:
        """Answer a question, now or later; changes go into this log."""
        match question:
            case Define():
                self._define(decode_change(question.change), reply, number, log)
                return
            case Consume() | Get():
                try:
                    reply(self._cluster.proxies.ask(peer, question, number))
                except AmqpError as error:
                    reply(failed(number, error))
                return
            case Commit():
                try:
                    self.commits.decide(peer, question, reply, number)
                except AmqpError as error:
                    reply(failed(number, error))
                return
            case Purge() | Inspect():
                pass
        try:
            queue = shared_queue(self._broker, decode_text(question.vhost), decode_text(question.queue))
        except AmqpError as error:
            reply(failed(number, error))
            return
        if isinstance(question, Purge):
            reply(Answer(number=number, count=queue.purge()))
        else:
            queue.touch()
            reply(Answer(number=number, counts=counted(queue)))

    def _define(self, change: Any, reply: Done, number: int, log: LogWriter) -> None:
        def done(result: Any) -> None:
            if isinstance(result, AmqpError):
                reply(failed(number, result))
                return
            # What others lack of messages is no reason to wait.
            position = self._cluster.replica.changed
            counts = counted(result) if isinstance(result, Queue) else None
            count = result if isinstance(result, int) else 0
            reply(Answer(number=number, count=count, counts=counts, position=position))

        log.define(change, done, for_other=True)


def failed(number: int, error: AmqpError) -> Answer:
    return Answer(
        number=number, failure=Failure(error.code, error.text, closes_connection=isinstance(error, ConnectionError))
    )


def defined(answer: Answer | AmqpError) -> Counts | int | AmqpError:
    """What `perform` would have returned, as far as it is of use elsewhere."""
    if isinstance(answer, AmqpError):
        return answer
    return answer.counts if answer.counts is not None else answer.count


def no_root(cluster: Membership, wait_ms: int) -> str:
    root = cluster.leadership.root
    if root:
        return f"the root {root} did not answer for {wait_ms} ms"
    return f"the cluster has had no root for {wait_ms} ms (openclust why-no-root tells why)"
