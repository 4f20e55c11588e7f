"""What is said of certificates of ours, and when."""

from __future__ import annotations

import datetime
import time
import warnings
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from openclust.shell.tls.certificates import (
    DAY_S,
    Certificate,
    Expiry,
    OurCertificate,
    from_der,
    from_file,
    shown,
    time_left,
    trusted,
)
from tests.support.clients.certificates import Authority

NOW_S = 1_000 * DAY_S


def ours(days_left: float, *, begins_s: int = 0, is_authority: bool = False) -> OurCertificate:
    expires_s = int(NOW_S + days_left * DAY_S)
    one = Certificate("CN=a", "CN=b", "1f", begins_s, expires_s)
    return OurCertificate("tls.cert", "a.pem", one, is_authority)


def said(caplog: pytest.LogCaptureFixture, expiry: Expiry, one: OurCertificate, now_s: int = NOW_S) -> list[str]:
    caplog.clear()
    expiry.look([one], now_s)
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records]


def test_thirty_and_seven_days_before_the_end_and_at_it_there_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    expiry, one = Expiry(), ours(31)
    lines = {day: said(caplog, expiry, one, NOW_S + day * DAY_S) for day in range(40)}
    assert {day: told for day, told in lines.items() if told} == {
        1: ["WARNING tls.cert expires in 30 days"],
        24: ["WARNING tls.cert expires in 7 days"],
        31: ["ERROR tls.cert has expired: peers that check it refuse this broker"],
    }


def test_a_broker_that_starts_late_says_what_holds_now_and_no_more(caplog: pytest.LogCaptureFixture) -> None:
    assert said(caplog, Expiry(), ours(3)) == ["WARNING tls.cert expires in 3 days"]
    assert said(caplog, Expiry(), ours(-1)) == ["ERROR tls.cert has expired: peers that check it refuse this broker"]
    assert said(caplog, Expiry(), ours(365)) == []


def test_a_renewed_certificate_is_looked_at_anew(caplog: pytest.LogCaptureFixture) -> None:
    expiry = Expiry()
    assert said(caplog, expiry, ours(3)) != []
    assert said(caplog, expiry, ours(90)) == []
    assert said(caplog, expiry, ours(6)) == ["WARNING tls.cert expires in 6 days"]


def test_one_that_is_not_good_yet_is_said_to_be_so(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = said(caplog, Expiry(), ours(90, begins_s=NOW_S + DAY_S))
    assert line == "WARNING tls.cert is good only from 1972-09-28T00:00:00Z"


def test_an_authority_that_has_ended_lets_nobody_in(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = said(caplog, Expiry(), ours(0, is_authority=True))
    assert line == "ERROR tls.cert has expired: certificates that it signed are refused"


def test_a_line_names_certificate_and_file(caplog: pytest.LogCaptureFixture) -> None:
    said(caplog, Expiry(), ours(3))
    assert caplog.records[-1].fields == {  # type: ignore[attr-defined]
        "file": "a.pem",
        "certificate": "CN=a",
        "issuer": "CN=b",
        "serial": "1f",
        "expires": "1972-09-30T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("left_s", "text"),
    [
        (30 * DAY_S, "30 days"),
        (2 * DAY_S - 1, "1 day"),
        (7_200, "2 hours"),
        (61, "1 minute"),
        (5, "less than a minute"),
    ],
)
def test_the_time_that_is_left(left_s: int, text: str) -> None:
    assert time_left(left_s) == text


def test_a_chain_ends_with_its_first_certificate_and_authorities_with_their_last(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(
        b"".join(authority.issue(name, days_left=days)[0].read_bytes() for name, days in (("a", 9), ("b", 5)))
    )
    ((first,), (last,)) = shown("tls.cert", str(both)), trusted("tls.ca", str(both))
    assert (first.certificate.subject, first.is_authority) == ("CN=b", False)
    assert (last.certificate.subject, last.is_authority) == ("CN=a", True)
    assert first.problem(int(time.time())) is None
    assert "CN=b expired at" in str(first.problem(int(time.time()) + 6 * DAY_S))


def test_what_is_no_certificate_is_none(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("hello")
    assert from_file(str(text)) == from_file(str(tmp_path / "missing")) == []
    assert from_der(b"hello") is None
    assert shown("tls.cert", None) == []


def test_what_a_stranger_wrote_into_a_certificate_neither_warns_nor_fills_a_line() -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    units = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "x" * 60) for _ in range(100)]
    now = datetime.datetime.now(datetime.UTC)
    with pytest.warns(UserWarning, match="length"):
        name = x509.Name([x509.NameAttribute(NameOID.COUNTRY_NAME, "Nowhere", _validate=False), *units])
        builder = x509.CertificateBuilder(name, name, key.public_key(), 2**159 - 1, now, now)
        der = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = from_der(der)
    assert read is not None
    assert all(len(value) <= 255 for value in read.fields().values())
