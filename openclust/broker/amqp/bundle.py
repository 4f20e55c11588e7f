"""The commit of a transaction: its messages are routed, then all of it happens together."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.transaction import Publication, Transaction
from openclust.broker.backlog.backlog import Entry
from openclust.broker.delivery.cluster_exchange import CLUSTER_EXCHANGE
from openclust.broker.delivery.direct_reply import REPLY_PREFIX
from openclust.broker.delivery.fanout import PUBLISHED, fan_out
from openclust.broker.journal.confirm_gates import Ticket
from openclust.broker.journal.journal import Journal
from openclust.broker.model.outcome import IN_MEMORIES, ON_DISKS, ON_OWN_DISK, PLACES
from openclust.broker.queues.dead_letter import redirect_letters
from openclust.broker.routing.carbon_copies import route_again
from openclust.broker.routing.destination import Destination
from openclust.broker.routing.route import ExchangeHost, Route
from openclust.wire.errors import RESOURCE_ERROR, ChannelError

if TYPE_CHECKING:
    from openclust.broker.cluster_port import Done
    from openclust.broker.routing.exchange import Targets


class Bundle:
    """A transaction at its commit. Its messages are routed again, by the bindings of this moment.

    ChannelError if a queue would refuse some of it. Call `perform` once, or drop the bundle. Until then the channel
    holds the transaction, and returns its deliveries to their queues if the channel is closed.
    """

    __slots__ = ("channel", "publications", "transaction")

    def __init__(self, channel: Channel, transaction: Transaction) -> None:
        self.channel = channel
        self.transaction = transaction
        self.publications = [_routed(channel, each) for each in transaction.publications]
        demand_room(self.publications)

    def perform(self, unroutable: Container[int] = ()) -> int:
        """Do the part of this broker. Returns where the open batch must be before the client is answered.

        `unroutable` are the indexes of the publishes that were routed to no queue on other brokers.
        """
        channel, places = self.channel, 0
        for index, publication in enumerate(self.publications):
            places |= self._publish(publication, index in unroutable)
        if channel.transaction is self.transaction:
            # Otherwise the channel was closed meanwhile, and its deliveries are back in their queues.
            channel.transaction = Transaction()
            channel.refused += len(self.transaction.rejects)
            places |= self._settle()
        return places

    def perform_here(self, done: Done) -> None:
        """Do all of it, if no other broker has a part in it."""
        journal = self.channel.broker.journal
        Ticket(journal, self.perform(), lambda kept: done(None if kept else outcome_unknown())).send_confirms()

    def _publish(self, publication: Publication, is_unroutable: bool) -> int:
        channel, route = self.channel, publication.route
        broker, header, body = channel.broker, publication.header, publication.body
        # Since it was routed, it may have waited for other brokers.
        route.destinations = [each for each in route.destinations if each.is_alive]
        if not route.destinations and channel.state == OPEN and (is_unroutable or not route.forward):
            channel.unroutable(route, header, body)
        channel.published = published = channel.published + 1
        if published >= channel.size_sample_at:
            channel.sample_size(len(body))
        channel.connection.vhost.route_counts.add_one(route)
        if channel.state != OPEN:
            # It was closed while other brokers did their part, and its counts were taken then.
            channel.end_counts()
        return fan_out(broker, route, header, body, None, PUBLISHED) & PLACES

    def _settle(self) -> int:
        channel, transaction = self.channel, self.transaction
        broker = channel.broker
        here = [item for item in transaction.items() if item.queue.is_here]
        places = places_of(broker.journal, (item.entry for item in here))
        for item in transaction.items():
            if not item.queue.is_here:
                broker.cluster.committed(item)
                channel.credit(item)
        for item in transaction.acks:
            if item.queue.is_here:
                channel.settle(item)
        channel.take_back([item for item, back in transaction.rejects if back and item.queue.is_here])
        for item, back in transaction.rejects:
            if not back and item.queue.is_here:
                item.queue.reject(item.entry)
                channel.credit(item)
        # Dead letters leave their queues in the same batch as the rest of the transaction.
        return places | redirect_letters(broker, len(broker.dead_letters))


def _routed(channel: Channel, publication: Publication) -> Publication:
    """The same publish with the destinations of this moment, without queues that are active on the root."""
    before, header = publication.route, publication.header
    exchange, key = before.exchange, before.routing_key
    if exchange == CLUSTER_EXCHANGE or (not exchange and key.startswith(REPLY_PREFIX)):
        route = Route(exchange, key, before.destinations, mandatory=before.mandatory)
        return Publication(route, header, publication.body)
    vhost, cluster = channel.connection.vhost, channel.broker.cluster

    def reach(vhost: ExchangeHost, targets: Targets) -> tuple[list[Destination], bool]:
        elsewhere = [each for each in targets.destinations if cluster.is_elsewhere(each)]
        for each in elsewhere:
            del targets.destinations[each]
        return cluster.reach(vhost, targets)[0], bool(elsewhere)

    whole, body = before.whole_header or header, publication.body
    route, header = route_again(
        vhost, vhost.exchange(exchange), key, whole, len(body), reach, mandatory=before.mandatory
    )
    return Publication(route, header, body)


def demand_room(publications: Iterable[Publication]) -> None:
    """Raise 406 if a queue would refuse some of these messages: a transaction happens as a whole."""
    coming: dict[Destination, tuple[int, int]] = {}
    for publication in publications:
        for each in publication.route.destinations:
            count, size = coming.get(each, (0, 0))
            coming[each] = count + 1, size + len(publication.body)
    for destination, (count, size) in coming.items():
        destination.demand_room(count, size)


def outcome_unknown() -> ChannelError:
    """The answer for a transaction that was done and may still be lost."""
    text = "the transaction is not on the disks where it must be: whether it stays is not known"
    return ChannelError(RESOURCE_ERROR, text)


def places_of(journal: Journal, entries: Iterable[Entry]) -> int:
    """Where the batch must be in which these messages leave: in all places where the messages are kept."""
    places = 0
    for entry in entries:
        recorded = entry.recorded
        # A message that entered by the open batch is not in it if it leaves now.
        if recorded and recorded not in (journal.number, -journal.number):
            if recorded < 0:
                places |= ON_OWN_DISK
            else:
                places |= ON_DISKS if entry.message.is_persistent else IN_MEMORIES
    return places
