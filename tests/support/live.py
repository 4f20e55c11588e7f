"""What a workload played for real may have cost, where a test needs one."""

from __future__ import annotations

from typing import Any

from openclust.bench.live.cost import LiveFound

_FOUND: dict[str, Any] = {
    "window_s": 4,
    "deliveries_per_s": 200,
    "consumed_per_s": 20,
    "relayed": {"p1": 10, "p2": 10},
    "cpu": {"p1": 0.1, "p2": 0.08},
    "latency_ms": {"p50": 0.25, "p99": 1.0},
    "worked_ms": {},
    "no_root_ms": 250,
    "killed_at_ms": 8_000,
    "lost": 20,
    "back_p50_ms": 1_000,
    "back_all_ms": 2_000,
    "machine_busy": 0.5,
    "generators_cpu": 0.2,
    "client_us": 30,
    "others_cpu": 0.1,
    "late_ms": 0.1,
    "published": 100,
    "unsent": 0,
    "attached": 40,
    "redirected": 0,
    "moved": 0,
    "at_brokers": {"p1": 20, "p2": 20},
}


def live_found(**others: Any) -> LiveFound:
    return LiveFound(**(_FOUND | others))
