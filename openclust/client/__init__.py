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
"""For URLs without a heartbeat. With aiormq's default of 60 s, a dead network is noticed only after three minutes."""


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
    take the connection. Raises NoBroker with a reason for each host, or TimeoutError.
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
    """As `connect`. After a loss it looks for another broker until it finds one, and declares everything again.

    If the broker that closed the connection named another one, that one is tried first. `fail_fast=False` waits without
    end for the first broker too; `reconnect_interval` is the least time in seconds between two connections.
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
