"""The root's answers to the questions of brokers, itself included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from openclust.broker.amqp.declaring import counted
from openclust.broker.model.change_codec import decode_change
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
from openclust.wire.errors import AmqpError, ConnectionError
from openclust.wire.text import decode_text

if TYPE_CHECKING:
    from openclust.broker.cluster_port import Done
    from openclust.broker.model.changes import Change
    from openclust.broker.server.broker import Broker
    from openclust.cluster.protocol.status import Position
    from openclust.cluster.shared_queues.consumer_proxies import ConsumerProxies
    from openclust.cluster.transactions.transactions import Transactions


class DefinitionLog(Protocol):
    """Where a root makes changes of definitions."""

    def define(self, change: Change, done: Done, *, for_other: bool = False) -> None: ...


class ChangedLog(Protocol):
    @property
    def changed(self) -> Position:
        """The newest position in the log of a change of definitions."""


class RootAnswers:
    """Call `decide` as root. It calls `reply` once with an `Answer`, at once or later; or not, where the reign ends."""

    def __init__(
        self, broker: Broker, replica: ChangedLog, proxies: ConsumerProxies, transactions: Transactions
    ) -> None:
        self._broker = broker
        self._replica = replica
        self._proxies = proxies
        self._transactions = transactions

    def decide(self, peer: str, question: Question, reply: Done, number: int, log: DefinitionLog) -> None:
        """Answer the question of this number that a peer has asked; changes of definitions go into this log."""
        if isinstance(question, Define):
            self._define(decode_change(question.change), reply, number, log)
            return
        try:
            answer = self._answer(peer, question, reply, number)
        except AmqpError as error:
            answer = failed(number, error)
        if answer is not None:
            reply(answer)

    def _answer(
        self, peer: str, question: Purge | Inspect | Get | Consume | Commit, reply: Done, number: int
    ) -> Answer | None:
        """The answer; None for a transaction, which has its own when it is sure to stay."""
        match question:
            case Consume() | Get():
                return self._proxies.ask(peer, question, number)
            case Purge():
                return Answer(number=number, count=self._queue(question).purge())
            case Inspect():
                queue = self._queue(question)
                queue.touch()
                return Answer(number=number, counts=counted(queue))
            case Commit():
                self._transactions.decide(peer, question, reply, number)
                return None

    def _queue(self, question: Purge | Inspect) -> Queue:
        return shared_queue(self._broker, decode_text(question.vhost), decode_text(question.queue))

    def _define(self, change: Any, reply: Done, number: int, log: DefinitionLog) -> None:
        def done(result: Any) -> None:
            if isinstance(result, AmqpError):
                reply(failed(number, result))
                return
            # The answer waits for the definitions up to here; messages in the log are no reason to wait.
            position = self._replica.changed
            counts = counted(result) if isinstance(result, Queue) else None
            count = result if isinstance(result, int) else 0
            reply(Answer(number=number, count=count, counts=counts, position=position))

        log.define(change, done, for_other=True)


def failed(number: int, error: AmqpError) -> Answer:
    return Answer(
        number=number, failure=Failure(error.code, error.text, closes_connection=isinstance(error, ConnectionError))
    )
