"""Queues as rows: each broker shows those that are active on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openclust.broker.backlog.paged_backlog import PagedBacklog
from openclust.broker.model.durability_level import OWN, SHARED
from openclust.broker.model.policy import Kind
from openclust.broker.queues.queue import Queue
from openclust.broker.server.broker import Broker
from openclust.manage.gather.questions import FindRow, ListRows
from openclust.manage.gather.selection import Row
from openclust.manage.rows.scope import vhosts_seen
from openclust.manage.rows.values import text, value


class QueueRows:
    """The queues that are active on this broker."""

    values: Mapping[str, Callable[[Queue], Any]] = {
        "name": lambda queue: text(queue.name),
        "vhost": lambda queue: text(queue.vhost.name),
        "messages": lambda queue: len(queue) + queue.unacked,
        "messages_ready": len,
        "messages_unacknowledged": lambda queue: queue.unacked,
        "message_bytes_ready": lambda queue: queue.ready_bytes,
        "consumers": lambda queue: len(queue.consumers),
        "durable": lambda queue: queue.durable,
    }

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def objects(self, question: ListRows) -> list[Queue]:
        return [
            queue
            for each in vhosts_seen(self._broker, question.viewer, question.vhost)
            for queue in each.queues.values()
            if self._shows(queue, question)
        ]

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
        return queue_row(self._broker, it)

    def details(self, it: Queue) -> Row:
        return self.row(it)


def queue_row(broker: Broker, queue: Queue) -> Row:
    """A queue as this broker knows it: only the broker on which it is active can count it, others leave that out."""
    vhost = queue.vhost
    kind: Kind = "quorum_queue" if queue.args.queue_type == "quorum" else "classic_queue"
    policy, operator_policy = broker.policies.matching(vhost.name, kind, queue.name)
    home = broker.cluster.home(queue)
    return {
        "name": text(queue.name),
        "vhost": text(vhost.name),
        "type": queue.args.queue_type,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None,
        "arguments": value(queue.arguments),
        "state": "running" if home else "down",
        "node": home or None,
        **_reliability(queue),
        **({} if broker.cluster.is_elsewhere(queue) else _counts(queue)),
        "policy": policy.name if policy is not None else None,
        "operator_policy": operator_policy.name if operator_policy is not None else None,
        "effective_policy_definition": value(broker.policies.effective(vhost.name, kind, queue.name)),
    }


def _counts(queue: Queue) -> Row:
    ready = len(queue)
    return {
        "consumers": len(queue.consumers),
        "messages": ready + queue.unacked,
        "messages_ready": ready,
        "messages_unacknowledged": queue.unacked,
        "message_bytes_ready": queue.ready_bytes,
        # Messages that are on disk only.
        "messages_paged_out": queue.backlog.page_index.unloaded_count if isinstance(queue.backlog, PagedBacklog) else 0,
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
