"""What a client's deliveries come from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from openclust.broker.model.queue_arguments import NO_ARGS, QueueArgs

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.delivery.consumer import Consumer
    from openclust.broker.server.vhost import VirtualHost


class Origin(Protocol):
    """A queue here, a queue at the root, or a reply address: a consumer receives from it, and its deliveries go back.

    Where an origin has nothing to do or to say, it inherits what is here.
    """

    __slots__ = ()

    @property
    def name(self) -> str: ...

    @property
    def vhost(self) -> VirtualHost: ...

    @property
    def settings(self) -> QueueArgs:
        return NO_ARGS

    @property
    def is_alive(self) -> bool: ...

    @property
    def is_shared(self) -> bool:
        """Whether it is, or stands for, a queue that all brokers of the cluster know."""
        return False

    @property
    def is_here(self) -> bool:
        """Whether this broker decides what becomes of its deliveries, and not the cluster's root."""
        return True

    @property
    def is_void(self) -> bool:
        """Whether what it has delivered is in its queue again: the root, or the link to it, is another."""
        return False

    @property
    def is_deserted(self) -> bool:
        """Whether it goes with its last consumer, and has none."""
        return False

    # -- consumers

    def consumer_ready(self, consumer: Consumer) -> None:
        """The consumer may be sent messages again."""
        return

    def refresh_direct(self) -> None:
        """Look again whether messages may pass straight through."""
        return

    def stop(self, consumer: Consumer) -> None:
        """Deliver nothing more to the consumer."""
        return

    def remove_consumer(self, consumer: Consumer) -> None:
        """The consumer ends."""
        return

    # -- deliveries

    def forget(self, entry: Entry) -> None:
        """A message is delivered for good."""
        return

    def put_back(self, entry: Entry) -> None:
        """A delivery comes back. Then call `dispatch`."""
        return

    def reject(self, entry: Entry) -> None:
        """A consumer refuses a delivery for good."""
        return

    def dispatch(self) -> None:
        """Deliver what waits to whoever is ready."""
        return
