"""Transactions of shared queues: one question to the root, which does all of it or nothing, and once.

A root does the transactions of its own clients itself; if its reign ends before one is sure to stay, it asks the next
root. The part for private queues is done when the root has answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from openclust.broker.amqp.bundle import Bundle, demand_room, outcome_unknown, places_of
from openclust.broker.amqp.transaction import Publication
from openclust.broker.delivery.fanout import PUBLISHED_BEFORE, fan_out
from openclust.broker.journal.confirm_gates import Ticket
from openclust.broker.model.outcome import IN_MEMORIES, ON_DISKS, PLACES
from openclust.broker.queues.dead_letter import redirect_letters
from openclust.broker.routing.carbon_copies import route_again
from openclust.cluster.protocol.messages import Answer, Commit, Failure, Question, Settle
from openclust.cluster.relay.relay import reach_shared_queues
from openclust.cluster.shared_queues.remote_queue import RemoteQueue
from openclust.cluster.transactions.commit_registry import CommitRegistry, DoneTransaction
from openclust.wire.errors import PRECONDITION_FAILED, RESOURCE_ERROR, AmqpError, ChannelError
from openclust.wire.text import decode_text, encode_text

if TYPE_CHECKING:
    from openclust.broker.amqp.transaction import Unacked
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.cluster_port import Done
    from openclust.broker.server.broker import Broker
    from openclust.broker.server.vhost import VirtualHost
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.shared_queues.consumer_proxies import ConsumerProxies

PUBLISH_BYTES = 40
SETTLE_BYTES = 10
SHARED = IN_MEMORIES | ON_DISKS
WORD_BYTES = 65_536
"""An upper bound of the bytes of a question beside its publishes and settlements."""


class RoleThatCommits(Protocol):
    """The role in force: a root does a transaction itself, others ask the root."""

    def commit(self, bundle: Bundle, done: Done) -> None: ...


class Transactions:
    """`ask` has a question answered by the root, or by the next one. `proxies` have the deliveries to other brokers."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        leadership: Leadership[RoleThatCommits],
        registry: CommitRegistry,
        proxies: ConsumerProxies,
        ask: Callable[[Question, Done], int],
    ) -> None:
        self._broker = broker
        self._name = name
        self._leadership = leadership
        self._registry = registry
        self._proxies = proxies
        self._ask = ask
        # Names this life of this broker among all.
        self._run = b""
        self._number = 0
        self._open: dict[int, None] = {}

    # -- for clients here

    def commit(self, bundle: Bundle, done: Done) -> None:
        """Have a transaction happen: see `ClusterPort`."""
        if any(item.queue.is_void for item in bundle.transaction.items()):
            done(_void())
        else:
            self._leadership.role.commit(bundle, done)

    def ask_root(self, bundle: Bundle, done: Done) -> None:
        """Have the root do the part for shared queues; do the rest here when it has answered."""
        question = self._question(bundle)
        if not question.publications and not question.settled:
            self._open.pop(question.number)
            bundle.perform_here(done)
        elif _size(question) > self._broker.limits.message_size_max:
            self._open.pop(question.number)
            done(_too_large(self._broker.limits.message_size_max))
        else:
            self._ask(question, lambda answer: self._answered(bundle, question, answer, done))

    def _answered(self, bundle: Bundle, question: Commit, answer: Answer | AmqpError, done: Done) -> None:
        self._open.pop(question.number, None)
        if isinstance(answer, AmqpError):
            done(answer)
            return
        forwarded = [at for at, each in enumerate(bundle.publications) if each.route.forward]
        places = bundle.perform({forwarded[at] for at in answer.unroutable})
        # Private queues are not stored: this waits for nothing. But every commit goes by one rule.
        Ticket(self._broker.journal, places, lambda kept: done(None if kept else outcome_unknown())).send_confirms()

    def commit_here(self, bundle: Bundle, done: Done) -> None:
        """Do a transaction of a client here, as root."""
        journal, epoch = self._broker.journal, self._leadership.epoch
        question, mark = self._question(bundle), journal.mark
        places = bundle.perform()
        if places & SHARED:
            self._did(question, DoneTransaction(epoch, None, journal.number, places), mark)

        def kept(is_kept: bool) -> None:
            if is_kept or self._is_root_of(epoch):
                self._open.pop(question.number, None)
                done(None if is_kept else outcome_unknown())
            else:
                self._ask(question, told)

        def told(answer: Answer | AmqpError) -> None:
            self._open.pop(question.number, None)
            done(answer if isinstance(answer, AmqpError) else None)

        Ticket(journal, places, kept).send_confirms()

    def _question(self, bundle: Bundle) -> Commit:
        """The part of a transaction that is for shared queues."""
        self._run = self._run or encode_text(f"{self._name} {self._broker.unguessable()}")
        self._number += 1
        self._open[self._number] = None
        is_root = self._leadership.is_root
        transaction = bundle.transaction
        publications = []
        for publication in bundle.publications:
            route = publication.route
            if route.forward or (is_root and any(each.is_shared for each in route.destinations)):
                header = route.whole_header or publication.header
                publications.append(
                    (encode_text(route.exchange), encode_text(route.routing_key), header, publication.body)
                )
        return Commit(
            run=self._run,
            number=self._number,
            oldest=next(iter(self._open)),
            epoch=self._leadership.epoch,
            vhost=encode_text(bundle.channel.connection.vhost.name),
            publications=publications,
            settled=_settled(transaction.acks, transaction.rejects),
            is_bound=any(item.queue.is_here and item.queue.is_shared for item in transaction.items()),
        )

    # -- as root

    def decide(self, peer: str, question: Commit, reply: Done, number: int) -> None:
        """As root, do a transaction of another broker, if it was not done before; AmqpError where it cannot be done."""
        done_transaction = self._registry.find(question.run, question.number)
        if done_transaction is None:
            done_transaction = self._do(peer, question)
        elif done_transaction.epoch != self._leadership.epoch:
            # Another root has done it. It is sure to stay when a later batch of this root is.
            done_transaction = DoneTransaction(self._leadership.epoch, None, self._broker.journal.number, ON_DISKS)
            self._did(question, done_transaction, self._broker.journal.mark)
        answer, epoch = Answer(number=number, unroutable=done_transaction.unroutable), self._leadership.epoch

        def kept(is_kept: bool) -> None:
            if is_kept:
                reply(answer)
            elif self._is_root_of(epoch):
                error = outcome_unknown()
                reply(Answer(number=number, failure=Failure(error.code, error.text)))
            # Else the next root is asked.

        Ticket(self._broker.journal, done_transaction.places, kept, batch=done_transaction.batch).send_confirms()

    def _do(self, peer: str, question: Commit) -> DoneTransaction:
        broker, proxies = self._broker, self._proxies
        journal = broker.journal
        vhost = broker.vhost(decode_text(question.vhost))
        publications = [_for_shared_queues(vhost, *each) for each in question.publications]
        demand_room(publications)
        places, mark = places_of(journal, self._named(peer, question)), journal.mark
        # From here on nothing can fail.
        unroutable = []
        for at, publication in enumerate(publications):
            route = publication.route
            if not route.destinations:
                unroutable.append(at)
            route.enters = False
            vhost.route_counts.add_one(route)
            places |= fan_out(broker, route, publication.header, publication.body, None, PUBLISHED_BEFORE) & PLACES
        for settle in question.settled:
            proxies.settle(peer, settle)
        places |= redirect_letters(broker, len(broker.dead_letters))
        done_transaction = DoneTransaction(self._leadership.epoch, None, journal.number, places, unroutable)
        self._did(question, done_transaction, mark)
        return done_transaction

    def _named(self, peer: str, question: Commit) -> list[Entry]:
        """The deliveries that a transaction settles; ChannelError where one is not with that broker any more."""
        entries: list[Entry] = []
        if (question.settled or question.is_bound) and question.epoch != self._leadership.epoch:
            raise _void()
        for settle in question.settled:
            named = self._proxies.named(peer, settle)
            if named is None:
                raise _void()
            entries += named
        return entries

    def _did(self, question: Commit, done_transaction: DoneTransaction, mark: int) -> None:
        name = (question.run, question.number, question.oldest)
        is_open = bool(done_transaction.places & SHARED)
        if is_open:
            journal = self._broker.journal
            journal.committed(name)
            done_transaction.taken = [(queue, entry.seq) for queue, entry in journal.taken(mark)]
        self._registry.did(name, done_transaction, is_open=is_open)

    def _is_root_of(self, epoch: int) -> bool:
        return self._leadership.is_root and self._leadership.epoch == epoch


