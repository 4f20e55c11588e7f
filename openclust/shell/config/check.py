"""What values a configuration may hold: ranges, keys that depend on one another, and files that must be there."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any

import msgspec

from openclust.shell.config.config import Config

PEER_TLS = ("cluster.peer_cert", "cluster.peer_key", "cluster.peer_ca")

PORT = (0, 65_535)
SIZE = (0, 2**40)

RANGES: dict[str, tuple[int, int]] = {
    "listen.port": PORT,
    "listen.backlog": (1, 65_535),
    "tls.port": PORT,
    "http.port": PORT,
    "cluster.heartbeat_ms": (20, 60_000),
    "cluster.start_grace_ms": (0, 3_600_000),
    "cluster.state_max_mb": (1, 1_048_576),
    "cluster.root_wait_ms": (0, 3_600_000),
    "cluster.disk_stall_ms": (100, 3_600_000),
    "cluster.waiting_mb_max": (0, 1_048_576),
    "cluster.link_outbox_mb_max": (1, 1_048_576),
    "cluster.log_tail_max": (0, 1_000_000_000),
    "trace.sample": (1, 1_000_000_000),
    "trace.max_mb": (1, 1_048_576),
    "topology.failover_ms": (0, 3_600_000),
    "topology.clients": (0, 1_000_000_000),
    "topology.client_mbit": (0, 1_000_000_000),
    "topology.shared_mbit": (0, 1_000_000_000),
    "redirect.threshold": (1, 1_000_000),
    "redirect.weight": (1, 1_000),
    "redirect.rebalance_threshold": (1, 1_000),
    "redirect.rebalance_per_s": (1, 100_000),
    "redirect.drain_per_s": (1, 100_000),
    # 0-9-1 4.2.3 and 1.8: every peer takes frames of 4,096 octets
    "limits.frame_max": (4_096, 134_217_728),
    "limits.frame_max_before_login": (4_096, 134_217_728),
    "limits.channel_max": (1, 65_535),
    "limits.heartbeat_s": (0, 65_535),
    "limits.handshake_timeout_ms": (100, 600_000),
    "limits.connections_max": (1, 10_000_000),
    "limits.connections_before_login_max": (1, 10_000_000),
    "limits.queues_max": (1, 100_000_000),
    "limits.exchanges_max": (16, 100_000_000),
    "limits.bindings_max": (1, 1_000_000_000),
    "limits.consumers_per_channel_max": (1, 1_000_000),
    "limits.message_size_max": (1, 2**40),
    "limits.transaction_bytes_max": (1, 2**40),
    "limits.turn_bytes_max": (4_096, 2**40),
    "limits.unwritten_bytes_max": (0, 2**40),
    "limits.queue_memory_bytes": (0, 2**40),
    "limits.unacked_per_channel_max": (1, 1_000_000_000),
    "limits.outbox_bytes_max": (4_096, 2**40),
    "limits.route_cache_max": (1, 100_000_000),
    "limits.consumer_timeout_ms": (0, 2**53),
    "limits.dedup_window_max": (1, 1_000_000_000),
}

# short strings of the protocol carry both (a virtual host name, a field of a message)
NAME_BYTES_MAX = 255

Told = Callable[[str], str]
"""Says where the value of a key came from and what it is: `conf/x.toml line 3: listen.port = 99999`."""


def check_values(config: Config, told: Told, *, cluster_key_required: bool = True) -> list[str]:
    """Every problem with the values that can be seen without touching the disk."""
    problems = [*_ranges(config, told), *_watermark(config, told)]
    if not config.cluster_key:
        if cluster_key_required:
            problems.append(
                "no cluster key: give --cluster-key KEY, set OPENCLUST_CLUSTER_KEY, "
                'or write cluster_key = "KEY" at the top of the configuration file'
            )
    else:
        problems += _name(config.cluster_key, "cluster_key", told)
    problems += _name(config.name, "name", told) if config.name else []
    if not config.auth.mechanisms or len(set(config.auth.mechanisms)) < len(config.auth.mechanisms):
        problems.append(f"{told('auth.mechanisms')}: wanted at least one mechanism, each once")
    for key in ("listen.host", "tls.host", "http.host"):
        host = value_of(config, key)
        if host is None:
            continue
        if not host.isprintable() or " " in host:
            problems.append(f"{told(key)}: wanted a host name or an address; empty is every address of the machine")
    if config.limits.frame_max_before_login > config.limits.frame_max:
        problems.append(
            f"{told('limits.frame_max_before_login')}: allowed is at most limits.frame_max ({config.limits.frame_max})"
        )
    return problems + _tls(config, told) + _port_clashes(config, told)


def check_files(config: Config, told: Told) -> list[str]:
    """Every file the configuration names and that cannot be read."""
    problems = []
    for key in (*PEER_TLS, "tls.cert", "tls.key", "tls.ca", "auth.users_file", "definitions.file"):
        path = value_of(config, key)
        if path is None:
            continue
        trouble = _unreadable(path)
        if trouble:
            hint = "; make one with: openclust users add NAME --file " + path if key == "auth.users_file" else ""
            problems.append(f"{told(key)}: {trouble}{hint if trouble == 'no such file' else ''}")
    return problems


def value_of(config: Config, dotted: str) -> Any:
    """The value of `listen.port` and the like."""
    value: Any = config
    for part in dotted.split("."):
        value = getattr(value, part)
    return value


def _ranges(config: Config, told: Told) -> list[str]:
    problems = []
    keys = [*RANGES, *(f"limits.{field}" for field in msgspec.structs.asdict(config.limits))]
    for key in dict.fromkeys(keys):
        value = value_of(config, key)
        if not isinstance(value, int):
            continue  # not set, or not a whole number: checked on its own
        low, high = RANGES.get(key, SIZE)
        if not low <= value <= high:
            problems.append(f"{told(key)}: allowed is {low} to {high}")
    return problems


def _watermark(config: Config, told: Told) -> list[str]:
    watermark = config.limits.memory_high_watermark
    if 0 <= watermark <= 1 or (1 < watermark <= 2**60 and float(watermark).is_integer()):
        return []
    wanted = "allowed is 0 to 1 (a share of the machine's memory) or a whole number of bytes above 1"
    return [f"{told('limits.memory_high_watermark')}: {wanted}"]


def _name(value: str, key: str, told: Told) -> list[str]:
    if not value.isprintable():
        return [f"{told(key)}: must not contain control characters"]
    if len(value.encode()) > NAME_BYTES_MAX:
        return [f"{told(key)}: allowed are 1 to {NAME_BYTES_MAX} bytes"]
    return []


def _tls(config: Config, told: Told) -> list[str]:
    tls = config.tls
    problems = []
    if tls.port is None:
        # whoever wrote this believes that TLS is on
        return [f"{told('tls.cert')}: tls.port is not set, so TLS stays off; set tls.port = 5671"] if tls.cert else []
    for key in ("cert", "key"):
        if getattr(tls, key) is None:
            problems.append(f"{told('tls.port')}: needs tls.{key} too (a PEM file)")
    if tls.verify != "none" and tls.ca is None:
        problems.append(f"{told('tls.verify')}: needs tls.ca too (a PEM file: who signs the clients' certificates)")
    return problems


def _port_clashes(config: Config, told: Told) -> list[str]:
    listeners = [("listen.port", config.listen.host, config.listen.port)]
    if config.tls.port is not None:
        listeners.append(("tls.port", config.tls.host or config.listen.host, config.tls.port))
    if config.http.enabled:
        listeners.append(("http.port", config.http.host, config.http.port))
    problems = []
    for i, (key, host, port) in enumerate(listeners):
        for other_key, other_host, other_port in listeners[:i]:
            if port == other_port != 0 and _overlap(host, other_host):
                problems.append(f"{told(key)}: is the same port as {told(other_key)}")
    return problems


def _overlap(host: str, other: str) -> bool:
    pair = {host, other}
    if len(pair) == 1 or "" in pair or pair <= {"localhost", "127.0.0.1"}:
        return True
    # :: is every address of IPv6 and none of IPv4
    return ("0.0.0.0" in pair and not any(":" in h for h in pair)) or ("::" in pair and all(":" in h for h in pair))


def _unreadable(path: str) -> str | None:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return "not a file"
    except FileNotFoundError:
        return "no such file"
    except (OSError, ValueError) as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return None if os.access(path, os.R_OK) else "cannot be read: permission denied"
