"""What values a configuration may hold: ranges, keys that depend on one another, files that must be there.

So too of the section `[cluster]`, and of settings for single brokers in a cluster file, `[topology.settings.p1]`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from typing import Any

import msgspec

from openclust.shell.config.addresses import (
    PEER_LISTEN_OF_SECONDARY,
    is_every_address,
    is_this_machine,
    own_entry,
    placed,
    split_address,
)
from openclust.shell.config.keys import KEYS, NAME_BYTES_MAX, Problems, WrongType, convert, did_you_mean, is_nested
from openclust.shell.config.schema import Config

PEER_TLS = ("cluster.peer_cert", "cluster.peer_key", "cluster.peer_ca")
LISTENER_TLS = ("tls.cert", "tls.key", "tls.ca", "http.tls_cert", "http.tls_key", "http.tls_ca")

PORT = (0, 65_535)
SIZE = (0, 2**40)

RANGES: dict[str, tuple[int, int]] = {
    "listen.port": PORT,
    "listen.backlog": (1, 65_535),
    "tls.port": PORT,
    "http.port": PORT,
    "metrics.port": PORT,
    "http.session_lifetime_s": (60, 31_536_000),
    "http.wrong_logins_max": (0, 1_000_000),
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

_PREFIX = re.compile(r"(/[\w.~-]+)+", re.ASCII)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s,]+")

DOTS_MAX = 3
"""The deepest nesting that is looked at: a file may nest tables deeper than Python's recursion limit."""

Told = Callable[[str], str]
"""Shows the place of a key and its value: `conf/x.toml line 3: listen.port = 99999`."""


def check_values(config: Config, told: Told, *, cluster_key_required: bool = True) -> list[str]:
    """Every problem with the values that can be found without reading the disk."""
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
    for key in ("listen.host", "tls.host", "http.host", "metrics.host"):
        host = value_of(config, key)
        if host is None:
            continue
        if not host.isprintable() or " " in host:
            problems.append(f"{told(key)}: wanted a host name or an address; empty is every address of the machine")
    if config.limits.frame_max_before_login > config.limits.frame_max:
        problems.append(
            f"{told('limits.frame_max_before_login')}: allowed is at most limits.frame_max ({config.limits.frame_max})"
        )
    return problems + _tls(config, told) + _http(config, told) + _port_clashes(config, told)


def check_files(config: Config, told: Told) -> list[str]:
    """A problem for each file that the configuration names and that cannot be read."""
    problems = []
    for key in (*PEER_TLS, *LISTENER_TLS, "auth.users_file", "definitions.file"):
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
        # a certificate without a port: TLS was meant to be on
        return [f"{told('tls.cert')}: tls.port is not set, so TLS stays off; set tls.port = 5671"] if tls.cert else []
    for key in ("cert", "key"):
        if getattr(tls, key) is None:
            problems.append(f"{told('tls.port')}: needs tls.{key} too (a PEM file)")
    if tls.verify != "none" and tls.ca is None:
        problems.append(f"{told('tls.verify')}: needs tls.ca too (a PEM file: who signs the clients' certificates)")
    return problems


def _http(config: Config, told: Told) -> list[str]:
    http = config.http
    problems = []
    if http.path_prefix and not _PREFIX.fullmatch(http.path_prefix):
        problems.append(f"{told('http.path_prefix')}: wanted a path such as '/mq', without a slash at its end")
    for origin in http.cors_origins:
        if origin != "*" and not _ORIGIN.fullmatch(origin):
            problems.append(f"{told('http.cors_origins')}: wanted origins such as 'https://board.example.com', or '*'")
            break
    for given, missing in (("tls_cert", "tls_key"), ("tls_key", "tls_cert")):
        if getattr(http, given) is not None and getattr(http, missing) is None:
            problems.append(f"{told(f'http.{given}')}: needs http.{missing} too (a PEM file)")
    if http.tls_ca is not None and http.tls_cert is None:
        problems.append(f"{told('http.tls_ca')}: needs http.tls_cert and http.tls_key too (PEM files)")
    if http.tls_verify != "none" and http.tls_ca is None:
        wanted = "needs http.tls_ca too (a PEM file: who signs the clients' certificates)"
        problems.append(f"{told('http.tls_verify')}: {wanted}")
    return problems


