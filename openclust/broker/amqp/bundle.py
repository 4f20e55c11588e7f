"""What a transaction does at its commit."""

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
    """All that a transaction has asked for, at its commit: messages go where they would if they were published now.

    Nothing stands against it here once it is made; ChannelError where something does. Then `perform` it once, or let
    it be. As long as that is not done its channel holds the transaction, and gives back what is in it when it fails.
    """

    __slots__ = ("channel", "publications", "transaction")

    def __init__(self, channel: Channel, transaction: Transaction) -> None:
        self.channel = channel
        self.transaction = transaction
        self.publications = [_routed(channel, each) for each in transaction.publications]
        demand_room(self.publications)

    def perform(self, unroutable: Container[int] = ()) -> int:
        """Do what is for this broker; where that must be kept before the client is told.

        `unroutable` are the indexes of those that no queue elsewhere has wanted.
        """
        channel, places = self.channel, 0
        for index, publication in enumerate(self.publications):
            places |= self._publish(publication, index in unroutable)
        if channel.transaction is self.transaction:
            # Else the channel was closed meanwhile, and its deliveries have gone back.
            channel.transaction = Transaction()
            places |= self._settle()
        return places

    def perform_here(self, done: Done) -> None:
        """Do all of it, where nothing of it is for others."""
        journal = self.channel.broker.journal
        Ticket(journal, self.perform(), lambda kept: done(None if kept else not_known())).send_confirms()

    def _publish(self, publication: Publication, is_unroutable: bool) -> int:
        channel, route = self.channel, publication.route
        broker, header, body = channel.broker, publication.header, publication.body
        # It may have waited for other brokers since it was routed.
        route.destinations = [each for each in route.destinations if each.is_alive]
        if (
            route.mandatory
            and not route.destinations
            and channel.state == OPEN
            and (is_unroutable or not route.forward)
        ):
            channel.return_message(route, header, body)
        broker.published += 1
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
        # What leaves as a dead letter leaves in the same batch as all the rest.
        return places | redirect_letters(broker, len(broker.dead_letters))


def _routed(channel: Channel, publication: Publication) -> Publication:
    """The same publish with the queues of this moment; those that are active elsewhere are not among them."""
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
    """Raise 406 where a queue would refuse some of these messages: it is to take them all, or nobody is."""
    coming: dict[Destination, tuple[int, int]] = {}
    for publication in publications:
        for each in publication.route.destinations:
            count, size = coming.get(each, (0, 0))
            coming[each] = count + 1, size + len(publication.body)
    for destination, (count, size) in coming.items():
        destination.demand_room(count, size)


def not_known() -> ChannelError:
    """A transaction was done, and may be lost yet."""
    text = "the transaction is not on the disks where it must be: whether it stays is not known"
    return ChannelError(RESOURCE_ERROR, text)


def places_of(journal: Journal, entries: Iterable[Entry]) -> int:
    """Where it must be kept that these messages leave, before anybody is told: where they are kept themselves."""
    places = 0
    for entry in entries:
        recorded = entry.recorded
        # What has come by the open batch will never have been there.
        if recorded and recorded not in (journal.number, -journal.number):
            if recorded < 0:
                places |= ON_OWN_DISK
            else:
                places |= ON_DISKS if entry.message.is_persistent else IN_MEMORIES
    return places
