"""The metrics of a broker under the names of RabbitMQ's Prometheus plugin: boards and alerts made for that just work.

Each broker exposes its own. A shared queue is counted by the root, a private queue and a client by their broker: so
sums over the brokers count each once.
"""

from __future__ import annotations

from collections.abc import Callable

from openclust.broker.amqp.channel import SIZE_SAMPLE_EVERY
from openclust.manage.brokers.product import ERLANG_VERSION, RABBITMQ_VERSION
from openclust.manage.metrics.metric import Metric, Samples, one
from openclust.manage.metrics.readings import Readings

PROTOCOL = "amqp091"
BY_PROTOCOL = ("protocol",)


def _of(read: Callable[[Readings], float | None]) -> Callable[[Readings], Samples]:
    return lambda readings: one(read(readings))


def _by_protocol(read: Callable[[Readings], float]) -> Callable[[Readings], Samples]:
    return lambda readings: [((PROTOCOL,), read(readings))]


def _identity(readings: Readings) -> Samples:
    broker, membership = readings.broker, readings.membership
    return [((broker.name, broker.cluster_name, membership.hello.uuid, "aggregated"), 1)]


def _build(readings: Readings) -> Samples:
    return [((RABBITMQ_VERSION, ERLANG_VERSION, RABBITMQ_VERSION, "0"), 1)]


def _alarm(cause: str) -> Callable[[Readings], Samples]:
    def read(readings: Readings) -> Samples:
        accounts = readings.broker.memory_accounts
        return one(accounts.alarm and accounts.alarm_cause == cause)

    return read


def _dead_lettered(reason: str) -> Callable[[Readings], Samples]:
    return lambda readings: one(readings.broker.dead_lettered.get(reason, 0))


def _files_alarm(readings: Readings) -> Samples:
    return one(readings.figures.open_files >= readings.figures.open_files_max)


_PROCESS, _CLIENTS, _QUEUES, _DISK = "the process", "clients of this broker", "queues active here", "the machine's disk"

_MESSAGES: tuple[tuple[str, str, Callable[[Readings], float]], ...] = (
    ("received", "Messages that clients have published", lambda it: it.totals.counts.publish),
    ("received_confirm", "Those of them that wanted a confirm", lambda it: it.totals.confirming),
    ("confirmed", "Messages that were confirmed to their publishers", lambda it: it.totals.counts.confirm),
    ("routed", "Messages that reached a queue, or another broker", lambda it: it.totals.routed),
    (
        "unroutable_dropped",
        "Messages that reached no queue, and were dropped",
        lambda it: it.totals.counts.drop_unroutable,
    ),
    (
        "unroutable_returned",
        "Messages that reached no queue, and were returned",
        lambda it: it.totals.counts.return_unroutable,
    ),
    (
        "delivered",
        "Messages that clients were sent, by consumers or by basic.get",
        lambda it: it.totals.counts.deliver_get,
    ),
    (
        "delivered_consume_auto_ack",
        "Messages sent to consumers without acknowledgements",
        lambda it: it.totals.counts.deliver_no_ack,
    ),
    (
        "delivered_consume_manual_ack",
        "Messages sent to consumers that acknowledge",
        lambda it: it.totals.counts.deliver,
    ),
    ("delivered_get_auto_ack", "Messages got without acknowledgement", lambda it: it.totals.counts.get_no_ack),
    ("delivered_get_manual_ack", "Messages got, to be acknowledged", lambda it: it.totals.counts.get),
    ("get_empty", "basic.get of empty queues", lambda it: it.totals.counts.get_empty),
    ("redelivered", "Messages that were sent once more", lambda it: it.totals.counts.redeliver),
    ("acknowledged", "Messages that clients have acknowledged", lambda it: it.totals.counts.ack),
)

_DEAD_LETTERED = (
    ("expired", "their time to live was over"),
    ("maxlen", "the queue was full"),
    ("rejected", "a consumer rejected them"),
    ("delivery_limit", "they were delivered too often"),
)