def _port_clashes(config: Config, told: Told) -> list[str]:
    listeners = [("listen.port", config.listen.host, config.listen.port)]
    if config.tls.port is not None:
        listeners.append(("tls.port", config.tls.host or config.listen.host, config.tls.port))
    if config.http.enabled:
        listeners.append(("http.port", config.http.host, config.http.port))
    if config.metrics.port is not None:
        listeners.append(("metrics.port", config.metrics.host, config.metrics.port))
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


ADDRESS_KEYS = {
    "listen.host": "client",
    "listen.port": "client",
    "http.host": "http",
    "http.port": "http",
    "http.enabled": "http",
}
"""Keys that do not apply to a primary, each with the kind of address in its entry that applies instead."""


def unused_address(config: Config, key: str) -> str:
    """Why one of `ADDRESS_KEYS` does not apply to a listed primary, and the way out; empty if both are the same."""
    entry = own_entry(config)
    if entry is None:
        return ""
    kind = ADDRESS_KEYS[key]
    address = f"cluster.primaries.{config.name}.{kind}"
    if kind == "http" and not entry.http:
        # Without an HTTP API its address does not matter.
        missing = f"is not for a listed primary: it has no HTTP API without an address in {address}; write it there"
        return missing if config.http.enabled else ""
    if value_of(config, key) == value_of(placed(config), key):
        return ""
    if kind == "http":
        return f"is not for a listed primary: {address} says {entry.http}; write it there"
    if config.cluster.client_listen:
        return f"is not for a listed primary: cluster.client_listen says {config.cluster.client_listen}"
    return (
        f"is not for a listed primary: {address} says {entry.client}; write it there, for all brokers alike, "
        "or set cluster.client_listen where it listens elsewhere than clients are sent"
    )


def cluster_problems(config: Config, told: Told, *, for_one_broker: bool = True) -> list[str]:
    """What is wrong with the section, as far as can be found without reading the disk.

    Without `for_one_broker`, who starts with it and whether two have one address is another's to judge.
    """
    cluster = config.cluster
    problems = []
    if for_one_broker and cluster.primaries and config.name not in cluster.primaries and not cluster.join:
        known = ", ".join(sorted(cluster.primaries))
        problems.append(f"name = {config.name!r}: not among cluster.primaries ({known}); choose with --name")
    if cluster.secret is not None and cluster.secret_file is not None:
        problems.append(f"{told('cluster.secret_file')}: cluster.secret is given too; one of them is enough")
    problems += _join_problems(config, told)
    problems += _own_address_problems(config, told, for_one_broker=for_one_broker)
    if cluster.join and not problems:
        problems += _undialable(config, told)
    tls_keys = ("peer_cert", "peer_key", "peer_ca")
    missing = [key for key in tls_keys if getattr(cluster, key) is None]
    if missing and len(missing) < len(tls_keys):
        given = next(key for key in tls_keys if key not in missing)
        wanted = " and ".join(f"cluster.{key}" for key in missing)
        problems.append(f"{told(f'cluster.{given}')}: needs {wanted} too: all PEM files, for TLS between brokers")
    seen: dict[str, str] = {}
    for name, entry in sorted(cluster.primaries.items()):
        for kind in ("client", "peer", "http"):
            address = getattr(entry, kind)
            where = f"cluster.primaries.{name}.{kind}"
            if kind == "http" and not address:
                continue
            if for_one_broker and address in seen:
                problems.append(f"{where} = {address!r}: {seen[address]} has this address too")
            seen[address] = where
    return problems


def _join_problems(config: Config, told: Told) -> list[str]:
    join = config.cluster.join
    if not join:
        return []
    problems = []
    if own_entry(config) is not None:
        problems.append(
            f"{told('cluster.join')}: cluster.primaries.{config.name} names this broker; "
            "it is either a primary of that list or joins as a secondary, which needs a --name of its own"
        )
    for address in join:
        try:
            split_address(address)
        except ValueError:
            problems.append(f"{told('cluster.join')}: wanted HOST:PORT, as the primaries' peer addresses are")
            break
    if len(set(join)) < len(join):
        problems.append(f"{told('cluster.join')}: wanted each address once")
    return problems


