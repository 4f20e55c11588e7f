"""The `[cluster]` section: the primaries, or whom this broker joins, its own addresses, and the secret they share."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

import msgspec

from openclust.cluster.protocol.redirect import Redirect
from openclust.shell.config.config import Config, ConfigError, Primary

SECRET_BYTES_MAX = 4_096
PEER_LISTEN_OF_SECONDARY = "127.0.0.1:0"

Told = Callable[[str], str]


def placed(config: Config) -> Config:
    """The configuration of a primary: it listens where its entry says. A broker of no list stays as it is."""
    entry = own_entry(config)
    if entry is None:
        return config
    replace = msgspec.structs.replace
    host, port = split_address(config.cluster.client_listen or entry.client)
    config = replace(config, listen=replace(config.listen, host=host, port=port))
    if entry.weight and config.redirect.weight == Redirect().weight:
        config = replace(config, redirect=replace(config.redirect, weight=entry.weight))
    if not entry.http:
        return replace(config, http=replace(config.http, enabled=False))
    host, port = split_address(entry.http)
    return replace(config, http=replace(config.http, host=host, port=port))


ADDRESS_KEYS = {
    "listen.host": "client",
    "listen.port": "client",
    "http.host": "http",
    "http.port": "http",
    "http.enabled": "http",
}
"""Keys that a primary does not go by, and what its entry in the list of primaries says instead."""


def unused_address(config: Config, key: str) -> str:
    """Why a listed primary does not go by one of `ADDRESS_KEYS`, and the way out; empty where both say the same."""
    entry = own_entry(config)
    if entry is None:
        return ""
    kind = ADDRESS_KEYS[key]
    address = f"cluster.primaries.{config.name}.{kind}"
    if kind == "http" and not entry.http:
        # Without an API, where it would be contradicts nothing.
        missing = f"is not for a listed primary: it has no HTTP API without an address in {address}; write it there"
        return missing if config.http.enabled else ""
    if _value(config, key) == _value(placed(config), key):
        return ""
    if kind == "http":
        return f"is not for a listed primary: {address} says {entry.http}; write it there"
    if config.cluster.client_listen:
        return f"is not for a listed primary: cluster.client_listen says {config.cluster.client_listen}"
    return (
        f"is not for a listed primary: {address} says {entry.client}; write it there, for all brokers alike, "
        "or set cluster.client_listen where it listens elsewhere than clients are sent"
    )


def _value(config: Config, key: str) -> object:
    section, _, name = key.partition(".")
    return getattr(getattr(config, section), name)


def address_keys(config: Config, host: str, port: int) -> str:
    """Which flag or key gives an address where this broker was to listen; empty where none that is known does."""
    name = config.name
    if own_entry(config) is not None:
        client, peer = config.cluster.client_listen, config.cluster.peer_listen
        of_clients = "cluster.client_listen" if client else f"cluster.primaries.{name}.client"
        of_peers = "cluster.peer_listen" if peer else f"cluster.primaries.{name}.peer"
        of_http = f"cluster.primaries.{name}.http"
    else:
        of_clients, of_peers, of_http = "--port", "--set cluster.peer_listen", "--http-port"
    if config.tls.port == port:
        return "--tls-port"
    peers_at = peer_listen(config)
    if peers_at is not None and peers_at[1] == port and (peers_at[0] == host or config.listen.port != port):
        return of_peers
    if config.http.enabled and config.http.port == port and (config.http.host == host or config.listen.port != port):
        return of_http
    return of_clients if config.listen.port == port else ""


def own_entry(config: Config) -> Primary | None:
    """What the list of primaries says of this broker; None for a secondary, and in a cluster of one."""
    return config.cluster.primaries.get(config.name)


def peer_listen(config: Config) -> tuple[str, int] | None:
    """Where peers are accepted, port 0 being any free one; None in a cluster of one, which has no peers."""
    entry = own_entry(config)
    if entry is not None:
        return split_address(config.cluster.peer_listen or entry.peer)
    if config.cluster.join:
        return split_address(config.cluster.peer_listen or PEER_LISTEN_OF_SECONDARY, port_min=0)
    return None


def peer_advertised(config: Config, listening: tuple[str, int]) -> str:
    """Where the others are to dial this broker, which accepts peers at `listening`."""
    entry = own_entry(config)
    return entry.peer if entry is not None else config.cluster.peer_advertise or join_address(*listening)


def client_advertised(config: Config, listening: tuple[str, int]) -> str:
    """Where clients are sent that are to come to this broker, which accepts them at `listening`."""
    entry = own_entry(config)
    return entry.client if entry is not None else config.cluster.client_advertise or join_address(*listening)


def tls_advertised(config: Config, client: str) -> str:
    """Where clients by TLS are sent that are to come to this broker; empty where it does not listen for them."""
    if not config.tls.port:
        return ""
    # As a rule the name that certificates are made for is the one by which clients know the broker.
    host = config.tls.host or ""
    return join_address(split_address(client)[0] if _is_every_address(host) else host, config.tls.port)


def http_advertised(config: Config) -> str:
    """Where the others find this broker's HTTP API; empty where it has none that they can reach."""
    entry = own_entry(config)
    if entry is not None:
        return entry.http
    http = config.http
    advertised = config.cluster.client_advertise
    client_host = split_address(advertised)[0] if advertised else config.listen.host
    if not http.enabled or (_is_this_machine(http.host) and not _is_this_machine(client_host)):
        return ""
    return join_address(client_host if _is_every_address(http.host) else http.host, http.port)


