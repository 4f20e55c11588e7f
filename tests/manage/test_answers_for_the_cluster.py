"""Whichever broker is asked answers for the whole cluster: real processes, three primaries and two secondaries."""

from __future__ import annotations

import json
import signal
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pika
import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from openclust.cli.main import openclust
from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import Primary, RunningCluster, running_cluster
from tests.support.manage.running_api import Answer

pytestmark = pytest.mark.sockets

LOGIN = "Basic " + b64encode(b"guest:guest").decode()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A private queue with a consumer at each broker, a shared queue with two messages, all brokers in touch."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder, primaries=3, secondaries=2) as running, ExitStack() as stack:
        for name, broker in running.brokers.items():
            channel = eventually(lambda broker=broker: _connect(broker)).channel()
            stack.callback(channel.connection.close)
            channel.queue_declare(f"private-{name}", exclusive=True, auto_delete=True)
            channel.basic_consume(f"private-{name}", lambda *_: None, consumer_tag=name)
            if name == "s1":
                channel.queue_declare("work", durable=True)
                channel.confirm_delivery()
                for _ in range(2):
                    channel.basic_publish("", "work", b"x")
        yield running


def _connect(broker: Primary, name: str = "") -> pika.BlockingConnection | None:
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.place.client_port, heartbeat=0, client_properties={"connection_name": name or broker.name}
    )
    try:
        return pika.BlockingConnection(parameters)
    except pika.exceptions.AMQPConnectionError:
        return None


def ask(broker: Primary, path: str) -> tuple[Any, str]:
    """The answer and who is missing in it."""
    answer = request(broker, path, "GET", {"Authorization": LOGIN})
    assert answer.status == 200, answer.data
    return answer.json, answer.headers.get("X-Openclust-Missing", "")


def request(broker: Primary, path: str, method: str, headers: dict[str, str]) -> Answer:
    connection = HTTPConnection("127.0.0.1", broker.place.http_port, timeout=10)
    with closing(connection):
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())


def do(broker: Primary, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """The status of a call, and its answer if it has one."""
    connection = HTTPConnection("127.0.0.1", broker.place.http_port, timeout=40)
    connection.request(method, path, None if body is None else json.dumps(body), {"Authorization": LOGIN})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text) if text else None


def test_every_broker_shows_the_queues_of_all(cluster: RunningCluster) -> None:
    root = cluster.root().name
    wanted = {(f"private-{name}", name, 0) for name in cluster.brokers} | {("work", root, 2)}
    for broker in cluster.brokers.values():
        rows, missing = ask(broker, "/api/queues")
        assert missing == ""
        assert {(row["name"], row["node"], row["messages"]) for row in rows} == wanted


@pytest.mark.parametrize("kind", ["connections", "channels", "consumers"])
def test_every_broker_shows_the_clients_of_all(cluster: RunningCluster, kind: str) -> None:
    columns = "?columns=name,node,user,vhost,consumer_tag,queue.name"
    shown = [ask(broker, f"/api/{kind}{columns}") for broker in cluster.brokers.values()]
    assert all(rows == shown[0][0] and not missing for rows, missing in shown)
    assert len(shown[0][0]) == 5


def test_the_overview_is_the_same_at_every_broker(cluster: RunningCluster) -> None:
    for broker in cluster.brokers.values():
        shown, missing = ask(broker, "/api/overview")
        assert (missing, shown["missing"], shown["node"]) == ("", [], broker.name)
        assert shown["object_totals"] == {
            "connections": 5,
            "channels": 5,
            "consumers": 5,
            "queues": 6,
            "bindings": 0,
            "exchanges": shown["object_totals"]["exchanges"],
        }
        totals = {name: value for name, value in shown["queue_totals"].items() if not name.endswith("_details")}
        assert totals == {"messages": 2, "messages_ready": 2, "messages_unacknowledged": 0}
        listeners = {(each["node"], each["port"]) for each in shown["listeners"] if each["protocol"] == "amqp"}
        assert listeners == {(each.name, each.place.client_port) for each in cluster.brokers.values()}