def _own_address_problems(config: Config, told: Told, *, for_one_broker: bool) -> list[str]:
    """What is wrong with the addresses where this broker listens, and with those that it advertises.

    A file of all brokers is that of its primaries, if it names any.
    """
    is_secondary = bool(config.cluster.join)
    is_of_all = not for_one_broker and bool(config.cluster.primaries) and not is_secondary
    is_primary = is_of_all or own_entry(config) is not None
    problems = []
    for key in ("peer_listen", "peer_advertise", "client_listen", "client_advertise"):
        address = getattr(config.cluster, key)
        if not address:
            continue
        shown = told(f"cluster.{key}")
        try:
            split_address(address, port_min=0 if key == "peer_listen" and is_secondary else 1)
        except ValueError:
            problems.append(f"{shown}: wanted HOST:PORT")
            continue
        if key.endswith("_advertise") and is_primary:
            entry = f"cluster.primaries.{'NAME' if is_of_all else config.name}.{key.removesuffix('_advertise')}"
            problems.append(f"{shown}: others are told what {entry} says; write it there, for all primaries alike")
        if key == "client_listen" and not is_primary:
            problems.append(
                f"{shown}: is for a primary, whose entry is told to others; set listen.host and listen.port"
            )
    return problems


def _undialable(config: Config, told: Told) -> list[str]:
    """Addresses that a secondary would advertise and no other broker could dial."""
    cluster = config.cluster
    problems = []
    if not cluster.client_advertise and is_every_address(config.listen.host):
        problems.append(
            f"{told('listen.host')}: is every address of the machine; "
            "say with cluster.client_advertise to which one clients are sent"
        )
    if cluster.peer_advertise:
        return problems
    host, _ = split_address(cluster.peer_listen or PEER_LISTEN_OF_SECONDARY, port_min=0)
    if is_every_address(host):
        problems.append(
            f"{told('cluster.peer_listen')}: is every address of the machine; "
            "say with cluster.peer_advertise which one the peers are to dial"
        )
    elif is_this_machine(host) and not all(is_this_machine(each.rpartition(":")[0]) for each in cluster.join):
        problems.append(
            f"{told('cluster.join')}: peers on other machines cannot dial {host}, where this broker would accept them; "
            "set cluster.peer_listen, such as 0.0.0.0:5682, and cluster.peer_advertise"
        )
    return problems


def settings_problems(config: Config) -> Problems:
    """What is wrong with settings for single brokers: unknown keys, and values out of range."""
    problems: Problems = []
    for broker, table in config.topology.settings.items():
        place = ("topology", "settings", broker)
        for dotted, value in flattened(table).items():
            key = KEYS.get(dotted)
            if key is None or is_nested(key.type):
                problems.append(((*place, *dotted.split(".")), f"unknown key {dotted!r}{did_you_mean(dotted, KEYS)}"))
                continue
            try:
                found = convert(key, value)
            except WrongType as wrong:
                problems.append(((*place, *dotted.split(".")), str(wrong)))
                continue
            low, high = RANGES.get(dotted, (0, 0))
            if dotted in RANGES and isinstance(found, int) and not low <= found <= high:
                problems.append(((*place, *dotted.split(".")), f"allowed is {low} to {high}, not {found}"))
    return problems


def setting_of(config: Config, broker: str, dotted: str) -> Any:
    """The value for one broker: its own setting, or else the file's."""
    own = flattened(config.topology.settings.get(broker, {}))
    return convert(KEYS[dotted], own[dotted]) if dotted in own else value_of(config, dotted)


def flattened(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """`cluster.heartbeat_ms = 200`, which TOML reads as a table in a table, or with quotes as one key."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        dotted = f"{before}{name}"
        if isinstance(value, dict) and dotted.count(".") < DOTS_MAX:
            found |= flattened(value, f"{dotted}.")
        else:
            found[dotted] = value
    return found
