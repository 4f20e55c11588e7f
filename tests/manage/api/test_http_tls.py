"""The HTTP API by TLS: who is let in, what the log says of the others, renewed certificates."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from openclust.shell.config.schema import HttpSection
from openclust.shell.server import Server
from openclust.shell.tls.certificate_files import CHECK_INTERVAL_MS
from tests.support.clients.certificates import Authority
from tests.support.clients.deadline import eventually
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = pytest.mark.sockets


@contextlib.contextmanager
def tls_api(authority: Authority, **settings: Any) -> Iterator[RunningApi]:
    cert, key = authority.issue("broker", server=True, days_left=90)
    section = HttpSection(port=0, tls_cert=str(cert), tls_key=str(key), tls_ca=str(authority.ca))
    with running_api(http=msgspec.structs.replace(section, **settings)) as api:
        api.tls = ssl.create_default_context(cafile=authority.ca)
        yield api


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def safe(authority: Authority) -> Iterator[RunningApi]:
    with tls_api(authority) as api:
        yield api


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "handshake" in record.getMessage()]


def test_calls_are_answered_by_tls(safe: RunningApi) -> None:
    answer = safe.call("GET", "/api/overview")
    assert answer.status == 200
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=")


def test_a_connection_carries_many_calls(safe: RunningApi) -> None:
    connection = http.client.HTTPSConnection("localhost", safe.port, timeout=10, context=safe.tls)
    with contextlib.closing(connection):
        for _ in range(5):
            connection.request("GET", "/api/health")
            assert json.loads(connection.getresponse().read()) == {"status": "ok"}


def test_the_cookie_of_a_session_is_for_tls_only(safe: RunningApi) -> None:
    answer = safe.call("POST", "/api/login", {"username": "guest", "password": "guest"}, login=None)
    assert "Secure" in answer.headers["Set-Cookie"].split("; ")


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(safe: RunningApi) -> None:
    assert safe.tls is not None
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", safe.port), timeout=10) as plain:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = safe.tls.wrap_bio(incoming, outgoing, server_hostname="localhost")
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plain.sendall(outgoing.read())
                    incoming.write(plain.recv(65_536))
            tls.write(b"GET /api/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            plain.sendall(outgoing.read())
            answer = b""
            with contextlib.suppress(ssl.SSLZeroReturnError):
                while b"ok" not in answer:
                    try:
                        answer += tls.read(65_536)
                    except ssl.SSLWantReadError:
                        data = plain.recv(65_536)
                        assert data, answer
                        incoming.write(data)
            assert answer.startswith(b"HTTP/1.1 200 ")


def test_plain_http_is_told_that_the_port_is_for_tls(safe: RunningApi, caplog: pytest.LogCaptureFixture) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", safe.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/api/health")
        answer = connection.getresponse()
        assert (answer.status, json.loads(answer.read())["reason"]) == (400, "this port is for HTTPS")
    eventually(lambda: failures(caplog))
    assert failures(caplog) == [
        "the TLS handshake of a HTTP client failed: it speaks HTTP without TLS, and this port is for HTTPS"
    ]


def test_a_caller_that_does_not_trust_the_broker_is_one_line(
    safe: RunningApi, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = ssl.create_default_context()
    with socket.create_connection(("127.0.0.1", safe.port), timeout=10) as sock, pytest.raises(ssl.SSLError):
        stranger.wrap_socket(sock, server_hostname="localhost")
    eventually(lambda: failures(caplog))
    assert len(failures(caplog)) == 1
    assert "it refuses http.tls_cert" in failures(caplog)[0]


def test_bytes_that_are_no_tls_are_one_line(safe: RunningApi, caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_connection(("127.0.0.1", safe.port), timeout=10) as sock:
        sock.sendall(b"\x00" * 50)
        with contextlib.suppress(OSError):
            while sock.recv(100):
                pass
    eventually(lambda: failures(caplog))
    assert failures(caplog) == ["the TLS handshake of a HTTP client failed: it does not speak TLS"]


def test_who_looks_only_whether_the_port_is_open_is_not_logged(
    safe: RunningApi, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        socket.create_connection(("127.0.0.1", safe.port), timeout=10).close()
    assert safe.call("GET", "/api/health").status == 200
    assert failures(caplog) == []


def test_certificates_of_callers_can_be_required(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    with tls_api(authority, tls_verify="required") as api:
        with pytest.raises((ssl.SSLError, OSError)):
            api.call("GET", "/api/health")
        eventually(lambda: failures(caplog))
        assert "it sent no certificate, and one is required" in failures(caplog)[0]
        assert api.tls is not None
        api.tls.load_cert_chain(*authority.issue("caller"))
        assert api.call("GET", "/api/health").status == 200


def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with tls_api(authority) as api:
        before = serial_shown(api)
        authority.issue("broker", server=True, days_left=80)
        api.on_loop(look_at_files(3))
        assert serial_shown(api) != before


def look_at_files(times: int) -> Callable[[Server], None]:
    def look(server: Server) -> None:
        assert server.http_tls is not None
        now_ms = server.now_ms()
        for number in range(1, times + 1):
            server.http_tls.look(now_ms + number * CHECK_INTERVAL_MS, 0)

    return look


def serial_shown(api: RunningApi) -> object:
    assert api.tls is not None
    with (
        socket.create_connection(("127.0.0.1", api.port), timeout=10) as sock,
        api.tls.wrap_socket(sock, server_hostname="localhost") as tls,
    ):
        certificate = tls.getpeercert()
        assert certificate is not None
        return certificate["serialNumber"]
