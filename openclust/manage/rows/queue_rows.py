"""Queues as rows: each broker shows those that are active on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.durability_level import OWN, SHARED
from openclust.broker.model.policy import Kind
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.manage.gather.questions import FindRow, ListRows
from openclust.manage.gather.selection import Row
from openclust.manage.history.shown import ShownHistory
from openclust.manage.rows.connection_rows import connection_name
from openclust.manage.rows.idle_queues import IdleQueues
from openclust.manage.rows.queue_contents import contents_of
from openclust.manage.rows.scope import vhosts_seen
from openclust.manage.rows.values import text, value


class Primaries(Protocol):
    """The primaries of the cluster, which hold the copies of replicated queues."""

    @property
    def primaries(self) -> tuple[str, ...]: ...
    def is_there(self, name: str) -> bool: ...


class QueueRows:
    """The queues that are active on this broker."""

    _values: Mapping[str, Callable[[Queue], Any]] = {
        "name": lambda queue: text(queue.name),
        "vhost": lambda queue: text(queue.vhost.name),
        "messages": lambda queue: len(queue) + queue.unacked,
        "messages_ready": len,
        "messages_unacknowledged": lambda queue: queue.unacked,
        "message_bytes_ready": lambda queue: queue.ready_bytes,
        "type": lambda queue: queue.args.queue_type,
        "consumers": lambda queue: len(queue.consumers),
        "durable": lambda queue: queue.durable,
    }

    def __init__(self, broker: Broker, primaries: Primaries, history: ShownHistory) -> None:
        self.values = {**self._values, **history.queue_values()}
        self._history = history
        self._broker = broker
        self._primaries = primaries
        self._idle = IdleQueues(broker)

    def objects(self, question: ListRows) -> Iterator[Queue]:
        return (
            queue
            for each in vhosts_seen(self._broker, question.viewer, question.vhost)
            for queue in list(each.queues.values())
            if self._shows(queue, question)
        )

    def find(self, question: FindRow) -> Queue | None:
        found = vhosts_seen(self._broker, question.viewer, question.vhost)
        queue = found[0].queues.get(question.name) if found else None
        return queue if queue is not None and self._shows(queue, question) else None

    def _shows(self, queue: Queue, question: ListRows | FindRow) -> bool:
        cluster = self._broker.cluster
        return not cluster.is_elsewhere(queue) or (question.is_own and not cluster.home(queue))

    def place(self, it: Queue) -> tuple[str, str]:
        return text(it.vhost.name), text(it.name)

    def row(self, it: Queue) -> Row:
        idle_since = self._idle.look(it)
        return {
            **queue_row(self._broker, it),
            **_copies(self._broker, it, self._primaries),
            **self._history.of_queue(it),
            **({} if idle_since is None else {"idle_since": idle_since}),
        }

    def details(self, it: Queue) -> Row:
        """With what came in by exchange and went out by channel: empty lists, as in RabbitMQ without such counters."""
        return {**self.row(it), "incoming": [], "deliveries": []}


def queue_row(broker: Broker, queue: Queue) -> Row:
    """A queue as this broker knows it: only the broker on which it is active can count it, others leave that out."""
    vhost = queue.vhost
    kind: Kind = "quorum_queue" if queue.args.queue_type == "quorum" else "classic_queue"
    policy, operator_policy = broker.policies.matching(vhost.name, kind, queue.name)
    home = broker.cluster.home(queue)
    owner = queue.owner
    return {
        "name": text(queue.name),
        "vhost": text(vhost.name),
        "type": queue.args.queue_type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": owner is not None,
        **({"owner_pid_details": _owner(owner)} if isinstance(owner, Connection) else {}),
        "arguments": value(queue.arguments),
        "state": "running" if home else "down",
        # Without a root a shared queue is active nowhere; this broker knows it all the same.
        "node": home or broker.name,
        **_reliability(queue),
        **({} if broker.cluster.is_elsewhere(queue) else _counts(broker, queue)),
        "policy": policy.name if policy is not None else None,
        "operator_policy": operator_policy.name if operator_policy is not None else None,
        "effective_policy_definition": value(broker.policies.effective(vhost.name, kind, queue.name)),
    }


def _counts(broker: Broker, queue: Queue) -> Row:
    consumers = queue.consumers
    exclusive = next((each.tag for each in consumers if each.exclusive), None)
    active = consumers.active() if consumers.single_active else None
    capacity = _capacity(queue)
    return {
        **contents_of(broker, queue),
        "consumers": len(consumers),
        "consumer_capacity": capacity,
        "consumer_utilisation": capacity,
        "exclusive_consumer_tag": None if exclusive is None else text(exclusive),
        "single_active_consumer_tag": None if active is None else text(active.tag),
    }


def _capacity(queue: Queue) -> float:
    """1 while a message that came now would be delivered at once, 0 while it would wait for a consumer."""
    if not queue.consumers.all:
        return 0.0
    return 1.0 if not len(queue) or queue.consumers.ready else 0.0


def _owner(owner: Connection) -> Row:
    return {"name": connection_name(owner), "peer_host": owner.peer.host, "peer_port": owner.peer.port}


def _copies(broker: Broker, queue: Queue, primaries: Primaries) -> Row:
    """Who has a copy of the queue's messages. Mirrors that wait for a synchronisation there are none."""
    home = broker.cluster.home(queue)
    node = home or broker.name
    members = [node]
    if queue.owner is None and broker.journal.level(queue) == SHARED:
        members = sorted({*primaries.primaries, *members})
    return {
        "leader": node,
        "members": members,
        "online": [each for each in members if each in (home, broker.name) or primaries.is_there(each)],
        "recoverable_slaves": None,
    }


def _reliability(queue: Queue) -> Row:
    """What is replicated of a queue, and the durability level of its messages by delivery mode."""
    journal = queue.vhost.broker.journal
    kept = journal.level(queue)
    transient = "reliable transient" if kept == SHARED else "fully transient"
    persistent = "persistent" if kept == OWN else transient
    if kept == SHARED and journal.has_disk:
        persistent = "reliable persistent"
    replicate = queue.settings.replicate or ("messages" if queue.durable else "configuration")
    return {
        "replicate": "none" if queue.owner is not None else replicate,
        "level": {"transient": transient, "persistent": persistent},
    }
