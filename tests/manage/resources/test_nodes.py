"""Brokers as nodes, and the overview, over HTTP."""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from openclust import __version__
from openclust.manage.api.metrics_listener import MetricsListener
from openclust.shell.config.schema import MetricsSection
from openclust.shell.server import Server
from tests.support.manage.running_api import RunningApi

pytestmark = pytest.mark.sockets


def add_user(api: RunningApi, name: str, tags: str) -> str:
    api.call("PUT", f"/api/users/{name}", {"password": name, "tags": tags})
    api.call("PUT", f"/api/permissions/%2F/{name}", {"configure": ".*", "write": ".*", "read": ".*"})
    return f"{name}:{name}"


def test_a_node_is_this_process(api: RunningApi) -> None:
    (row,) = api.get("/api/nodes")
    assert (row["name"], row["running"], row["type"], row["os_pid"]) == ("one", True, "ram", str(os.getpid()))
    assert 0 < row["fd_used"] < row["fd_total"]
    assert row["mem_used"] > 0 and row["mem_alarm"] is False
    assert row["disk_free"] > 0 and row["disk_free_alarm"] is False
    assert 0 <= row["uptime"] < 60_000
    assert (row["cluster_links"], row["partitions"], row["being_drained"]) == ([], [], False)
    assert {"openclust", "python", "aiohttp"} <= {each["name"] for each in row["applications"]}
    assert api.get("/api/nodes/one").keys() == row.keys()


@pytest.mark.parametrize("name", ["rabbit%40one", "one@one"])
def test_a_name_in_front_of_an_at_sign_means_nothing(api: RunningApi, name: str) -> None:
    assert api.get(f"/api/nodes/{name}")["name"] == "one"


def test_a_node_that_is_not_there_is_404_and_the_answer_names_those_that_are(api: RunningApi) -> None:
    answer = api.call("GET", "/api/nodes/rabbit@two")
    assert (answer.status, answer.json["reason"]) == (
        404,
        "there is no broker 'rabbit@two' in the cluster; there are one",
    )


def test_memory_is_what_messages_and_outboxes_take_and_the_rest(api: RunningApi) -> None:
    shown = api.get("/api/nodes/one/memory")["memory"]
    assert shown["strategy"] == "rss"
    parts = shown["queue_procs"] + shown["connection_writers"] + shown["other_system"]
    assert parts == shown["total"]["rss"] > 0


def test_nodes_are_for_those_who_monitor(api: RunningApi) -> None:
    assert api.call("GET", "/api/nodes", login=add_user(api, "anna", "management")).status == 403
    assert api.call("GET", "/api/nodes/one", login=add_user(api, "ben", "monitoring")).status == 200


def test_alarms_and_draining_are_shown(api: RunningApi) -> None:
    def trouble(server: Server) -> None:
        server.broker.memory_accounts.disk_problem = "no space left"
        server.member.membership.presences.is_draining = True

    api.on_loop(trouble)
    row = api.get("/api/nodes/one")
    assert (row["disk_free_alarm"], row["mem_alarm"], row["being_drained"]) == (True, False, True)


def test_versions_are_ours_and_those_that_tools_parse(api: RunningApi) -> None:
    shown = api.get("/api/overview")
    assert shown["openclust_version"] == shown["product_version"] == __version__
    for name in ("rabbitmq_version", "management_version", "erlang_version", "python_version"):
        assert re.fullmatch(r"\d+\.\d+\.\d+", shown[name]), name


def test_the_overview_says_where_is_listened(api: RunningApi) -> None:
    shown = api.get("/api/overview")
    amqp = api.on_loop(lambda server: server.listeners[0].address)
    listeners: dict[str, Any] = {each["protocol"]: (each["ip_address"], each["port"]) for each in shown["listeners"]}
    assert listeners == {"amqp": tuple(amqp), "http": ("127.0.0.1", api.port)}
    assert [(each["node"], each["port"]) for each in shown["contexts"]] == [("one", str(api.port))]
    assert shown["missing"] == []


def test_a_listener_for_metrics_alone_is_a_listener_too(api: RunningApi) -> None:
    listener = MetricsListener(MetricsSection(port=0), api.management.http)
    api.run(listener.start(api.server))
    try:
        listeners = api.get("/api/overview")["listeners"]
        assert ("http/prometheus", listener.port) in {(each["protocol"], each["port"]) for each in listeners}
        assert api.get(f"/api/health/checks/port-listener/{listener.port}")["status"] == "ok"
    finally:
        api.run(listener.stop())


def test_a_broker_names_the_plugins_whose_work_it_does(api: RunningApi) -> None:
    assert api.get("/api/nodes/one")["enabled_plugins"] == ["rabbitmq_management", "rabbitmq_prometheus"]


def test_who_does_not_monitor_sees_no_listeners(api: RunningApi) -> None:
    shown = api.get("/api/overview", add_user(api, "anna", "management"))
    assert (shown["listeners"], shown["contexts"]) == ([], [])
    assert shown["object_totals"]["exchanges"] > 0
