"""One cluster of real processes for all tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.cluster.whole_cluster import STEADY, TROUBLE, Place, WholeCluster, place, whole_cluster


@pytest.fixture(scope="session")
def lasting_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WholeCluster]:
    with whole_cluster(tmp_path_factory.mktemp("cluster"), *STEADY) as running:
        yield running
        running.check_definitions()
        running.check_logs(*TROUBLE)


@pytest.fixture
def whole(lasting_cluster: WholeCluster) -> Iterator[WholeCluster]:
    """Three primaries and two secondaries, with all channels of the test closed at its end."""
    yield lasting_cluster
    lasting_cluster.forget_channels()


@pytest.fixture
def at(whole: WholeCluster, roles: tuple[str, str, str]) -> Place:
    """Where the test declares, publishes and consumes, by its parameter `roles`."""
    return place(whole, roles)
