"""Classic transactions: tx.select, tx.commit and tx.rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.channel import OPEN, Channel, handles
from openclust.broker.fanout import fan_out
from openclust.broker.gates import Ticket
from openclust.broker.later import answer
from openclust.broker.message import Message
from openclust.broker.publishing import Publication, perform_message, return_message
from openclust.broker.transaction import Transaction
from openclust.wire.errors import PRECONDITION_FAILED, RESOURCE_ERROR, ChannelError
from openclust.wire.methods import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk

if TYPE_CHECKING:
    from openclust.broker.cluster_port import Done


@handles(TxSelect)
def tx_select(channel: Channel, method: TxSelect) -> None:
    if channel.confirms is not None:
        raise ChannelError(PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(TxSelectOk())


@handles(TxCommit)
def tx_commit(channel: Channel, method: TxCommit) -> None:
    transaction = _begin_next(channel)

    def start(done: Done) -> None:
        forwarded = Forwarded(channel, done)
        for publication in transaction.publications:
            forwarded.publish(publication)
        for item in transaction.acks:
            channel.settle(item)
        channel.take_back([item for item, back in transaction.rejects if back])
        for item, back in transaction.rejects:
            if not back:
                item.queue.reject(item.entry)
                channel.credit(item)
        journal = channel.broker.journal
        Ticket(journal, journal.open_places, forwarded.kept).send_confirms()

    answer(channel, method, start, lambda _: channel.send(TxCommitOk()))


class Forwarded:
    """The publishes of one transaction; done when the root has said what became of those that it got."""

    def __init__(self, channel: Channel, done: Done) -> None:
        self._channel = channel
        self._done = done
        self._open = 1

    def publish(self, publication: Publication) -> None:
        route = publication.route
        route.queues = [queue for queue in route.queues if queue.is_alive]
        if not route.forward:
            perform_message(self._channel, route, publication.header, publication.body, None)
            return
        fan_out(route, publication.header, publication.body, self._channel.broker.dirty)
        header = route.whole_header or publication.header
        message = Message(route.exchange, route.routing_key, header, publication.body, route.suffix)

        def verdict(routed: bool, _: bool) -> None:
            if not routed and route.mandatory and not route.queues and self._channel.state == OPEN:
                return_message(self._channel, route, publication.header, publication.body)
            self.all_sent()

        self._open += 1
        self._channel.broker.cluster.forward(self._channel, self._channel.connection.vhost, message, verdict)

    def kept(self, is_kept: bool) -> None:
        """Whether what was done here stays."""
        if is_kept:
            self.all_sent()
        else:
            text = "the root of the cluster has changed: whether the transaction stays is not known"
            self._done(ChannelError(RESOURCE_ERROR, text))

    def all_sent(self) -> None:
        self._open -= 1
        if not self._open:
            self._done(None)


@handles(TxRollback)
def tx_rollback(channel: Channel, method: TxRollback) -> None:
    transaction = _begin_next(channel)
    # The deliveries are unacknowledged again, as if the acks had never been sent.
    for item in [*transaction.acks, *(item for item, _ in transaction.rejects)]:
        channel.unacked[item.tag] = item
        channel.lowest_tag = min(channel.lowest_tag, item.tag)
    channel.send(TxRollbackOk())


def _begin_next(channel: Channel) -> Transaction:
    transaction = channel.transaction
    if transaction is None:
        raise ChannelError(PRECONDITION_FAILED, "channel is not transactional")
    channel.transaction = Transaction()
    channel.broker.books.held_bytes -= transaction.held_bytes
    return transaction
