"""TLS that fails: an alert tells the client, the log says who, which certificate and why. Renewed certificates."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509

from tests.support.clients.broker_process import Broker, free_port, running_broker
from tests.support.clients.certificates import Authority
from tests.support.clients.deadline import eventually

pytestmark = [pytest.mark.sockets, pytest.mark.usefixtures("own_process")]

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class StrictBroker:
    """A broker that lets nobody in without a certificate, and whose own one has five days left."""

    def __init__(self, broker: Broker, port: int, authority: Authority, certificate: Path) -> None:
        self.broker = broker
        self.port = port
        self.authority = authority
        self.certificate = certificate

    def context(self, certificate: tuple[Path, Path] | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context

    def talk(self, context: ssl.SSLContext, host: str = "127.0.0.1") -> tuple[bytes, str]:
        """What the broker says to a protocol header, and the serial number of its certificate."""
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=10, source_address=(host, 0)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as tls,
        ):
            tls.sendall(b"AMQP\0\0\x09\x01")
            shown = tls.getpeercert(binary_form=True)
            assert shown is not None
            return tls.recv(1), f"{x509.load_der_x509_certificate(shown).serial_number:x}"

    def lines(self, *texts: str) -> list[str]:
        """Lines of the log that have all these texts."""
        return [line for line in self.broker.log_text().splitlines() if all(text in line for text in texts)]

    def wait_for(self, *texts: str) -> str:
        eventually(lambda: self.lines(*texts) != [])
        return self.lines(*texts)[-1]


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrictBroker]:
    folder, port = tmp_path_factory.mktemp("tls"), free_port()
    authority = Authority(folder)
    certificate, key = authority.issue("localhost", server=True, days_left=5.5)
    config = (
        f'[tls]\nport = {port}\ncert = "{certificate}"\nkey = "{key}"\nca = "{authority.ca}"\nverify = "required"\n'
    )
    with running_broker(folder, config) as broker:
        strict = StrictBroker(broker, port, authority, certificate)
        strict.wait_for("accepting TLS on")
        yield strict


def serial(certificate: Path) -> str:
    return f"{x509.load_pem_x509_certificate(certificate.read_bytes()).serial_number:x}"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_client_without_a_certificate_is_told_so_and_logged(strict: StrictBroker, version: ssl.TLSVersion) -> None:
    context = strict.context()
    context.minimum_version = context.maximum_version = version
    host = f"127.0.1.{version & 0xFF}"
    with pytest.raises(ssl.SSLError, match=r"ALERT_(CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE)"):
        strict.talk(context, host)
    line = strict.wait_for(f"peer={host}:")
    assert "WARN  tls: the TLS handshake of a client failed: it sent no certificate, and one is required" in line


@pytest.mark.parametrize("version", VERSIONS)
def test_a_certificate_of_a_foreign_authority_is_named(
    strict: StrictBroker, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    stranger = Authority(tmp_path, "Foreign Authority").issue("mallory")
    context = strict.context(stranger)
    context.minimum_version = context.maximum_version = version
    host = f"127.0.2.{version & 0xFF}"
    with pytest.raises(ssl.SSLError, match="ALERT_UNKNOWN_CA"):
        strict.talk(context, host)
    line = strict.wait_for(f"peer={host}:")
    assert "WARN  tls: the TLS handshake of a client failed: no authority of tls.ca has signed its certificate" in line
    assert f'certificate="CN=mallory" issuer="CN=Foreign Authority" serial={serial(stranger[0])}' in line


@pytest.mark.parametrize("version", VERSIONS)
def test_an_expired_certificate_is_named_with_its_end(strict: StrictBroker, version: ssl.TLSVersion) -> None:
    expired = strict.authority.issue("late", days_left=-1)
    context = strict.context(expired)
    context.minimum_version = context.maximum_version = version
    host = f"127.0.3.{version & 0xFF}"
    with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_EXPIRED"):
        strict.talk(context, host)
    line = strict.wait_for(f"peer={host}:")
    assert "its certificate has expired" in line
    assert (
        'certificate="CN=late" issuer="CN=Test Authority"' in line and f"serial={serial(expired[0])} expires=" in line
    )


def test_two_clients_of_one_host_are_both_named(strict: StrictBroker) -> None:
    for name in ("one", "another"):
        with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_EXPIRED"):
            strict.talk(strict.context(strict.authority.issue(name, days_left=-1)), "127.0.8.1")
        strict.wait_for("peer=127.0.8.1:", f'certificate="CN={name}"')


def test_a_client_that_does_not_trust_the_broker_is_logged(strict: StrictBroker, tmp_path: Path) -> None:
    context = ssl.create_default_context(cafile=str(Authority(tmp_path, "Other Authority").ca))
    with pytest.raises(ssl.SSLCertVerificationError):
        strict.talk(context, "127.0.4.1")
    line = strict.wait_for("peer=127.0.4.1:")
    assert "it refuses tls.cert: no authority is trusted there that has signed it" in line
    assert 'certificate="CN=localhost" issuer="CN=Test Authority"' in line


@pytest.mark.parametrize(
    ("number", "data", "told"),
    [
        (1, b"AMQP\0\0\x09\x01", "it speaks AMQP without TLS, and this port is for TLS"),
        (2, b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP, and this port is for AMQP by TLS"),
        (3, b"\0\x01\x02\x03\x04\x05\x06\x07\x08", "it does not speak TLS: it began with"),
    ],
)
def test_who_speaks_something_else_is_logged(strict: StrictBroker, number: int, data: bytes, told: str) -> None:
    host = f"127.0.5.{number}"
    with socket.create_connection(("127.0.0.1", strict.port), timeout=5, source_address=(host, 0)) as plain:
        plain.sendall(data)
        assert plain.recv(1_000) == b"\x15\x03\x03\0\x02\x02\x46", "the alert `protocol_version`"
        assert plain.recv(1_000) == b""
    assert told in strict.wait_for(f"peer={host}:")


def test_who_gives_up_in_the_middle_is_logged_and_who_says_nothing_is_not(strict: StrictBroker) -> None:
    socket.create_connection(("127.0.0.1", strict.port), timeout=5, source_address=("127.0.6.1", 0)).close()
    with socket.create_connection(("127.0.0.1", strict.port), timeout=5, source_address=("127.0.6.2", 0)) as plain:
        plain.sendall(b"\x16\x03\x01\x01\x00")
    assert "closed its socket in the middle of it" in strict.wait_for("peer=127.0.6.2:")
    assert strict.lines("peer=127.0.6.1:") == [], "a load balancer looks like this, every few seconds"


def test_the_log_says_that_the_certificate_ends_soon(strict: StrictBroker) -> None:
    line = strict.wait_for("tls.cert expires in 5 days")
    assert "WARN  tls:" in line
    assert f"file={strict.certificate} " in line and 'certificate="CN=localhost"' in line


def test_a_renewed_certificate_is_shown_without_a_restart_and_a_broken_one_is_not(strict: StrictBroker) -> None:
    context = strict.context(strict.authority.issue("alice"))
    assert strict.talk(context)[1] == serial(strict.certificate)
    strict.authority.issue("localhost", server=True, days_left=90)
    renewed = serial(strict.certificate)
    strict.wait_for("INFO  tls: read tls.cert again", f"serial={renewed}")
    assert strict.talk(context) == (b"\1", renewed)

    strict.certificate.write_text("not a certificate")
    strict.wait_for("ERROR tls: tls.cert = ", "no PEM certificate and key that can be read; the files read before stay")
    assert strict.talk(context) == (b"\1", renewed)


def test_a_flood_of_bad_clients_does_not_flood_the_log(strict: StrictBroker) -> None:
    for number in range(300):
        host = f"127.0.7.{number % 250 + 1}"
        with socket.create_connection(("127.0.0.1", strict.port), timeout=5, source_address=(host, 0)) as plain:
            plain.sendall(b"nonsense, and more")
            with contextlib.suppress(ConnectionResetError):
                plain.recv(100)
    context = strict.context(strict.authority.issue("alice"))
    strict.talk(context)
    said = strict.lines("peer=127.0.7.")
    assert 0 < len(said) <= 21, said
    assert "so do those of many others" in said[-1]
    assert "Traceback" not in strict.broker.log_text()
