"""The client of the management API: one of several brokers, and one line for whatever goes wrong."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from openclust.cli.http_client import HttpClient
from tests.support.clients.broker_process import free_port
from tests.support.clients.certificates import Authority
from tests.support.clients.deadline import eventually
from tests.support.manage.running_api import RunningApi, running_api
from tests.support.paths import ROOT

pytestmark = pytest.mark.sockets


@pytest.fixture(scope="module")
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running


@contextlib.contextmanager
def listener(answer: bytes | None, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, list[bytes]]]:
    """Says `answer` to whoever connects, or nothing, and keeps what it was told."""
    heard: list[bytes] = []
    held: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                if tls is not None:
                    connection = tls.wrap_socket(connection, server_side=True)
                held.append(connection)
                heard.append(connection.recv(65_536))
                if answer is not None:
                    connection.sendall(answer)
                    connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard
        listening.shutdown(socket.SHUT_RDWR)
        for each in held:
            each.close()
    thread.join(5)


def failure(client: HttpClient, method: str = "GET") -> str:
    with pytest.raises(click.ClickException) as raised:
        client.call(method, "/api/overview")
    assert "\n" not in raised.value.message
    return raised.value.message


def test_the_next_broker_is_asked_where_one_is_not_there(api: RunningApi) -> None:
    client = HttpClient([f"http://127.0.0.1:{free_port()}", api.url])
    assert client.call("GET", "/api/overview")[0] == 200
    assert client.base == f"http://127.0.0.1:{api.port}"


def test_a_broker_that_says_nothing_is_left_for_the_next_only_where_nothing_can_be_done_twice(api: RunningApi) -> None:
    with listener(None) as (silent, heard):
        client = HttpClient([silent, api.url], 0.3)
        assert client.call("GET", "/api/overview")[0] == 200
        assert "it may have been done: look before you try again" in failure(HttpClient([silent, api.url], 0.3), "POST")
    assert [each.split()[0] for each in heard] == [b"GET", b"POST"]


def test_one_connection_is_used_for_many_calls(api: RunningApi) -> None:
    client = HttpClient(api.url)
    before = api.on_loop(lambda _: None)
    for _ in range(3):
        assert client.call("GET", "/api/whoami")[0] == 200
        assert client._connection is not None
        before = before or client._connection.sock
        assert client._connection.sock is before


def test_a_connection_that_the_broker_ended_is_made_anew(api: RunningApi) -> None:
    client = HttpClient(api.url)
    client.call("GET", "/api/whoami")
    assert client._connection is not None
    client._connection.sock.shutdown(socket.SHUT_RDWR)
    assert client.call("GET", "/api/whoami")[0] == 200


def test_nobody_there_names_each_broker_and_why() -> None:
    first, second = free_port(), free_port()
    told = failure(HttpClient([f"http://127.0.0.1:{first}", f"http://127.0.0.1:{second}"]))
    assert told.startswith(
        f"no answer from any HTTP API: http://127.0.0.1:{first} (Connection refused), "
        f"http://127.0.0.1:{second} (Connection refused); is a broker running there"
    )


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"AMQP\0\0\x09\x01", "does not speak HTTP"),
        (b"", "closed the connection without a word"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "is not the HTTP API of a broker"),
        (None, "it took too long"),
    ],
)
def test_whatever_else_listens_there_is_told_in_a_line(answer: bytes | None, told: str) -> None:
    with listener(answer) as (url, _):
        assert told in failure(HttpClient(url, 0.3))


def test_a_port_without_tls_and_an_unknown_host_are_told(api: RunningApi) -> None:
    assert "http:// in place of https://" in failure(HttpClient(f"https://127.0.0.1:{api.port}"))
    assert "https://a..b:15672: " in failure(HttpClient("https://a..b"))


def test_a_wrong_password_names_the_ways_to_give_one(api: RunningApi) -> None:
    client = HttpClient(f"http://anna@127.0.0.1:{api.port}", password="wrong")
    told = client.refusal(*client.call("GET", "/api/overview"))
    assert "wrong user name or password; give a user in --url http://USER@HOST:PORT" in told
    assert "--password-file, OPENCLUST_PASSWORD or at the prompt" in told


# -- the process list


def arguments_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="this system has no /proc")
def test_no_password_is_in_the_process_list(tmp_path: Path) -> None:
    """Of a command that is in the middle of its call, and of all processes that it may have started."""
    secret = tmp_path / "password"
    secret.write_text("t0p-secret\n")
    with listener(None) as (url, heard):
        command = [sys.executable, "-m", "openclust", "status", "--url", url.replace("//", "//anna@")]
        process = subprocess.Popen([*command, "--password-file", str(secret)], cwd=ROOT, stderr=subprocess.PIPE)
        try:
            eventually(lambda: heard)
            seen = {pid.name: _arguments(pid) for pid in Path("/proc").iterdir() if pid.name.isdigit()}
        finally:
            process.kill()
            process.communicate()
    assert b"Authorization: Basic YW5uYTp0MHAtc2VjcmV0" in heard[0], "it logged in by the password"
    assert "openclust status" in seen[str(process.pid)]
    assert not [line for line in seen.values() if "t0p-secret" in line]


def _arguments(process: Path) -> str:
    try:
        return arguments_of(int(process.name))
    except (OSError, UnicodeDecodeError):
        return ""


# -- TLS


def test_a_certificate_is_trusted_only_if_its_authority_is(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("broker", server=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with listener(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", context) as (url, _):
        https = url.replace("http://", "https://")
        told = failure(HttpClient(https))
        assert "its certificate is not trusted: " in told and "--ca-file names the authority" in told
        assert HttpClient(https, ca_file=str(authority.ca)).call("GET", "/api/overview") == (200, {})
    with pytest.raises(click.ClickException, match="no certificates can be read from it"):
        HttpClient(https, ca_file=str(tmp_path / "none")).call("GET", "/api/overview")