_CHURN: tuple[tuple[str, str, str, Callable[[Readings], float]], ...] = (
    ("connections_opened", "Connections opened", _CLIENTS, lambda it: it.broker.churn.connection_created),
    ("connections_closed", "Connections closed", _CLIENTS, lambda it: it.broker.churn.connection_closed),
    ("channels_opened", "Channels opened", _CLIENTS, lambda it: it.broker.churn.channel_created),
    ("channels_closed", "Channels closed", _CLIENTS, lambda it: it.broker.churn.channel_closed),
    (
        "queues_declared",
        "Declares of queues, also of those that are there",
        _CLIENTS,
        lambda it: it.broker.churn.queue_declared,
    ),
    ("queues_created", "Queues made", _QUEUES, lambda it: it.broker.churn.queue_created),
    ("queues_deleted", "Queues deleted", _QUEUES, lambda it: it.broker.churn.queue_deleted),
)

RABBITMQ_METRICS: tuple[Metric[Readings], ...] = (
    Metric(
        "rabbitmq_identity_info",
        "info",
        "This broker and its cluster",
        _PROCESS,
        _identity,
        ("rabbitmq_node", "rabbitmq_cluster", "rabbitmq_cluster_permanent_id", "rabbitmq_endpoint"),
    ),
    Metric(
        "rabbitmq_build_info",
        "info",
        "The version of RabbitMQ whose metrics these are; that of openclust is in openclust_build_info",
        _PROCESS,
        _build,
        ("rabbitmq_version", "erlang_version", "prometheus_plugin_version", "prometheus_client_version"),
    ),
    Metric(
        "rabbitmq_erlang_uptime_seconds",
        "gauge",
        "How long the broker runs",
        _PROCESS,
        _of(lambda it: it.now_s - it.figures.started_s),
    ),
    Metric(
        "process_start_time_seconds",
        "gauge",
        "When the process started",
        _PROCESS,
        _of(lambda it: it.figures.started_s),
    ),
    Metric(
        "process_cpu_seconds_total", "counter", "Time of processors used", _PROCESS, _of(lambda it: it.figures.cpu_s)
    ),
    Metric("rabbitmq_connections", "gauge", "Open connections", _CLIENTS, _of(lambda it: it.totals.connections)),
    Metric("rabbitmq_channels", "gauge", "Open channels", _CLIENTS, _of(lambda it: it.totals.channels)),
    Metric("rabbitmq_consumers", "gauge", "Consumers", _CLIENTS, _of(lambda it: it.totals.consumers)),
    Metric("rabbitmq_queues", "gauge", "Queues", _QUEUES, _of(lambda it: it.totals.queues)),
    Metric(
        "rabbitmq_queue_messages_ready",
        "gauge",
        "Messages that wait for consumers",
        _QUEUES,
        _of(lambda it: it.totals.ready),
    ),
    Metric(
        "rabbitmq_queue_messages_unacked",
        "gauge",
        "Messages that were delivered and not acknowledged",
        _QUEUES,
        _of(lambda it: it.totals.unacked),
    ),
    Metric(
        "rabbitmq_queue_messages", "gauge", "Messages ready and unacked", _QUEUES, _of(lambda it: it.totals.messages)
    ),
    Metric(
        "rabbitmq_queue_messages_ready_bytes",
        "gauge",
        "Bytes of bodies of the messages that wait",
        _QUEUES,
        _of(lambda it: it.totals.ready_bytes),
    ),
    Metric(
        "rabbitmq_queue_messages_paged_out",
        "gauge",
        "Messages that are on disk only",
        _QUEUES,
        _of(lambda it: it.totals.paged_out),
    ),
    Metric(
        "rabbitmq_queue_consumers",
        "gauge",
        "Consumers of these queues, wherever they are connected",
        _QUEUES,
        _of(lambda it: it.totals.queue_consumers),
    ),
    Metric(
        "rabbitmq_channel_messages_unacked",
        "gauge",
        "Deliveries that clients here have to acknowledge",
        _CLIENTS,
        _of(lambda it: it.totals.channel_unacked),
    ),
    Metric(
        "rabbitmq_global_publishers",
        "gauge",
        "Connections that have published",
        _CLIENTS,
        _by_protocol(lambda it: it.totals.publishers),
        BY_PROTOCOL,
    ),
    Metric(
        "rabbitmq_global_consumers",
        "gauge",
        "Consumers",
        _CLIENTS,
        _by_protocol(lambda it: it.totals.consumers),
        BY_PROTOCOL,
    ),
    Metric(
        "rabbitmq_resident_memory_limit_bytes",
        "gauge",
        "Publishers wait while the broker uses more memory",
        _PROCESS,
        _of(lambda it: it.broker.memory_accounts.high_bytes),
    ),
    Metric(
        "rabbitmq_process_resident_memory_bytes",
        "gauge",
        "Memory of the process",
        _PROCESS,
        _of(lambda it: it.figures.resident_bytes),
    ),
    Metric(
        "rabbitmq_process_open_fds",
        "gauge",
        "Open files and sockets",
        _PROCESS,
        _of(lambda it: it.figures.open_files),
    ),
    Metric(
        "rabbitmq_process_max_fds",
        "gauge",
        "The most open files that the system allows",
        _PROCESS,
        _of(lambda it: it.figures.open_files_max),
    ),
    Metric(
        "rabbitmq_process_open_tcp_sockets",
        "gauge",
        "Connections of clients and peers",
        _PROCESS,
        _of(lambda it: len(it.broker.connections)),
    ),
    Metric(
        "rabbitmq_process_max_tcp_sockets",
        "gauge",
        "The most connections that the configuration allows",
        _PROCESS,
        _of(lambda it: it.broker.limits.connections_max),
    ),
    Metric(
        "rabbitmq_disk_space_available_bytes",
        "gauge",
        "Free bytes of the disk with the data directory, or else with the working directory",
        _DISK,
        _of(lambda it: it.figures.disk_free_bytes),
    ),
    Metric(
        "rabbitmq_disk_space_available_limit_bytes",
        "gauge",
        "0: publishers wait when the disk takes no more, and not before",
        _DISK,
        _of(lambda it: 0),
    ),
    Metric(
        "rabbitmq_alarms_memory_used_watermark",
        "gauge",
        "Whether publishers wait for memory",
        _PROCESS,
        _alarm("memory"),
    ),
    Metric(
        "rabbitmq_alarms_free_disk_space_watermark",
        "gauge",
        "Whether publishers wait for the disk",
        _DISK,
        _alarm("disk"),
    ),
    Metric(
        "rabbitmq_alarms_file_descriptor_limit",
        "gauge",
        "Whether as many files are open as the system allows",
        _PROCESS,
        _files_alarm,
    ),
    *(
        Metric(
            f"rabbitmq_global_messages_{name}_total",
            "counter",
            help,
            _CLIENTS,
            _by_protocol(read),
            BY_PROTOCOL,
        )
        for name, help, read in _MESSAGES
    ),
    *(
        Metric(
            f"rabbitmq_global_messages_dead_lettered_{reason}_total",
            "counter",
            f"Messages that left a queue for its dead-letter exchange: {help}",
            _QUEUES,
            _dead_lettered(reason),
        )
        for reason, help in _DEAD_LETTERED
    ),
    *(Metric(f"rabbitmq_{name}_total", "counter", help, source, _of(read)) for name, help, source, read in _CHURN),
    Metric(
        "rabbitmq_message_size_bytes",
        "histogram",
        f"Sizes of published messages: one in {SIZE_SAMPLE_EVERY} is looked at, and counts {SIZE_SAMPLE_EVERY} times",
        _CLIENTS,
        lambda it: [((PROTOCOL,), it.broker.message_sizes)],
        BY_PROTOCOL,
    ),
)
