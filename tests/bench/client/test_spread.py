from __future__ import annotations

import pytest

from openclust.bench.brokers.local_broker import StartedBroker
from openclust.bench.client import spread
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.spread import share, wait_until_known


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 1_000])
def test_items_are_shared_evenly_and_in_order(count: int) -> None:
    parts = dict(share(range(count), ["p1", "p2", "p3"]))
    assert [item for part in parts.values() for item in part] == list(range(count))
    sizes = [len(part) for part in parts.values()]
    assert len(sizes) == 3 and max(sizes) - min(sizes) <= 1


@pytest.mark.sockets
def test_brokers_of_two_clusters_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spread, "KNOWN_SECONDS", 0.2)
    with StartedBroker() as one, StartedBroker() as other:
        publisher, here, elsewhere = BenchConnection(one.url), BenchConnection(one.url), BenchConnection(other.url)
        wait_until_known(publisher, [here])
        with pytest.raises(BenchError, match=f"does not reach {other.url.address} after 0 s: are they brokers of one"):
            wait_until_known(publisher, [here, elsewhere])
        for connection in (publisher, here, elsewhere):
            connection.close()