def test_every_message_is_counted_once_whichever_broker_is_asked(cluster: RunningCluster) -> None:
    """A client of s1 has published to the default exchange: the queue's numbers are those of the root."""

    def counted(broker: Primary) -> list[dict[str, int]] | None:
        paths = ("/api/overview", "/api/vhosts", "/api/exchanges/%2F/amq.default", "/api/queues/%2F/work")
        overview, (vhost,), exchange, queue = (ask(broker, path)[0] for path in paths)
        stats = [each.get("message_stats", {}) for each in (overview, vhost, exchange, queue)]
        churn = overview["churn_rates"]
        is_sampled = churn["queue_created"] - churn["queue_deleted"] == overview["object_totals"]["queues"]
        has_all = stats[3].get("publish") == 2 and stats[2].get("publish_out") == stats[2].get("publish_in")
        shown = [{name: value for name, value in each.items() if isinstance(value, int)} for each in stats]
        return shown if is_sampled and has_all and shown[0].get("publish") else None

    seen = [eventually(lambda broker=broker: counted(broker)) for broker in cluster.brokers.values()]
    overview, vhost, exchange, _ = seen[0]
    assert all(each == seen[0] for each in seen)
    assert overview["publish"] == overview["confirm"] == exchange["publish_in"] == vhost["publish"]


def test_every_broker_shows_all_nodes_with_their_links(cluster: RunningCluster) -> None:
    for broker in cluster.brokers.values():
        rows, _ = ask(broker, "/api/nodes")
        assert [row["name"] for row in rows] == sorted(cluster.brokers)
        assert all(row["running"] and not row["partitions"] for row in rows)
        assert len({row["os_pid"] for row in rows}) == 5
        for row in rows:
            # A secondary has links to the primaries only.
            others = cluster.primaries if row["name"] in cluster.secondaries else cluster.brokers
            assert {each["name"] for each in row["cluster_links"]} == set(others) - {row["name"]}
            assert all(each["state"] == "connected" and each["send_bytes"] > 0 for each in row["cluster_links"])
            assert all(each["recv_bytes"] > 0 for each in row["cluster_links"])


def test_a_node_is_asked_by_its_own_name_wherever_the_question_comes(cluster: RunningCluster) -> None:
    for name in cluster.brokers:
        found, missing = ask(cluster.brokers["s1"], f"/api/nodes/rabbit@{name}")
        assert (found["name"], found["running"], missing) == (name, True, "")
        found, _ = ask(cluster.brokers["s2"], f"/api/nodes/{name}/memory")
        assert found["memory"]["total"]["rss"] > 0


def test_every_broker_passes_the_checks_and_brings_a_message_back(cluster: RunningCluster) -> None:
    for broker in cluster.brokers.values():
        for check in ("alarms", "ready-to-serve-clients", "node-is-quorum-critical", "node-is-mirror-sync-critical"):
            assert ask(broker, f"/api/health/checks/{check}") == ({"status": "ok"}, ""), (broker.name, check)
        assert ask(broker, "/api/aliveness-test/%2F")[0] == {"status": "ok"}
    assert request(cluster.root(), "/api/queues/%2F/aliveness-test", "DELETE", {"Authorization": LOGIN}).status == 204


def test_a_connection_is_closed_by_the_broker_that_has_it(cluster: RunningCluster) -> None:
    client = eventually(lambda: _connect(cluster.brokers["p2"], "to be closed"))
    rows, _ = ask(cluster.brokers["s1"], "/api/connections?sort=name")
    (name,) = (row["name"] for row in rows if row["user_provided_name"] == "to be closed")
    headers = {"Authorization": LOGIN, "X-Reason": "maintenance"}
    path = f"/api/connections/{quote(name, safe='')}"
    assert request(cluster.brokers["s1"], path, "DELETE", headers).status == 204
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="CONNECTION_FORCED - maintenance"):
        client.channel()
    assert request(cluster.brokers["s2"], path, "DELETE", headers).status == 404


def test_one_object_is_found_wherever_it_is(cluster: RunningCluster) -> None:
    for broker in cluster.brokers.values():
        for name in cluster.brokers:
            found, _ = ask(broker, f"/api/queues/%2F/private-{name}")
            assert (found["name"], found["node"]) == (f"private-{name}", name)


