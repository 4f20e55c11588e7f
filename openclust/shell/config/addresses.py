"""The addresses where a broker listens, and those that it advertises to others."""

from __future__ import annotations

import ipaddress

import msgspec

from openclust.cluster.protocol.redirect import Redirect
from openclust.shell.config.schema import Config, HttpSection, Primary

PEER_LISTEN_OF_SECONDARY = "127.0.0.1:0"


def placed(config: Config) -> Config:
    """The configuration of a primary, with the addresses of its entry to listen at. All others stay unchanged."""
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


def address_keys(config: Config, host: str, port: int) -> str:
    """The flag or key that gives an address where this broker listens; empty if none is known."""
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
    if config.metrics.port == port and (config.metrics.host == host or config.listen.port != port):
        return "--set metrics.port"
    return of_clients if config.listen.port == port else ""


def own_entry(config: Config) -> Primary | None:
    """This broker's entry in the list of primaries; None for a secondary, and in a cluster of one."""
    return config.cluster.primaries.get(config.name)


def peer_listen(config: Config) -> tuple[str, int] | None:
    """The address where peers are accepted (port 0: any free port); None in a cluster of one, which has no peers."""
    entry = own_entry(config)
    if entry is not None:
        return split_address(config.cluster.peer_listen or entry.peer)
    if config.cluster.join:
        return split_address(config.cluster.peer_listen or PEER_LISTEN_OF_SECONDARY, port_min=0)
    return None


def peer_advertised(config: Config, listening: tuple[str, int]) -> str:
    """The address that peers are told to dial. This broker accepts them at `listening`."""
    entry = own_entry(config)
    return entry.peer if entry is not None else config.cluster.peer_advertise or join_address(*listening)


def client_advertised(config: Config, listening: tuple[str, int]) -> str:
    """The address that clients of this broker are told. This broker accepts them at `listening`."""
    entry = own_entry(config)
    return entry.client if entry is not None else config.cluster.client_advertise or join_address(*listening)


def tls_advertised(config: Config, client: str) -> str:
    """The address that clients with TLS are told; empty if this broker has no TLS."""
    if not config.tls.port:
        return ""
    # Certificates are usually made for the name by which clients know the broker.
    host = config.tls.host or ""
    return join_address(split_address(client)[0] if is_every_address(host) else host, config.tls.port)


def http_advertised(config: Config) -> str:
    """The URL of this broker's HTTP API for other brokers; empty if there is none that they can reach."""
    entry = own_entry(config)
    http = config.http
    if entry is not None:
        return http_url(http, entry.http) if entry.http else ""
    advertised = config.cluster.client_advertise
    client_host = split_address(advertised)[0] if advertised else config.listen.host
    if not http.enabled or (is_this_machine(http.host) and not is_this_machine(client_host)):
        return ""
    return http_url(http, join_address(client_host if is_every_address(http.host) else http.host, http.port))


def http_url(http: HttpSection, address: str = "") -> str:
    """The URL of an HTTP API, by the address where it listens or another one by which it is reached."""
    scheme = "https" if http.tls_cert is not None else "http"
    return f"{scheme}://{address or join_address(http.host, http.port)}{http.path_prefix}"


def is_every_address(host: str) -> bool:
    try:
        return not host or ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def split_address(address: str, *, port_min: int = 1) -> tuple[str, int]:
    """Host and port of `host:port`, with brackets around an IPv6 host; ValueError if the text is no address."""
    host, colon, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit()  # int() takes more: spaces, signs, underscores
    if not colon or not host or not is_number or not port_min <= int(port) < 65_536:
        raise ValueError(address)
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """The reverse of `split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
