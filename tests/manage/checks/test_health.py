"""Health checks over HTTP: 200, or 503 with the reason."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from openclust.shell.config.schema import HttpSection, TlsSection
from openclust.shell.server import Server
from tests.support.clients.broker_process import free_port
from tests.support.clients.certificates import Authority
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets

CHECKS = "/api/health/checks"


def failure(api: RunningApi, path: str) -> dict[str, Any]:
    answer = api.call("GET", path)
    assert (answer.status, answer.json["status"]) == (503, "failed")
    return dict(answer.json)


@pytest.mark.parametrize(
    "check", ["alarms", "local-alarms", "virtual-hosts", "ready-to-serve-clients", "is-in-service"]
)
def test_a_healthy_broker_passes(api: RunningApi, check: str) -> None:
    assert api.get(f"{CHECKS}/{check}") == {"status": "ok"}


@pytest.mark.parametrize("check", ["node-is-quorum-critical", "node-is-mirror-sync-critical"])
def test_a_broker_that_is_alone_is_never_critical(api: RunningApi, check: str) -> None:
    assert api.get(f"{CHECKS}/{check}") == {"status": "ok", "reason": "single node cluster"}


def test_alarms_are_named_with_broker_and_resource(api: RunningApi) -> None:
    def trouble(server: Server) -> None:
        server.broker.memory_accounts.disk_problem = "no space left"

    api.on_loop(trouble)
    for check in ("alarms", "local-alarms"):
        assert failure(api, f"{CHECKS}/{check}")["alarms"] == [{"node": "one", "resource": "disk"}]
    for path in ("/api/healthchecks/node", "/api/healthchecks/node/rabbit@one"):
        assert api.get(path) == {"status": "failed", "reason": "alarms in effect: disk"}


def test_the_older_check_of_a_broker_that_is_not_there_is_404(api: RunningApi) -> None:
    assert api.get("/api/healthchecks/node/one") == {"status": "ok"}
    assert api.call("GET", "/api/healthchecks/node/two").status == 404


def test_a_drained_broker_is_not_in_service(api: RunningApi) -> None:
    def drain(server: Server) -> None:
        server.member.membership.presences.is_draining = True

    api.on_loop(drain)
    for check in ("is-in-service", "ready-to-serve-clients"):
        assert failure(api, f"{CHECKS}/{check}")["reason"] == "this broker is drained of its clients"
    assert api.get(f"{CHECKS}/virtual-hosts") == {"status": "ok"}


def test_a_port_is_listened_at_or_the_answer_names_those_that_are(api: RunningApi) -> None:
    _, port = api.on_loop(lambda server: server.listeners[0].address)
    assert api.get(f"{CHECKS}/port-listener/{port}") == {"status": "ok", "port": port}
    shown = failure(api, f"{CHECKS}/port-listener/1")
    assert (shown["missing"], shown["ports"]) == (1, sorted([port, api.port]))
    for text in ("abc", "-1", "123456"):
        assert api.call("GET", f"{CHECKS}/port-listener/{text}").status == 400


@pytest.mark.parametrize("name", ["amqp", "amqp091", "http"])
def test_a_protocol_is_served(api: RunningApi, name: str) -> None:
    assert api.get(f"{CHECKS}/protocol-listener/{name}") == {"status": "ok", "protocol": name}


def test_a_protocol_that_is_not_served_is_named_beside_those_that_are(api: RunningApi) -> None:
    shown = failure(api, f"{CHECKS}/protocol-listener/mqtt")
    assert (shown["missing"], shown["protocols"]) == ("mqtt", ["amqp", "http"])


def test_certificates_that_expire_soon_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    (cert, key), port = authority.issue("localhost", server=True, days_left=10), free_port()
    with running_api(tls=TlsSection(port=port, cert=str(cert), key=str(key))) as api:
        assert api.get(f"{CHECKS}/certificate-expiration/9/days") == {"status": "ok"}
        (shown,) = failure(api, f"{CHECKS}/certificate-expiration/2/weeks")["expired"]
        assert api.get(f"{CHECKS}/protocol-listener/amqp-tls")["status"] == "ok"
        assert api.get(f"{CHECKS}/port-listener/{port}")["status"] == "ok"
    assert (shown["node"], shown["key"], shown["certfile"]) == ("one", "tls.cert", str(cert))
    assert shown["certificate"] == "CN=localhost"


def test_the_certificate_of_the_http_api_counts_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("localhost", server=True, days_left=10)
    with running_api(http=HttpSection(port=0, tls_cert=str(cert), tls_key=str(key))) as api:
        api.tls = ssl.create_default_context(cafile=str(authority.ca))
        (shown,) = failure(api, f"{CHECKS}/certificate-expiration/2/weeks")["expired"]
        assert api.get(f"{CHECKS}/protocol-listener/https")["status"] == "ok"
    assert (shown["key"], shown["certfile"]) == ("http.tls_cert", str(cert))


@pytest.mark.parametrize("path", ["1/fortnights", "x/days", "99999/years", "-1/days"])
def test_a_time_that_makes_no_sense_is_400(api: RunningApi, path: str) -> None:
    assert api.call("GET", f"{CHECKS}/certificate-expiration/{path}").status == 400


def test_the_aliveness_test_gets_its_message_back_and_leaves_none(api: RunningApi) -> None:
    for _ in range(2):
        assert api.get("/api/aliveness-test/%2F") == {"status": "ok"}
    assert api.get("/api/queues/%2F/aliveness-test")["messages"] == 0
    assert api.call("GET", "/api/aliveness-test/nowhere").status == 404


def test_the_aliveness_test_needs_the_callers_permissions(api: RunningApi) -> None:
    api.call("PUT", "/api/users/anna", {"password": "anna", "tags": "management"})
    api.call("PUT", "/api/permissions/%2F/anna", {"configure": "", "write": ".*", "read": ".*"})
    assert api.call("GET", "/api/aliveness-test/%2F", login="anna:anna").status == 401


def test_the_aliveness_test_says_at_once_why_it_cannot_pass(api: RunningApi) -> None:
    def cut_off(server: Server) -> None:
        server.member.membership.leadership.root = ""

    api.on_loop(cut_off)
    answer = api.call("GET", "/api/aliveness-test/%2F")
    assert answer.status == 503 and "no root" in answer.json["reason"]