def test_one_queue_is_shown_with_its_consumers_at_all_brokers(cluster: RunningCluster) -> None:
    root = cluster.root().name
    channel = eventually(lambda: _connect(cluster.brokers["s1"])).channel()
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume("work", lambda *_: None, consumer_tag="at s1")
    for broker in cluster.brokers.values():
        eventually(lambda broker=broker: ask(broker, "/api/queues/%2F/work")[0]["messages_unacknowledged"] == 1)
        shown, missing = ask(broker, "/api/queues/%2F/work")
        assert missing == ""
        assert (shown["node"], shown["leader"], shown["consumers"]) == (root, root, 1)
        assert (shown["members"], shown["online"]) == (["p1", "p2", "p3"], ["p1", "p2", "p3"])
        assert (shown["message_bytes"], shown["message_bytes_unacknowledged"]) == (2, 1)
        (consumer,) = shown["consumer_details"]
        assert (consumer["consumer_tag"], consumer["channel_details"]["node"]) == ("at s1", "s1")
        assert ask(broker, "/api/queues/%2F/work?columns=name,messages")[0] == {"name": "work", "messages": 2}
    channel.connection.close()
    eventually(lambda: ask(cluster.brokers["s2"], "/api/queues/%2F/work")[0]["messages_ready"] == 2)


def test_pages_are_cut_from_the_order_of_all_brokers(cluster: RunningCluster) -> None:
    page, _ = ask(cluster.brokers["s2"], "/api/queues?page=1&page_size=2&sort=messages&sort_reverse=true&columns=name")
    assert page["items"][0] == {"name": "work"}
    assert (page["total_count"], page["page_count"], len(page["items"])) == (6, 3, 2)


# -- changes, asked at any broker


@pytest.fixture
def made(cluster: RunningCluster) -> Iterator[RunningCluster]:
    """A shared queue `api` and an exchange `api`, which go afterwards."""
    s1 = cluster.brokers["s1"]
    assert do(s1, "PUT", "/api/queues/%2F/api", {"durable": True})[0] == 201
    assert do(s1, "PUT", "/api/exchanges/%2F/api", {"type": "topic", "durable": True})[0] == 201
    yield cluster
    s2 = cluster.brokers["s2"]
    assert do(s2, "DELETE", "/api/exchanges/%2F/api")[0] == 204
    assert do(s2, "DELETE", "/api/queues/%2F/api")[0] == 204
    for path in ("queues", "exchanges"):
        assert do(cluster.brokers["s2"], "GET", f"/api/{path}/%2F/api")[0] == 404


