"""Certificates that are renewed while the broker runs."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from openclust.shell.config.schema import ClusterSection, TlsSection
from openclust.shell.tls.certificate_files import CHECK_INTERVAL_MS, TlsFiles, client_files, peer_files
from openclust.shell.tls.handshake_context import HandshakeContext
from tests.support.clients.certificates import Authority

NOW_S = int(time.time())


class Clock:
    """Looks at the files, one interval after the other."""

    def __init__(self, files: TlsFiles[HandshakeContext], caplog: pytest.LogCaptureFixture) -> None:
        self._files = files
        self._caplog = caplog
        self._now_ms = 0

    def look(self, times: int = 3) -> list[str]:
        """What is said in so many intervals."""
        self._caplog.clear()
        with self._caplog.at_level("INFO", logger="openclust.tls"):
            for _ in range(times):
                self._now_ms += CHECK_INTERVAL_MS
                self._files.look(self._now_ms, NOW_S)
        return [f"{record.levelname} {record.getMessage()}" for record in self._caplog.records]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def tls(authority: Authority) -> TlsSection:
    cert, key = authority.issue("broker", server=True, days_left=90)
    return TlsSection(port=5671, cert=str(cert), key=str(key), ca=str(authority.ca), verify="required")


@pytest.fixture
def files(tls: TlsSection) -> TlsFiles[HandshakeContext]:
    files = client_files(tls)
    assert files is not None
    return files


@pytest.fixture
def clock(files: TlsFiles[HandshakeContext], caplog: pytest.LogCaptureFixture) -> Clock:
    return Clock(files, caplog)


def test_nothing_is_read_while_nothing_changes(files: TlsFiles[HandshakeContext], clock: Clock) -> None:
    context = files.contexts
    assert clock.look(10) == []
    assert files.contexts is context


def test_a_renewed_certificate_is_read(files: TlsFiles[HandshakeContext], clock: Clock, authority: Authority) -> None:
    context = files.contexts
    authority.issue("broker", server=True, days_left=80)
    assert clock.look() == ["INFO read tls.cert again", "INFO read tls.ca again"]
    assert files.contexts is not context
    assert clock.look() == []


def test_a_certificate_without_its_new_key_is_waited_for(
    files: TlsFiles[HandshakeContext], clock: Clock, authority: Authority, tls: TlsSection
) -> None:
    assert tls.key is not None
    old = Path(tls.key).read_bytes()
    authority.issue("broker", server=True, days_left=80)
    new = Path(tls.key).read_bytes()
    Path(tls.key).write_bytes(old)
    assert clock.look(1) == [], "the key may come in a moment"
    Path(tls.key).write_bytes(new)
    assert clock.look() == ["INFO read tls.cert again", "INFO read tls.ca again"]


def test_a_broken_file_is_named_once_and_the_old_one_kept(
    files: TlsFiles[HandshakeContext], clock: Clock, tls: TlsSection, authority: Authority
) -> None:
    assert tls.cert is not None
    context = files.contexts
    Path(tls.cert).write_text("nonsense")
    (line,) = clock.look(10)
    assert line.startswith(f"ERROR tls.cert = '{tls.cert}'")
    assert line.endswith("no PEM certificate and key that can be read; the files read before stay in use")
    assert files.contexts is context
    Path(tls.cert).unlink()
    (line,) = clock.look(10)
    assert "No such file" in line and files.contexts is context
    authority.issue("broker", server=True, days_left=80)
    assert clock.look() == ["INFO read tls.cert again", "INFO read tls.ca again"]


def test_one_that_has_expired_takes_the_place_of_no_good_one(
    files: TlsFiles[HandshakeContext], clock: Clock, authority: Authority
) -> None:
    context = files.contexts
    authority.issue("broker", server=True, days_left=-1)
    (line,) = clock.look()
    assert line.startswith("ERROR tls.cert = ") and "the certificate CN=broker expired at" in line
    assert files.contexts is context


def test_the_end_of_a_certificate_is_said(
    tls: TlsSection, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    authority.issue("broker", server=True, days_left=5.5)
    files = client_files(tls)
    assert files is not None
    assert Clock(files, caplog).look() == ["WARNING tls.cert expires in 5 days"]


def test_links_have_both_their_contexts_renewed(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = authority.issue("p1", server=True)
    cluster = ClusterSection(peer_cert=str(cert), peer_key=str(key), peer_ca=str(authority.ca))
    files = peer_files(cluster)
    assert files is not None
    before = files.contexts
    authority.issue("p1", server=True)
    for now_ms in range(0, 5_000, CHECK_INTERVAL_MS):
        files.look(now_ms, NOW_S)
    assert files.contexts.accepting is not before.accepting
    assert files.contexts.dialling is not before.dialling


def test_without_tls_there_are_no_files(tls: TlsSection) -> None:
    assert client_files(msgspec.structs.replace(tls, port=None)) is None
    assert peer_files(ClusterSection()) is None
