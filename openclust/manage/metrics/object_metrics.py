"""Metrics of single queues and exchanges, in RabbitMQ's families: as many series as objects, so answers have a bound.

Nothing here is labelled by a channel or a connection: these come and go, and each would be a series for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from openclust.broker.queues.queue import Queue
from openclust.broker.routing.exchange import Exchange
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.metrics.metric import Metric, Samples
from openclust.manage.metrics.totals import paged_out
from openclust.manage.rows.values import text

SERIES_MAX = 100_000
"""One answer has no more series than this; `openclust_metrics_cut_series` says how many were left out."""


class Objects(msgspec.Struct, frozen=True):
    """The objects that an answer is about: of all virtual hosts, or of those that were asked for."""

    vhosts: list[VirtualHost]
    queues: list[Queue]
    exchanges: list[tuple[VirtualHost, Exchange]]


def _queues(read: Callable[[Queue], float]) -> Callable[[Objects], Samples]:
    def samples(objects: Objects) -> Iterator[tuple[tuple[str, ...], float]]:
        for queue in objects.queues:
            yield (text(queue.vhost.name), text(queue.name)), read(queue)

    return samples


def _exchanges(read: Callable[[Exchange], float]) -> Callable[[Objects], Samples]:
    def samples(objects: Objects) -> Iterator[tuple[tuple[str, ...], float]]:
        for vhost, exchange in objects.exchanges:
            yield (text(vhost.name), text(exchange.name), exchange.type), read(exchange)

    return samples


_SOURCE = "queues active here"
_EVERYWHERE = "every broker: the same at all"
_QUEUE = ("vhost", "queue")
_EXCHANGE = ("vhost", "exchange", "type")

PREFIX = "rabbitmq_"
DETAILED_PREFIX = "rabbitmq_detailed_"

FAMILIES: dict[str, tuple[Metric[Objects], ...]] = {
    "queue_coarse_metrics": (
        Metric(
            "rabbitmq_detailed_queue_messages_ready",
            "gauge",
            "Messages that wait in a queue",
            _SOURCE,
            _queues(len),
            _QUEUE,
        ),
        Metric(
            "rabbitmq_detailed_queue_messages_unacked",
            "gauge",
            "Messages of a queue that were delivered and not acknowledged",
            _SOURCE,
            _queues(lambda queue: queue.unacked),
            _QUEUE,
        ),
        Metric(
            "rabbitmq_detailed_queue_messages",
            "gauge",
            "Messages of a queue, ready and unacked",
            _SOURCE,
            _queues(lambda queue: len(queue) + queue.unacked),
            _QUEUE,
        ),
    ),
    "queue_consumer_count": (
        Metric(
            "rabbitmq_detailed_queue_consumers",
            "gauge",
            "Consumers of a queue, wherever they are connected",
            _SOURCE,
            _queues(lambda queue: len(queue.consumers)),
            _QUEUE,
        ),
    ),
    "queue_metrics": (
        Metric(
            "rabbitmq_detailed_queue_messages_ready_bytes",
            "gauge",
            "Bytes of bodies of the messages that wait in a queue",
            _SOURCE,
            _queues(lambda queue: queue.ready_bytes),
            _QUEUE,
        ),
        Metric(
            "rabbitmq_detailed_queue_messages_paged_out",
            "gauge",
            "Messages of a queue that are on disk only",
            _SOURCE,
            _queues(paged_out),
            _QUEUE,
        ),
    ),
    "exchange_bindings": (
        Metric(
            "rabbitmq_cluster_exchange_bindings",
            "gauge",
            "Bindings from an exchange that this broker knows",
            _EVERYWHERE,
            _exchanges(lambda exchange: len(exchange.bindings)),
            _EXCHANGE,
        ),
    ),
    "exchange_names": (
        Metric(
            "rabbitmq_cluster_exchange_name",
            "gauge",
            "An exchange that there is",
            _EVERYWHERE,
            _exchanges(lambda exchange: 1),
            _EXCHANGE,
        ),
    ),
    "vhost_status": (
        Metric(
            "rabbitmq_cluster_vhost_status",
            "gauge",
            "A virtual host that there is",
            _EVERYWHERE,
            lambda objects: [((text(each.name),), 1) for each in objects.vhosts],
            ("vhost",),
        ),
    ),
}
"""The families of /metrics/detailed, by RabbitMQ's names."""

DEFAULT_FAMILIES = ("queue_coarse_metrics", "queue_consumer_count", "queue_metrics", "exchange_bindings")
"""The families of /metrics/per-object."""

CUT: Metric[int] = Metric(
    "openclust_metrics_cut_series",
    "gauge",
    "Series that this answer leaves out, as it would be too long: ask for fewer families or one virtual host",
    "the answer",
    lambda cut: [((), cut)],
)


def plain(metric: Metric[Objects]) -> Metric[Objects]:
    """The metric under the name that it has in /metrics/per-object."""
    return metric._replace(name=metric.name.replace(DETAILED_PREFIX, PREFIX, 1))