MESSAGE = {"properties": {"delivery_mode": 2}, "routing_key": "a.b", "payload": "hello", "payload_encoding": "string"}
GET = {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"}


@pytest.mark.parametrize("name", ["p1", "p2", "p3", "s1", "s2"])
def test_messages_are_published_and_got_at_any_broker(made: RunningCluster, name: str) -> None:
    broker = made.brokers[name]
    bind = do(broker, "POST", "/api/bindings/%2F/e/api/q/api", {"routing_key": "a.#", "arguments": {"x": 1}})
    assert bind[0] == 201
    assert do(broker, "POST", "/api/exchanges/%2F/api/publish", MESSAGE) == (200, {"routed": True})
    lost = {**MESSAGE, "routing_key": "b"}
    assert do(broker, "POST", "/api/exchanges/%2F/api/publish", lost) == (200, {"routed": False})
    for other in made.brokers.values():
        assert ask(other, "/api/queues/%2F/api?columns=messages")[0]["messages"] == 1
    status, (first,) = do(broker, "POST", "/api/queues/%2F/api/get", {**GET, "ackmode": "ack_requeue_true"})
    assert (status, first["payload"], first["redelivered"]) == (200, "hello", False)
    # What is put back is there again when the root has heard so.
    (again,) = eventually(lambda: do(broker, "POST", "/api/queues/%2F/api/get", GET)[1])
    assert (again["payload"], again["redelivered"], again["properties"]) == ("hello", True, {"delivery_mode": 2})
    eventually(lambda: ask(broker, "/api/queues/%2F/api")[0]["messages"] == 0)
    do(broker, "POST", "/api/exchanges/%2F/api/publish", MESSAGE)
    assert do(broker, "DELETE", "/api/queues/%2F/api/contents")[0] == 204
    assert do(broker, "POST", "/api/queues/%2F/api/get", GET) == (200, [])
    (binding,) = ask(broker, "/api/bindings/%2F/e/api/q/api")[0]
    assert do(broker, "DELETE", f"/api/bindings/%2F/e/api/q/api/{binding['properties_key']}")[0] == 204
    for other in made.brokers.values():
        eventually(lambda other=other: ask(other, "/api/bindings/%2F/e/api/q/api")[0] == [])


def test_a_message_reaches_a_private_queue_of_another_broker(made: RunningCluster) -> None:
    channel = eventually(lambda: _connect(made.brokers["s1"])).channel()
    channel.queue_declare("private-bound", exclusive=True)
    channel.queue_bind("private-bound", "api", "a.*")
    s2 = made.brokers["s2"]
    eventually(lambda: do(s2, "POST", "/api/exchanges/%2F/api/publish", MESSAGE) == (200, {"routed": True}))
    eventually(lambda: channel.basic_get("private-bound", auto_ack=True)[2] == b"hello")
    channel.connection.close()


def test_bindings_of_private_queues_are_shown_by_every_broker_and_shared_ones_once(made: RunningCluster) -> None:
    channel = eventually(lambda: _connect(made.brokers["s1"])).channel()
    channel.queue_declare("private-bound", exclusive=True)
    channel.queue_bind("private-bound", "api", "key")
    do(made.brokers["s2"], "POST", "/api/bindings/%2F/e/api/q/api", {"routing_key": "key"})
    for broker in made.brokers.values():
        eventually(lambda broker=broker: len(ask(broker, "/api/exchanges/%2F/api/bindings/source")[0]) == 2)
        rows, missing = ask(broker, "/api/bindings/%2F?columns=source,destination")
        assert missing == ""
        ends = sorted((row["source"], row["destination"]) for row in rows)
        names = {*(f"private-{name}" for name in made.brokers), "private-bound", "work", "api"}
        assert ends == sorted([*(("", name) for name in names), ("api", "api"), ("api", "private-bound")])
        assert len(ask(broker, "/api/queues/%2F/private-bound/bindings")[0]) == 2
        found, _ = ask(broker, "/api/bindings/%2F/e/api/q/private-bound/key")
        assert found["properties_key"] == "key"
    channel.connection.close()


def metrics_of(broker: Primary) -> dict[tuple[str, ...], float]:
    """The values of a broker's metrics, by the name and the values of the labels."""
    connection = HTTPConnection("127.0.0.1", broker.place.http_port, timeout=10)
    connection.request("GET", "/metrics", headers={"Authorization": LOGIN})
    text = connection.getresponse().read().decode()
    connection.close()
    families = text_string_to_metric_families(text)
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def test_the_metrics_of_all_brokers_add_up_to_those_of_the_cluster(cluster: RunningCluster) -> None:
    def sums() -> list[float]:
        shown = [metrics_of(broker) for broker in cluster.brokers.values()]
        names = ("queues", "queue_messages", "connections", "consumers")
        return [sum(each[f"rabbitmq_{name}",] for each in shown) for name in names]

    eventually(lambda: sums() == [6, 2, 5, 5])
    found = {name: metrics_of(broker) for name, broker in cluster.brokers.items()}
    root = cluster.root().name
    assert [name for name, each in found.items() if each["openclust_role", "root"]] == [root]
    assert all(each["openclust_role", "secondary"] == name.startswith("s") for name, each in found.items())
    assert len({each["openclust_epoch",] for each in found.values()}) == 1
    # The root has a follower in each other broker, and nobody else has any.
    lags = {key[1] for key in found[root] if key[0] == "openclust_link_lag_entries"}
    assert lags == found.keys() - {root}
    assert all(each["openclust_has_root",] == 1 and each["openclust_quorum_critical",] == 0 for each in found.values())


def test_nobody_changes_a_private_queue_of_another_broker(cluster: RunningCluster) -> None:
    s2 = cluster.brokers["s2"]
    for method, path, body in (
        ("DELETE", "queues/%2F/private-s1", None),
        ("DELETE", "queues/%2F/private-s1/contents", None),
        ("POST", "queues/%2F/private-s1/get", GET),
        ("POST", "bindings/%2F/e/amq.topic/q/private-s1", {}),
        ("DELETE", "bindings/%2F/e/amq.topic/q/private-s1/~", None),
    ):
        status, answer = do(s2, method, f"/api/{path}", body)
        assert (status, answer["error"]) == (400, "bad_request")
        assert "cannot obtain exclusive access to locked queue 'private-s1'" in answer["reason"]


def test_what_calls_do_is_no_connection_of_anybody(cluster: RunningCluster) -> None:
    s1 = cluster.brokers["s1"]
    do(s1, "POST", "/api/exchanges/%2F/amq.topic/publish", MESSAGE)
    assert len(ask(s1, "/api/connections")[0]) == 5
    seen, _ = ask(s1, "/api/cluster")
    assert seen["connections"] == 1


# -- users, limits and parameters, asked at any broker

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}


