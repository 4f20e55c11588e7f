"""Handshakes in memory: what is known of one that fails, and that nothing is watched when it is done."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from openclust.shell.config.schema import TlsSection
from openclust.shell.tls.certificates import from_der
from openclust.shell.tls.handshake_context import Handshake, HandshakeContext, HandshakeFailed
from openclust.shell.tls.handshake_failure import LINES_INTERVAL_MS, LINES_MAX, HandshakeFailures, reason, refusal
from openclust.shell.tls.server_context import server_context
from tests.support.clients.certificates import Authority

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


class Wire:
    """Both ends of a connection, and what is between them."""

    def __init__(self, server: ssl.SSLContext, client: ssl.SSLContext) -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.to_client = to_client
        ours = server.wrap_bio(to_server, to_client, server_side=True)
        assert isinstance(ours, Handshake)
        self.ours = ours
        self.theirs = client.wrap_bio(to_client, to_server, server_hostname="localhost")

    def shake_hands(self) -> HandshakeFailed | None:
        """How the server's handshake failed; None where it did not."""
        for _ in range(4):
            for side in (self.theirs, self.ours):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue
                except HandshakeFailed as error:
                    return error
                except ssl.SSLError:
                    continue
        return None


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> HandshakeContext:
    cert, key = authority.issue("localhost", server=True)
    return server_context(TlsSection(port=1, cert=str(cert), key=str(key), ca=str(authority.ca), verify="required"))


def client(authority: Authority, version: ssl.TLSVersion, certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.ca))
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(*certificate)
    return context


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failed_handshake_knows_the_certificate_and_the_alert(
    authority: Authority, server: HandshakeContext, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    foreign = Authority(tmp_path, "Foreign Authority").issue("mallory")
    wire = Wire(server, client(authority, version, foreign))
    error = wire.shake_hands()
    assert error is not None
    shown = from_der(error.certificate)
    assert shown is not None and (shown.subject, shown.issuer) == ("CN=mallory", "CN=Foreign Authority")
    assert reason(error, "tls.ca") == "no authority of tls.ca has signed its certificate"
    wire.to_client.write(error.alert)
    with pytest.raises(ssl.SSLError, match="ALERT_UNKNOWN_CA") as told:
        wire.theirs.read()
    assert refusal(told.value) == "no authority is trusted there that has signed it"


@pytest.mark.parametrize("version", VERSIONS)
def test_after_a_handshake_nothing_is_watched(
    authority: Authority, server: HandshakeContext, version: ssl.TLSVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(server, client(authority, version, authority.issue("alice")))
    assert wire.shake_hands() is None
    certificate = wire.ours.getpeercert()
    assert certificate and certificate["subject"] == ((("commonName", "alice"),),)
    wire.ours.settle()
    assert wire.ours.context._msg_callback is None  # type: ignore[attr-defined]
    body = bytes(100_000)
    wire.theirs.write(body)
    assert b"".join(wire.ours.read(20_000) for _ in range(7)) == body
    wire.ours.write(b"thanks")
    assert wire.theirs.read() == b"thanks"


def test_an_error_that_is_no_alert_is_no_refusal() -> None:
    assert refusal(ssl.SSLError(1, "x")) == ""


def failures() -> HandshakeFailures:
    return HandshakeFailures("client", "tls.cert", "tls.ca")


def test_a_client_that_fails_for_ever_is_named_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    log = failures()
    for now_ms in range(0, 20_000, 100):
        log.failed(("10.0.0.1", now_ms), ssl.SSLError(1, "x"), b"\x16", now_ms)
    assert len(caplog.records) == 2
    assert "(100 more since the last line; for 10 s by now)" in caplog.records[1].getMessage()


def test_many_clients_that_fail_have_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    log = failures()
    for number in range(10_000):
        host = f"10.0.{number // 250}.{number % 250}"
        log.failed((host, 4_000), ssl.SSLError(1, "x"), b"\x16", number * LINES_INTERVAL_MS // 10_000)
    lines = [record.getMessage() for record in caplog.records]
    assert LINES_MAX < len(lines) <= LINES_MAX + 4
    assert "so do those of many others (" in lines[-1]


def test_who_had_no_line_has_one_when_there_is_room_again(caplog: pytest.LogCaptureFixture) -> None:
    log = failures()
    for number in range(2 * LINES_MAX):
        log.failed((f"10.0.0.{number}", 4_000), ssl.SSLError(1, "x"), b"\x16", 0)
    caplog.clear()
    log.failed(("10.0.1.1", 4_000), ssl.SSLError(1, "x"), b"\x16", LINES_INTERVAL_MS)
    assert caplog.records[-1].fields["peer"] == "10.0.1.1:4000"  # type: ignore[attr-defined]
