"""Metrics over HTTP: with a login on the port of the API, without one on a port of their own."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection

import pytest
from prometheus_client.parser import text_string_to_metric_families

from openclust.broker.model.changes import DeclareQueue
from openclust.manage.api.metrics_listener import MetricsListener
from openclust.manage.metrics import object_metrics
from openclust.shell.config.schema import MetricsSection
from openclust.shell.server import Server
from tests.support.manage.running_api import RunningApi

pytestmark = pytest.mark.sockets


def values(text: bytes) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(text.decode())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


@pytest.fixture
def listener(api: RunningApi) -> Iterator[MetricsListener]:
    found = MetricsListener(MetricsSection(port=0), [])
    api.run(found.start(api.server))
    yield found
    api.run(found.stop())


def ask(listener: MetricsListener, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    with closing(HTTPConnection("127.0.0.1", listener.port, timeout=20)) as connection:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read(), dict(response.getheaders())


def declare(server: Server, count: int) -> None:
    vhost = server.broker.vhosts["/"]
    for number in range(count):
        vhost.declare_queue(DeclareQueue(vhost="/", name=f"q{number}"), None)


def test_metrics_are_read_without_a_login_on_their_own_port(api: RunningApi, listener: MetricsListener) -> None:
    api.on_loop(lambda server: declare(server, 3))
    status, text, headers = ask(listener, "/metrics")
    assert status == 200 and headers["Content-Type"].startswith("text/plain")
    found = values(text)
    assert found["rabbitmq_queues",] == 3 and found["openclust_has_root",] == 1
    assert found["openclust_role", "root"] == 1 and found["openclust_role", "backup"] == 0


def test_on_the_port_of_the_api_they_need_a_login_that_may_see_all(api: RunningApi) -> None:
    assert api.call("GET", "/metrics", login=None).status == 401
    assert values(api.call("GET", "/metrics").data)["rabbitmq_queues",] == 0
    api.call("PUT", "/api/users/app", {"password": "app", "tags": "management"})
    assert api.call("GET", "/metrics", login="app:app").status == 403


def test_queues_are_shown_one_by_one_where_that_is_asked(api: RunningApi, listener: MetricsListener) -> None:
    api.on_loop(lambda server: declare(server, 2))
    found = values(ask(listener, "/metrics/per-object")[1])
    assert found["rabbitmq_queue_messages", "q0", "/"] == 0 and ("rabbitmq_queue_messages",) not in found
    assert found["rabbitmq_queues",] == 2, "what has no figures of single objects is there as a sum"
    found = values(ask(listener, "/metrics/detailed?family=queue_consumer_count&family=channel_metrics")[1])
    assert found["rabbitmq_detailed_queue_consumers", "q1", "/"] == 0
    assert ("rabbitmq_detailed_queue_messages", "q1", "/") not in found


def test_only_the_virtual_hosts_that_are_named_are_shown(api: RunningApi, listener: MetricsListener) -> None:
    api.on_loop(lambda server: server.broker.put_vhost("other"))
    shown = ask(listener, "/metrics/detailed?family=vhost_status&vhost=other")[1]
    assert [key for key in values(shown) if key[0] == "rabbitmq_cluster_vhost_status"] == [
        ("rabbitmq_cluster_vhost_status", "other")
    ]


def test_an_answer_that_is_too_long_says_how_much_is_missing(
    api: RunningApi, listener: MetricsListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclust.manage.metrics.scrapes.SERIES_MAX", 5)
    api.on_loop(lambda server: declare(server, 7))
    found = values(ask(listener, "/metrics/detailed?family=queue_consumer_count")[1])
    assert len([key for key in found if key[0] == "rabbitmq_detailed_queue_consumers"]) == 5
    assert found["openclust_metrics_cut_series",] == 2
    assert object_metrics.SERIES_MAX == 100_000


def test_formats_and_compression_are_as_asked(listener: MetricsListener) -> None:
    _, text, headers = ask(
        listener, "/metrics", **{"Accept": "application/openmetrics-text; version=1.0.0", "Accept-Encoding": "gzip"}
    )
    assert headers["Content-Type"].startswith("application/openmetrics-text") and headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(text).endswith(b"# EOF\n")


def test_others_than_this_machine_are_refused_with_the_way_out(
    listener: MetricsListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclust.manage.api.metrics_listener.is_loopback", lambda host: False)
    status, text, _ = ask(listener, "/metrics")
    assert status == 403 and b"metrics.from_loopback_only" in text


def test_nothing_else_is_served_there(listener: MetricsListener) -> None:
    assert ask(listener, "/api/overview")[0] == 404