@pytest.fixture
def limited(cluster: RunningCluster) -> Iterator[RunningCluster]:
    """A virtual host `limited`, and a user of this name who may use it; both go afterwards."""
    s1, s2 = cluster.brokers["s1"], cluster.brokers["s2"]
    body = {"description": "with limits", "tags": "one,two", "default_queue_type": "quorum"}
    assert do(s1, "PUT", "/api/vhosts/limited", body)[0] == 201
    assert do(s2, "PUT", "/api/users/limited", {"password": "limited", "tags": "management"})[0] == 201
    assert do(s2, "PUT", "/api/permissions/limited/limited", EVERYTHING)[0] == 201
    eventually(lambda: do(s1, "GET", "/api/permissions/limited/limited")[0] == 200)
    yield cluster
    assert do(s1, "DELETE", "/api/users/limited")[0] == 204
    assert do(s2, "DELETE", "/api/vhosts/limited")[0] == 204
    for path in ("/api/vhosts/limited", "/api/users/limited", "/api/parameters/vhost-limits/limited"):
        eventually(lambda path=path: do(s1, "GET", path)[0] == 404)


def _as_limited(broker: Primary) -> tuple[pika.BlockingConnection | None, str]:
    """A connection of the limited user to the limited virtual host, or why it is refused."""
    login = pika.PlainCredentials("limited", "limited")
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.place.client_port, "limited", login, heartbeat=0, client_properties={"connect_to": "here"}
    )
    try:
        return pika.BlockingConnection(parameters), ""
    except pika.exceptions.AMQPConnectionError as error:
        return None, repr(error)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ("/api/vhost-limits/limited/max-connections", "access to vhost \\'limited\\' refused for user \\'limited\\'"),
        ("/api/user-limits/limited/max-connections", "connection refused for user \\'limited\\': user"),
    ],
)
def test_connections_to_all_brokers_count_together(limited: RunningCluster, asked: str, text: str) -> None:
    brokers = list(limited.brokers.values())
    assert do(brokers[-1], "PUT", asked, {"value": 2})[0] == 204
    found = [eventually(lambda broker=broker: _as_limited(broker)[0]) for broker in (brokers[0], brokers[3])]
    for broker in brokers:
        # The counts of the others are a second or two old.
        reason = eventually(lambda broker=broker: _closed(_as_limited(broker)))
        assert text in reason and "connection limit (2) is reached" in reason
        assert do(broker, "GET", asked.rpartition("/")[0])[1][0]["value"] == {"max-connections": 2}
    for connection in found:
        connection.close()
    eventually(lambda: _closed(_as_limited(brokers[3])) == "")


def _closed(made: tuple[pika.BlockingConnection | None, str]) -> str:
    """Why it was refused; a connection that was made is closed."""
    connection, reason = made
    if connection is not None:
        connection.close()
    return reason


def test_the_queues_of_a_virtual_host_are_limited_by_the_root(limited: RunningCluster) -> None:
    s1, s2 = limited.brokers["s1"], limited.brokers["s2"]
    assert do(s1, "PUT", "/api/vhost-limits/limited/max-queues", {"value": 2})[0] == 204
    for name in ("one", "two", "one"):
        assert do(s2, "PUT", f"/api/queues/limited/{name}", {"durable": True})[0] in (201, 204)
    status, refusal = do(s2, "PUT", "/api/queues/limited/three", {"durable": True})
    assert (status, refusal["reason"]) == (
        400,
        "cannot declare queue 'three': queue limit in vhost 'limited' (2) is reached",
    )
    row = do(s1, "GET", "/api/queues/limited/one")[1]
    assert (row["type"], row["arguments"]) == ("quorum", {"x-queue-type": "quorum"})