def cluster_problems(config: Config, told: Told, *, for_one_broker: bool = True) -> list[str]:
    """What is wrong with the section, as far as can be seen without the disk.

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
    """What is wrong with where this broker listens, and with what it tells others of that.

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
    """What a secondary would tell others, and nobody could dial."""
    cluster = config.cluster
    problems = []
    if not cluster.client_advertise and _is_every_address(config.listen.host):
        problems.append(
            f"{told('listen.host')}: is every address of the machine; "
            "say with cluster.client_advertise to which one clients are sent"
        )
    if cluster.peer_advertise:
        return problems
    host, _ = split_address(cluster.peer_listen or PEER_LISTEN_OF_SECONDARY, port_min=0)
    if _is_every_address(host):
        problems.append(
            f"{told('cluster.peer_listen')}: is every address of the machine; "
            "say with cluster.peer_advertise which one the peers are to dial"
        )
    elif _is_this_machine(host) and not all(_is_this_machine(each.rpartition(":")[0]) for each in cluster.join):
        problems.append(
            f"{told('cluster.join')}: peers on other machines cannot dial {host}, where this broker would accept them; "
            "set cluster.peer_listen, such as 0.0.0.0:5682, and cluster.peer_advertise"
        )
    return problems


def _is_every_address(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def with_secret(config: Config) -> Config:
    """The configuration with the secret of its file. ConfigError where that cannot be read."""
    path = config.cluster.secret_file
    if path is None:
        return config
    try:
        with open(path, encoding="utf-8") as file:
            secret = file.read(SECRET_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text in UTF-8"
        raise ConfigError(f"cluster.secret_file = {path!r}: {reason}") from None
    if not secret:
        raise ConfigError(f"cluster.secret_file = {path!r}: is empty; write a long random text into it")
    return msgspec.structs.replace(config, cluster=msgspec.structs.replace(config.cluster, secret=secret))


def split_address(address: str, *, port_min: int = 1) -> tuple[str, int]:
    """`host:port`, with brackets around an IPv6 host; ValueError where it is none."""
    host, colon, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit()  # int() takes more: spaces, signs, underscores
    if not colon or not host or not is_number or not port_min <= int(port) < 65_536:
        raise ValueError(address)
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """The reverse of `split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