def _void() -> ChannelError:
    """The error where some of the deliveries came from an earlier root, and are back in their queues."""
    text = "the transaction was not done: messages that it settles went back to their queues as the cluster's root"
    return ChannelError(PRECONDITION_FAILED, f"{text} changed, or their queue is gone; take them again")


def _too_large(limit: int) -> ChannelError:
    text = f"a transaction of shared queues is larger than the {limit} bytes that may cross to the root together"
    return ChannelError(RESOURCE_ERROR, f"{text} (limits.message_size_max): commit more often")


def _size(question: Commit) -> int:
    """An upper bound of its bytes on the link."""
    size = WORD_BYTES + sum(len(part) for each in question.publications for part in each)
    for settle in question.settled:
        numbers = len(settle.acked) + len(settle.returned) + len(settle.rejected)
        size += PUBLISH_BYTES + SETTLE_BYTES * numbers
    return size + PUBLISH_BYTES * len(question.publications)


def _settled(acks: list[Unacked], rejects: list[tuple[Unacked, bool]]) -> list[Settle]:
    """The settlements of deliveries from the root, one for each consumer. Deliveries of deleted queues are gone."""
    words: dict[int, Settle] = {}

    def word(item: Unacked) -> Settle | None:
        # Deliveries of queues on this broker are settled here.
        queue = item.queue
        if not isinstance(queue, RemoteQueue) or not queue.is_alive:
            return None
        if queue.number not in words:
            words[queue.number] = Settle(source=queue.number, acked=[], returned=[], rejected=[])
        return words[queue.number]

    for item in acks:
        said_of = word(item)
        if said_of is not None:
            acked, number = said_of.acked, item.entry.seq
            if acked and acked[-1] == number - 1:
                acked[-1] = number
            else:
                acked += (number, number)
    for item, back in rejects:
        said_of = word(item)
        if said_of is not None:
            (said_of.returned if back else said_of.rejected).append(item.entry.seq)
    return list(words.values())


def _for_shared_queues(vhost: VirtualHost, name: bytes, key: bytes, header: bytes, body: bytes) -> Publication:
    """A publish of a client elsewhere, routed to shared queues only; 404 where its exchange is gone."""
    exchange, routing_key = vhost.exchange(decode_text(name)), decode_text(key)
    route, header = route_again(vhost, exchange, routing_key, header, len(body), reach_shared_queues)
    return Publication(route, header, body)
