"""The ports at which a broker listens, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from openclust.manage.gather.selection import Row

if TYPE_CHECKING:
    from openclust.shell.server import Server


class HttpAddress(NamedTuple):
    """Where a service with HTTP listens. Its protocol is `http`, `https` or, for metrics alone, `http/prometheus`."""

    host: str
    port: int
    protocol: str
    description: str
    path: str


def listener_rows(server: Server, http: list[HttpAddress]) -> list[Row]:
    """All listeners of this broker, by RabbitMQ's names of protocols."""
    backlog = server.config.listen.backlog
    rows = [_row(server, "amqp", each.address, backlog) for each in server.listeners]
    rows += [_row(server, "amqp/ssl", each, backlog) for each in server.tls_addresses]
    if server.peer_listener.address is not None:
        rows.append(_row(server, "clustering", server.peer_listener.address, backlog))
    rows += [_row(server, each.protocol, (each.host, each.port), None) for each in http]
    return rows


def plugin_names(http: list[HttpAddress]) -> list[str]:
    """The plugins of RabbitMQ whose work this broker does: tools look for these before they ask for more."""
    names = ["rabbitmq_management"] if any(each.protocol in ("http", "https") for each in http) else []
    # The management API serves metrics too.
    return [*names, "rabbitmq_prometheus"] if http else names


def _row(server: Server, protocol: str, address: tuple[str, int], backlog: int | None) -> Row:
    options: Row = {"ip": address[0], "port": address[1], "nodelay": True}
    if backlog is not None:
        options["backlog"] = backlog
    return {
        "node": server.config.name,
        "protocol": protocol,
        "ip_address": address[0],
        "port": address[1],
        "socket_opts": options,
    }


def context_rows(server: Server, http: list[HttpAddress]) -> list[Row]:
    """What is served over HTTP, and where."""
    return [
        {
            "node": server.config.name,
            "description": each.description,
            "path": each.path,
            "ip": each.host,
            "port": str(each.port),
            "ssl_opts": [],
        }
        for each in http
    ]