@pytest.mark.parametrize("name", ["p1", "s2"])
def test_topics_are_refused_at_every_broker(limited: RunningCluster, name: str) -> None:
    p2, broker = limited.brokers["p2"], limited.brokers[name]
    body = {"exchange": "amq.topic", "write": r"^{username}\.", "read": r"^{username}\."}
    do(p2, "PUT", "/api/topic-permissions/limited/limited", body)
    eventually(lambda: do(broker, "GET", "/api/topic-permissions/limited/limited")[0] == 200)
    connection = eventually(lambda: _as_limited(broker)[0])
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "limited.a", b"")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"403, .*access to topic 'other' in exchange"):
        channel.basic_publish("amq.topic", "other", b"")
    connection.close()


def test_what_one_broker_is_told_all_brokers_show(limited: RunningCluster) -> None:
    s1 = limited.brokers["s1"]
    assert do(s1, "PUT", "/api/global-parameters/site", {"value": {"rack": 1}})[0] == 201
    assert do(s1, "PUT", "/api/cluster-name", {"name": "orders"})[0] == 204
    assert do(s1, "PUT", "/api/user-limits/limited/max-channels", {"value": 7})[0] == 204
    for broker in limited.brokers.values():
        eventually(
            lambda broker=broker: do(broker, "GET", "/api/user-limits/limited")[1][0]["value"]["max-channels"] == 7
        )
        assert ask(broker, "/api/global-parameters/site")[0]["value"] == {"rack": 1}
        assert ask(broker, "/api/cluster-name")[0] == {"name": "orders"}
        vhost, _ = ask(broker, "/api/vhosts/limited")
        shown = (vhost["description"], vhost["tags"], vhost["default_queue_type"])
        assert shown == ("with limits", ["one", "two"], "quorum")
        definitions, _ = ask(broker, "/api/definitions")
        assert {"name": "cluster_name", "value": "orders"} in definitions["global_parameters"]
    for name in ("site", "cluster_name"):
        assert do(limited.brokers["s2"], "DELETE", f"/api/global-parameters/{name}")[0] == 204


def test_a_broker_that_stands_still_is_named_and_the_others_are_shown(cluster: RunningCluster) -> None:
    root = cluster.root()
    stopped = next(each for each in cluster.primaries.values() if each is not root)
    stopped.send(signal.SIGSTOP)
    try:
        for broker in cluster.brokers.values():
            if broker is stopped:
                continue
            began = time.monotonic()
            rows, missing = ask(broker, "/api/queues")
            assert time.monotonic() - began < 2
            assert missing == stopped.name
            seen = {f"private-{n}" for n in cluster.brokers if n != stopped.name} | {"work"}
            assert {row["name"] for row in rows} == seen
            _assert_missing_in_overview_and_nodes(broker, stopped)
        began = time.monotonic()
        shown, missing = ask(cluster.brokers["s1"], "/api/queues/%2F/work")
        assert time.monotonic() - began < 2
        assert (shown["messages"], missing) == (2, stopped.name)
        command = ["queues", "list", "--json", "--columns", "name", "--url"]
        result = CliRunner().invoke(openclust, [*command, cluster.brokers["s1"].place.http_url])
        assert (result.exit_code, {row["name"] for row in json.loads(result.stdout)}) == (1, seen)
        assert f"no answer from {stopped.name}: " in result.stderr
    finally:
        stopped.send(signal.SIGCONT)
    cluster.wait_until_settled()


def _assert_missing_in_overview_and_nodes(broker: Primary, stopped: Primary) -> None:
    began = time.monotonic()
    shown, missing = ask(broker, "/api/overview")
    assert time.monotonic() - began < 2
    assert (missing, shown["missing"]) == (stopped.name, [stopped.name])
    assert shown["object_totals"]["connections"] == 4
    began = time.monotonic()
    rows, missing = ask(broker, "/api/nodes")
    assert time.monotonic() - began < 2
    assert missing == stopped.name
    assert [row["name"] for row in rows if not row["running"]] == [stopped.name]
    assert len(rows) == 5
    headers = {"Authorization": LOGIN}
    critical = request(broker, "/api/health/checks/node-is-quorum-critical", "GET", headers)
    assert critical.status == (503 if broker.place.name.startswith("p") else 200), critical.data
    alarms = request(broker, "/api/health/checks/alarms", "GET", headers)
    assert (alarms.status, alarms.headers["X-Openclust-Missing"]) == (200, stopped.name)
    found, missing = ask(broker, f"/api/nodes/{stopped.name}")
    assert (found, missing) == ({"name": stopped.name, "running": False}, stopped.name)
