"""Classic transactions: tx.select, tx.commit and tx.rollback."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from openclust.broker.amqp.bundle import Bundle
from openclust.broker.amqp.channel import Channel, handles
from openclust.broker.amqp.deferred_reply import answer
from openclust.broker.amqp.transaction import Transaction
from openclust.wire.errors import PRECONDITION_FAILED, ChannelError
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
    transaction = _current(channel)
    answer(channel, method, partial(_commit, channel, transaction), lambda _: channel.send(TxCommitOk()))


@handles(TxRollback)
def tx_rollback(channel: Channel, method: TxRollback) -> None:
    transaction = _current(channel)
    channel.transaction = Transaction()
    channel.broker.memory_accounts.held_bytes -= transaction.held_bytes
    # The deliveries are unacknowledged again, as if the acks had not been sent.
    for item in transaction.items():
        channel.unacked[item.tag] = item
        channel.lowest_tag = min(channel.lowest_tag, item.tag)
    channel.send(TxRollbackOk())


def _current(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise ChannelError(PRECONDITION_FAILED, "channel is not transactional")
    return channel.transaction


def _commit(channel: Channel, transaction: Transaction, done: Done) -> None:
    accounts = channel.broker.memory_accounts
    # From now on this commit accounts for the memory of the messages, even if the channel is closed.
    size, transaction.held_bytes = transaction.held_bytes, 0

    def ended(result: object) -> None:
        accounts.held_bytes -= size
        done(result)

    try:
        bundle = Bundle(channel, transaction)
    except ChannelError as error:
        ended(error)
    else:
        channel.broker.cluster.commit(bundle, ended)
