"""The brokers of a local cluster: their names, ports, one configuration file for all, and how each is started."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

HOST = "127.0.0.1"
PRIMARIES_MAX = 9
SECONDARIES_MAX = 50
PEER_PORT_OFFSET = 10
HTTP_PORT_OFFSET = 10_000
FREE_PORTS = range(20_000, 32_768)
"""Ports below those that Linux gives to outgoing connections."""
BASE_PORT_MAX = 65_535 - HTTP_PORT_OFFSET - PEER_PORT_OFFSET

KEPT_VARIABLES = (
    "OPENCLUST_LOG_",
    "OPENCLUST_LIMITS_",
    "OPENCLUST_REDIRECT_",
    "OPENCLUST_TRACE_SAMPLE",
    "OPENCLUST_TRACE_MAX",
)
"""Beginnings of environment variables that all brokers may share. A port or a name would be the same for all."""


class LocalBroker(msgspec.Struct, frozen=True):
    name: str
    client_port: int
    peer_port: int
    http_port: int

    @property
    def amqp_url(self) -> str:
        return f"amqp://{HOST}:{self.client_port}/"

    @property
    def api_url(self) -> str:
        return f"http://{HOST}:{self.http_port}"

    @property
    def http_url(self) -> str:
        """The URL of the HTTP API, with the login that every new broker has."""
        return f"http://guest:guest@{HOST}:{self.http_port}"


class LocalCluster(msgspec.Struct, frozen=True):
    """`write` its files, then start every broker with `command` and `environment`."""

    cluster_key: str
    folder: Path
    primaries: tuple[LocalBroker, ...]
    log_level: str = "info"
    secondaries: tuple[LocalBroker, ...] = ()
    trace: Path | None = None
    """The folder for the traces of all brokers."""

    heartbeat_ms: int | None = None
    """The heartbeat interval of the cluster, which the secondaries get from their primaries."""

    @property
    def brokers(self) -> tuple[LocalBroker, ...]:
        return self.primaries + self.secondaries

    @property
    def config_file(self) -> Path:
        return self.folder / "cluster.toml"

    def write(self) -> None:
        """Writes the files. Raises OSError if the folder cannot be made or written."""
        for each in self.primaries:
            (self.folder / each.name).mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(self.configuration(), encoding="utf-8")

    def configuration(self) -> str:
        """One file for all primaries: each finds its own entry by its name. Secondaries need no file."""
        parts = ["# Written by openclust up, anew at every start.\n"]
        if self.heartbeat_ms is not None:
            parts.append(f"[cluster]\nheartbeat_ms = {self.heartbeat_ms}\n")
        for each in self.primaries:
            parts.append(
                f"[cluster.primaries.{each.name}]\n"
                f'client = "{HOST}:{each.client_port}"\n'
                f'peer = "{HOST}:{each.peer_port}"\n'
                f'http = "{HOST}:{each.http_port}"\n'
            )
        return "\n".join(parts)

    def command(self, broker: LocalBroker) -> list[str]:
        start = [sys.executable, "-m", "openclust", "start", "--cluster-key", self.cluster_key, "--name", broker.name]
        if self.trace is not None:
            start += ["--trace", str(self.trace / f"{broker.name}.jsonl")]
        if broker in self.primaries:
            data = f"cluster.data_dir={self.folder / broker.name}"
            return [*start, "--config", str(self.config_file), "--set", data, "--log-level", self.log_level]
        return [
            *start,
            *("--join", ",".join(f"{HOST}:{each.peer_port}" for each in self.primaries)),
            *("--port", str(broker.client_port), "--http-port", str(broker.http_port)),
            *("--set", f"cluster.peer_listen={HOST}:{broker.peer_port}", "--log-level", self.log_level),
        ]

    def environment(self) -> dict[str, str]:
        return {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("OPENCLUST_") or name.startswith(KEPT_VARIABLES)
        }


def plan_cluster(
    cluster_key: str,
    folder: Path,
    primaries: int,
    secondaries: int = 0,
    *,
    base_port: int | None = None,
    log_level: str = "info",
) -> LocalCluster:
    """Names and ports for the brokers, from `base_port` or free ones. Raises click's error if a port is taken."""
    names = [*(f"p{i + 1}" for i in range(primaries)), *(f"s{i + 1}" for i in range(secondaries))]
    brokers = _at_free_ports(names) if base_port is None else _from_port(base_port, names)
    return LocalCluster(cluster_key, folder, brokers[:primaries], log_level, brokers[primaries:])


def _at_free_ports(names: Sequence[str]) -> tuple[LocalBroker, ...]:
    ports = iter(_free_ports(3 * len(names)))
    return tuple(LocalBroker(name, next(ports), next(ports), next(ports)) for name in names)


def _from_port(base_port: int, names: Sequence[str]) -> tuple[LocalBroker, ...]:
    if len(names) > PEER_PORT_OFFSET:
        raise click.UsageError(
            f"--base-port has room for {PEER_PORT_OFFSET} brokers, as peers are at PORT+{PEER_PORT_OFFSET}; "
            "leave it out for free ports"
        )
    planned = tuple(
        LocalBroker(name, base_port + i, base_port + PEER_PORT_OFFSET + i, base_port + HTTP_PORT_OFFSET + i)
        for i, name in enumerate(names)
    )
    for each in planned:
        for port in (each.client_port, each.peer_port, each.http_port):
            _check_free(port, each.name)
    return planned


def _free_ports(count: int) -> list[int]:
    """Free ports outside the range of outgoing connections, so that no link gets the port that another broker needs.

    All are held until the last is found, so that they differ.
    """
    with contextlib.ExitStack() as held:
        found: list[int] = []
        for port in random.sample(FREE_PORTS, len(FREE_PORTS)):
            if len(found) == count:
                break
            probe = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                found.append(port)
    if len(found) < count:
        raise click.ClickException(f"{HOST} has no {count} free ports from {FREE_PORTS[0]} to {FREE_PORTS[-1]}")
    return found


def _check_free(port: int, name: str) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise click.ClickException(
                f"{HOST}:{port} for {name} cannot be had: {error.strerror}; choose another --base-port, "
                "or leave it out for free ports"
            ) from None
