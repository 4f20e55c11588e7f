"""aio-pika for a cluster: `connect` and `connect_robust` take many URLs, follow redirects and find another broker.

    connection = await openclust.client.connect_robust("amqp://a:5672/,amqp://b:5672/")

What they return is aio-pika's own connection; everything else is as aio-pika's documentation says.
"""

from __future__ import annotations

import random
import ssl
from collections.abc import Iterable, Mapping
from typing import Any

from aio_pika.abc import TimeoutType
from yarl import URL

from openclust.client.connection import ClusterConnection, RobustClusterConnection
from openclust.client.failures import NoBroker
from openclust.client.hosts import Hosts, parse_urls
from openclust.client.search import HOST_TIMEOUT_S, ROUNDS

__all__ = ["ClusterConnection", "NoBroker", "RobustClusterConnection", "connect", "connect_robust"]

HEARTBEAT_S = 10
"""Where a URL says nothing. With aiormq's own, 60 s, a dead network is noticed after three minutes."""


async def connect(
    urls: str | URL | Iterable[str | URL],
    *,
    root: bool = False,
    cluster_key: str = "",
    client_properties: Mapping[str, Any] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    timeout: TimeoutType = None,
    host_timeout: float = HOST_TIMEOUT_S,
    rounds: int = ROUNDS,
    **options: Any,
) -> ClusterConnection:
    """An open connection to a broker of the cluster. Close it, or use it in `async with`.

    `urls` are tried in their order, then the hosts that brokers name, `rounds` times; `host_timeout` bounds one
    attempt and `timeout` all of them. `root` asks to be sent to the root; `cluster_key` lets only this cluster
    take the connection. Raises NoBroker, which says of each host why not, or TimeoutError.
    """
    connection = ClusterConnection(
        _hosts(urls),
        host_timeout,
        rounds,
        client_properties=_properties(root, cluster_key, client_properties),
        ssl_context=ssl_context,
        **options,
    )
    await connection.connect(timeout)
    return connection


async def connect_robust(
    urls: str | URL | Iterable[str | URL],
    *,
    root: bool = False,
    cluster_key: str = "",
    client_properties: Mapping[str, Any] | None = None,
    ssl_context: ssl.SSLContext | None = None,
    timeout: TimeoutType = None,
    host_timeout: float = HOST_TIMEOUT_S,
    rounds: int = ROUNDS,
    **options: Any,
) -> RobustClusterConnection:
    """As `connect`, and after a loss it looks for another broker for as long as it takes, and declares all anew.

    Where a broker says where its connection goes, it goes there first. `fail_fast=False` waits for the first broker
    as for all later ones; `reconnect_interval` is the least time in seconds between two connections.
    """
    connection = RobustClusterConnection(
        _hosts(urls),
        host_timeout,
        rounds,
        client_properties=_properties(root, cluster_key, client_properties),
        ssl_context=ssl_context,
        **options,
    )
    try:
        await connection.connect(timeout)
    except BaseException:
        await connection.close()
        raise
    return connection


def _hosts(urls: str | URL | Iterable[str | URL]) -> Hosts:
    found = parse_urls(urls)
    beating = [url if "heartbeat" in url.query else url.update_query(heartbeat=HEARTBEAT_S) for url in found]
    return Hosts(beating, random.shuffle)


def _properties(root: bool, cluster_key: str, others: Mapping[str, Any] | None) -> dict[str, Any]:
    properties = dict(others or {})
    if root:
        properties["connect_to"] = "root"
    if cluster_key:
        properties["cluster_key"] = cluster_key
    return properties
