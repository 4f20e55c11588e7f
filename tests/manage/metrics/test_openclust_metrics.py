"""Metrics of openclust itself, taken from parts of a broker that stand in for all of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from openclust.manage.metrics.openclust_metrics import OPENCLUST_METRICS

LISTENERS = {"client_tls": "tls.cert", "http_tls": "http.tls_cert", "peer_tls": "cluster.peer_cert"}


def values(name: str, **server: Any) -> list[tuple[tuple[str, ...], Any]]:
    (metric,) = (each for each in OPENCLUST_METRICS if each.name == name)
    readings: Any = SimpleNamespace(server=SimpleNamespace(**server))
    return list(metric.read(readings))


@pytest.mark.parametrize("listener", LISTENERS)
def test_the_certificate_of_each_listener_shows_when_it_expires(listener: str) -> None:
    certificate = SimpleNamespace(key=LISTENERS[listener], certificate=SimpleNamespace(expires_s=1_900_000_000))
    listeners: dict[str, Any] = dict.fromkeys(LISTENERS)
    listeners[listener] = SimpleNamespace(ours=[certificate])
    found = values("openclust_certificate_expires_seconds", **listeners)
    assert found == [((LISTENERS[listener],), 1_900_000_000)]
