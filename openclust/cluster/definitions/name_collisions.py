"""A shared queue and a private one of the same name: private ones are no definitions, so only their broker knows them.

On a secondary the shared queue is hidden, and comes when the private one goes. A primary must hold what shared queues
hold, or messages would be confirmed that it lacks when it is root: there the private one makes way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from openclust.broker.model.changes import Bind, Change, DeclareQueue, DeleteExchange, DeleteQueue, DeleteVhost, Unbind
from openclust.broker.server.change_performer import demand_room, perform
from openclust.wire.errors import CONNECTION_FORCED, RESOURCE_LOCKED, AmqpError, ChannelError

if TYPE_CHECKING:
    from openclust.broker.queues.queue import Queue
    from openclust.broker.server.broker import Broker

QueueChange: TypeAlias = DeclareQueue | DeleteQueue | Bind | Unbind


class NameCollisions:
    """Call `decide` for a change as root, `follow` for a root's change, `gone` for every private queue that goes."""

    def __init__(self, broker: Broker, *, is_primary: bool = False) -> None:
        self._broker = broker
        self._is_primary = is_primary
        self._kept: dict[tuple[str, str], list[Change]] = {}

    def decide(self, change: Change) -> Any:
        """Make a change as root; AmqpError where it is refused."""
        if self._hides(change):
            assert isinstance(change, QueueChange), "only what is about a queue is hidden"
            raise _in_the_way(change.vhost, _name(change))
        demand_room(self._broker, change)
        return self._perform(change)

    def follow(self, change: Change) -> None:
        """Make a root's change. A private queue in its way is deleted on a primary; on a secondary the change waits."""
        if not self._hides(change):
            self._perform(change)
        elif not self._is_primary:
            self._keep(change)
        elif isinstance(change, DeclareQueue):
            self._make_way(change)
            self._perform(change)

    def _make_way(self, change: DeclareQueue) -> None:
        """The private queue of that name goes, and its owner is told why."""
        vhost = self._broker.vhost(change.vhost)
        owner = vhost.queue(change.name).owner
        text = f"a shared queue '{change.name}' was declared elsewhere: the private one of that name makes way"
        connection = next((each for each in self._broker.connections if each is owner), None)
        self._broker.note("warning", text, connection, vhost=change.vhost)
        vhost.delete_queue(change.name)
        if owner is not None:
            owner.close(CONNECTION_FORCED, f"CONNECTION_FORCED - {text}")

    def _perform(self, change: Change) -> Any:
        if isinstance(change, DeleteVhost):
            # Its hidden queues must not appear when their private queues go.
            for key in [key for key in self._kept if key[0] == change.vhost]:
                del self._kept[key]
        result = perform(self._broker, change)
        if isinstance(change, DeleteExchange):
            # Its bindings went with it, the hidden ones as well.
            for (vhost, _), kept in self._kept.items():
                if vhost == change.vhost:
                    kept[:] = [each for each in kept if not (isinstance(each, Bind) and each.source == change.name)]
        return result

    def _hides(self, change: Change) -> bool:
        """Whether the change is about a shared queue whose name a private queue has here."""
        if not isinstance(change, QueueChange) or (isinstance(change, Bind | Unbind) and change.to_exchange):
            return False
        vhost = self._broker.vhosts.get(change.vhost)
        queue = None if vhost is None else vhost.queues.get(_name(change))
        return queue is not None and queue.owner is not None

    def _keep(self, change: Change) -> None:
        assert isinstance(change, QueueChange), "it is about a queue"
        key = change.vhost, _name(change)
        match change:
            case DeclareQueue():
                text = "a private queue hides a shared one of the same name until it goes"
                self._broker.note("warning", text, vhost=change.vhost, queue=change.name)
                self._kept[key] = [change]
            case DeleteQueue():
                self._kept.pop(key, None)
            case Bind() if key in self._kept and change not in self._kept[key]:
                self._kept[key].append(change)
            case Unbind() if key in self._kept:
                self._kept[key] = [each for each in self._kept[key] if not _undoes(change, each)]

    def clear(self) -> None:
        """Forget all hidden definitions: a snapshot brings them anew."""
        self._kept.clear()

    def changes(self) -> list[Change]:
        """The changes that make all hidden definitions."""
        return [change for _, kept in sorted(self._kept.items()) for change in kept]

    def gone(self, vhost: str, name: str) -> None:
        """A private queue is gone: make the shared queue of its name that it hid."""
        for change in self._kept.pop((vhost, name), ()):
            try:
                perform(self._broker, change)
            except (AmqpError, ValueError) as error:
                # Its exchange may have gone in the meantime.
                self._broker.note("warning", "what a private queue hid could not be made here", text=str(error))


def shared_queue(broker: Broker, vhost: str, name: str) -> Queue:
    """The queue of that name for another broker: 404 or 405 where there is no shared one."""
    queue = broker.vhost(vhost).queue(name)
    if queue.owner is not None:
        raise _in_the_way(vhost, name)
    return queue


def _in_the_way(vhost: str, name: str) -> ChannelError:
    text = f"queue '{name}' in vhost '{vhost}' is a private one of the root's, until that goes"
    return ChannelError(RESOURCE_LOCKED, text)


def _name(change: QueueChange) -> str:
    return change.destination if isinstance(change, Bind | Unbind) else change.name


def _undoes(change: Unbind, other: Change) -> bool:
    return isinstance(other, Bind) and (
        (change.source, change.routing_key, change.arguments) == (other.source, other.routing_key, other.arguments)
    )
