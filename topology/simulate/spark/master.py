"""The place where Spark runs: the values of `--master`, and the check that a master answers there."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from contextlib import suppress

from openclust.shell.config.schema import ConfigError

ANSWER_S = 5.0
WANTED = "wanted local[N], local[*], spark://HOST:PORT, yarn or k8s://URL"
_LOCAL = re.compile(r"local(?:\[(\*|\d+)(?:\s*,\s*\d+)?\])?")


def is_local(master: str) -> bool:
    """Whether Spark runs in processes of this machine, to which no files need to be sent."""
    return _LOCAL.fullmatch(master) is not None


def check_master(master: str, environ: Mapping[str, str]) -> None:
    """Raises ConfigError if this is no master, or if it does not answer: Spark itself would try for minutes."""
    if match := _LOCAL.fullmatch(master):
        if match[1] not in (None, "*") and not 1 <= int(match[1]) <= 1024:
            raise ConfigError(f"--master {master}: 1 to 1024 threads, or local[*] for one a core")
    elif master.startswith("spark://"):
        _check_standalone(master)
    elif master == "yarn":
        if not (environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")):
            raise ConfigError("--master yarn: let HADOOP_CONF_DIR name the folder with the settings of the cluster")
    elif not re.fullmatch(r"k8s://\S+", master):
        raise ConfigError(f"--master {master!r} is none that Spark knows: {WANTED}")


def is_loopback(master: str) -> bool:
    """Whether the master is a standalone cluster on this machine, so that the driver can use the loopback address."""
    hosts = [host for host, _ in _addresses(master)] if master.startswith("spark://") else []
    return bool(hosts) and all(host in ("127.0.0.1", "localhost") for host in hosts)


def _addresses(master: str) -> list[tuple[str, str]]:
    parts = [each.rpartition(":") for each in master.removeprefix("spark://").split(",")]
    return [(host.strip("[]"), port) for host, _, port in parts]


def _check_standalone(master: str) -> None:
    addresses = _addresses(master)
    for host, port in addresses:
        if not host or not re.fullmatch(r"\d{1,5}", port) or not 1 <= int(port) <= 65_535 or "/" in host:
            raise ConfigError(f"--master {master}: {WANTED}, such as spark://spark.example:7077")
    why = ""
    for host, port in addresses:
        try:
            with socket.create_connection((host, int(port)), timeout=ANSWER_S / len(addresses)):
                return
        except (OSError, UnicodeError) as error:
            why = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or str(error)
    way_out = "start one (sbin/start-master.sh in Spark's folder), or leave out --master to use this machine alone"
    raise ConfigError(f"--master {master}: no Spark master there ({why}): {way_out}")


def threads_of(master: str, cores: int) -> int | None:
    """The number of tasks that a local master runs at a time; None if it is not known here."""
    match = _LOCAL.fullmatch(master)
    if match is None:
        return None
    with suppress(TypeError, ValueError):
        return int(match[1])
    return cores if match[1] == "*" else 1
