"""The TLS listener: who gets in, with which certificate, and who with none."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import AMQPError

from tests.support.clients.broker_process import Broker, free_port, running_broker
from tests.support.clients.certificates import Authority
from tests.support.clients.deadline import eventually
from tests.support.clients.pika_client import drain, publish, temporary_queue

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("own_process")]


class SecureBroker:
    """A broker with a TLS listener that takes client certificates, and the authority that signs them."""

    def __init__(self, broker: Broker, port: int, authority: Authority) -> None:
        self.broker = broker
        self.port = port
        self.authority = authority

    def context(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context

    def connect(self, context: ssl.SSLContext, credentials: Any = None) -> BlockingConnection:
        options: dict[str, Any] = {"credentials": credentials} if credentials is not None else {}
        return BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1", self.port, ssl_options=pika.SSLOptions(context, "localhost"), stack_timeout=10, **options
            )
        )


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    authority = Authority(folder)
    certificate, key = authority.issue("localhost", server=True)
    users = folder / "users.json"
    for name in ("alice", "guest"):
        add = [sys.executable, "-m", "openclust", "users", "add", name, "--file", str(users)]
        how = ["--no-password"] if name == "alice" else ["--password-stdin"]
        subprocess.run([*add, *how], input="guest\n", text=True, check=True, timeout=20, capture_output=True)
    config = f"""
[tls]
port = {port}
cert = "{certificate}"
key = "{key}"
ca = "{authority.ca}"
verify = "optional"

[auth]
users_file = "{users}"
"""
    with running_broker(folder, config) as broker:
        eventually(lambda: answers(port))
        yield SecureBroker(broker, port, authority)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_password_over_tls(secure: SecureBroker) -> None:
    connection = secure.connect(secure.context())
    channel = connection.channel()
    queue, body = temporary_queue(channel), os.urandom(500_000)
    publish(channel, queue, body)
    assert drain(channel, queue) == [body]
    connection.close()


def test_a_client_certificate_is_a_login_by_external(secure: SecureBroker) -> None:
    context = secure.context(secure.authority.issue("alice"))
    connection = secure.connect(context, pika.credentials.ExternalCredentials())
    channel = connection.channel()
    queue = temporary_queue(channel)
    publish(channel, queue, b"x", user_id="alice")  # refused unless the login is alice's
    assert drain(channel, queue) == [b"x"]
    connection.close()


def test_a_certificate_of_nobody_is_refused(secure: SecureBroker) -> None:
    context = secure.context(secure.authority.issue("mallory"))
    with pytest.raises(AMQPError, match="403"):
        secure.connect(context, pika.credentials.ExternalCredentials())


def test_external_without_a_certificate_is_refused(secure: SecureBroker) -> None:
    with pytest.raises(AMQPError):
        secure.connect(secure.context(), pika.credentials.ExternalCredentials())


def test_external_is_not_offered_without_a_certificate(secure: SecureBroker) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", secure.broker.port, stack_timeout=10)
    parameters.credentials = pika.credentials.ExternalCredentials()
    with pytest.raises(AMQPError):
        BlockingConnection(parameters)


def test_a_user_without_a_password_has_no_password_login(secure: SecureBroker) -> None:
    for password in ("", "alice"):
        with pytest.raises(AMQPError, match="403"):
            secure.connect(secure.context(), pika.PlainCredentials("alice", password))


def test_a_certificate_of_a_foreign_authority_ends_in_the_handshake(secure: SecureBroker, tmp_path: Path) -> None:
    context = secure.context(Authority(tmp_path, "Foreign Authority").issue("alice"))
    with pytest.raises((AMQPError, OSError)):
        secure.connect(context, pika.credentials.ExternalCredentials())


def test_a_client_that_trusts_another_authority_turns_away(secure: SecureBroker, tmp_path: Path) -> None:
    context = ssl.create_default_context(cafile=str(Authority(tmp_path, "Other Authority").ca))
    with pytest.raises((AMQPError, OSError)):
        secure.connect(context)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_from_1_2(secure: SecureBroker, version: ssl.TLSVersion) -> None:
    context = secure.context()
    context.minimum_version = context.maximum_version = version
    connection = secure.connect(context)
    assert temporary_queue(connection.channel())
    connection.close()


def test_older_tls_is_refused(secure: SecureBroker) -> None:
    context = secure.context()
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((AMQPError, OSError)):
        secure.connect(context)


def test_the_last_words_of_the_broker_arrive_and_tls_ends_as_it_should(secure: SecureBroker) -> None:
    with (
        socket.create_connection(("127.0.0.1", secure.port), timeout=5) as plain,
        secure.context().wrap_socket(plain, server_hostname="localhost", suppress_ragged_eofs=False) as tls,
    ):
        tls.sendall(b"HTTP/1.1")
        assert tls.recv(100) == b"AMQP\0\0\x09\x01"
        assert tls.recv(100) == b"", "a farewell of TLS, and not only of TCP"


def test_large_messages_come_whole(secure: SecureBroker) -> None:
    connection = secure.connect(secure.context())
    channel = connection.channel()
    queue, bodies = temporary_queue(channel), [os.urandom(4_000_000) for _ in range(3)]
    for body in bodies:
        publish(channel, queue, body)
    assert drain(channel, queue) == bodies
    connection.close()


def test_plain_bytes_on_the_tls_port_hurt_nobody(secure: SecureBroker) -> None:
    with socket.create_connection(("127.0.0.1", secure.port), timeout=5) as plain:
        plain.sendall(b"AMQP\x00\x00\x09\x01")
        with pytest.raises((ConnectionResetError, EOFError)):
            while plain.recv(1000):
                pass
            raise EOFError
    connection = secure.connect(secure.context())
    assert temporary_queue(connection.channel())
    connection.close()
    assert "Traceback" not in secure.broker.log_text()
