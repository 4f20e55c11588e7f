"""Traces for tests: lines as brokers write them, with as little said as will do."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

T0_US = 1_795_000_000_000_000
Line = dict[str, Any]


def line(event: str, at_ms: float, broker: str = "p1", **fields: Any) -> Line:
    return {"event": event, "at_us": T0_US + round(at_ms * 1000), "broker": broker, **fields}


def begin(broker: str = "p1", at_ms: float = 0, *, sample: int = 1, cluster: str = "k", role: str = "primary") -> Line:
    return line("begin", at_ms, broker, format=1, cluster=cluster, role=role, sample=sample, openclust="0.1.0")


def status(broker: str, at_ms: float, root: str = "p1", *, clients: int = 0, cpu_ms: float = 0, **more: Any) -> Line:
    told = {"memory_bytes": 50_000_000, "published": 0, **more}
    return line("status", at_ms, broker, root=root, clients=clients, cpu_us=round(cpu_ms * 1000), **told)


def publish(id: str, at_ms: float, broker: str = "p1", **more: Any) -> Line:
    return line("publish", at_ms, broker, id=id, **{"exchange": "x", "key": "k", "size": 100, **more})


def relay(id: str, at_ms: float, broker: str, peer: str, **more: Any) -> Line:
    return line("relay", at_ms, broker, id=id, peer=peer, **{"lane": "private", "size": 100, **more})


def relayed_in(id: str, at_ms: float, broker: str, peer: str, **more: Any) -> Line:
    return line("relayed-in", at_ms, broker, id=id, peer=peer, **{"lane": "private", "size": 100, **more})


def enqueue(id: str, at_ms: float, queue: str, broker: str = "p1") -> Line:
    return line("enqueue", at_ms, broker, id=id, queue=queue, count=1, size=100)


def deliver(id: str, at_ms: float, broker: str = "p1", count: int = 1, *, after_ms: float = 0, **more: Any) -> Line:
    written_us = T0_US + round((at_ms + after_ms) * 1000)
    return line("deliver", at_ms, broker, id=id, count=count, size=100, written_us=written_us, **more)


def write(path: Path, lines: Iterable[Line | str]) -> Path:
    path.write_text("".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines))
    return path
