"""The `[cluster]` section: the primaries, this broker's place among them, and the secret they share."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from openclust.shell.config import Config, ConfigError

SECRET_BYTES_MAX = 4_096


def placed(config: Config) -> Config:
    """The configuration of a primary: it listens where its entry says. A broker of no list stays as it is."""
    entry = config.cluster.primaries.get(config.name)
    if entry is None:
        return config
    replace = msgspec.structs.replace
    host, port = split_address(entry.client)
    config = replace(config, listen=replace(config.listen, host=host, port=port))
    if not entry.http:
        return replace(config, http=replace(config.http, enabled=False))
    host, port = split_address(entry.http)
    return replace(config, http=replace(config.http, host=host, port=port))


def cluster_problems(config: Config, told: Callable[[str], str]) -> list[str]:
    """What is wrong with the section, as far as can be seen without the disk."""
    cluster = config.cluster
    problems = []
    if cluster.primaries and config.name not in cluster.primaries:
        known = ", ".join(sorted(cluster.primaries))
        problems.append(f"name = {config.name!r}: not among cluster.primaries ({known}); choose with --name")
    if cluster.secret is not None and cluster.secret_file is not None:
        problems.append(f"{told('cluster.secret_file')}: cluster.secret is given too; one of them is enough")
    seen: dict[str, str] = {}
    for name, entry in sorted(cluster.primaries.items()):
        for kind in ("client", "peer", "http"):
            address = getattr(entry, kind)
            where = f"cluster.primaries.{name}.{kind}"
            if kind == "http" and not address:
                continue
            try:
                split_address(address)
            except ValueError:
                problems.append(f"{where} = {address!r}: wanted HOST:PORT")
                continue
            if address in seen:
                problems.append(f"{where} = {address!r}: {seen[address]} has this address too")
            seen[address] = where
    return problems


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


def split_address(address: str) -> tuple[str, int]:
    """`host:port`, with brackets around an IPv6 host; ValueError where it is none."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not 0 < int(port) < 65_536:
        raise ValueError(address)
    return host.strip("[]"), int(port)
