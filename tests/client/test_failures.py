"""Why an attempt failed: in one line, and whether the next one would fail in the same way."""

from __future__ import annotations

import ssl

import pytest
from aiormq.exceptions import AMQPConnectionError, AuthenticationError, ConnectionClosed, ProbableAuthenticationError

from openclust.client.failures import NoBroker, explain, is_for_good

DOWN = ConnectionRefusedError(111, "Connect call failed")
WRONG = ProbableAuthenticationError("ACCESS_REFUSED - wrong password")


def certificate_refused() -> AMQPConnectionError:
    error = AMQPConnectionError(1, "certificate verify failed")
    error.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed")
    return error


def told_by_alert(name: str) -> AMQPConnectionError:
    """What an attempt fails with where the broker ends the handshake by an alert."""
    alert = ssl.SSLError(1, f"[SSL: {name}] alert")
    alert.reason = name
    error = AMQPConnectionError(*alert.args)
    error.__cause__ = alert
    return error


def test_an_alert_about_our_certificate_is_told_in_plain_words() -> None:
    assert explain(told_by_alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), 1.0) == (
        "it refuses our certificate: it has expired"
    )


@pytest.mark.parametrize(
    ("error", "for_good"),
    [
        (ConnectionClosed(402, "x"), True),
        (ConnectionClosed(403, "x"), True),
        (ConnectionClosed(530, "too many connections"), False),
        (ConnectionClosed(320, "x"), False),
        (WRONG, True),
        (AuthenticationError("EXTERNAL", ["PLAIN"]), True),
        (certificate_refused(), True),
        (told_by_alert("SSLV3_ALERT_BAD_CERTIFICATE"), True),
        (told_by_alert("SSLV3_ALERT_CERTIFICATE_EXPIRED"), True),
        (told_by_alert("TLSV1_ALERT_UNKNOWN_CA"), True),
        (told_by_alert("TLSV13_ALERT_CERTIFICATE_REQUIRED"), True),
        (told_by_alert("TLSV1_ALERT_INTERNAL_ERROR"), False),
        (DOWN, False),
        (TimeoutError(), False),
    ],
)
def test_what_is_refused_for_good(error: Exception, for_good: bool) -> None:
    assert is_for_good(error) is for_good


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (AMQPConnectionError(111, "Connect call failed ('127.0.0.1', 1)"), "connection refused"),
        (certificate_refused(), "[Errno 1] certificate verify failed"),
        (OSError(-2, "Name or service not known"), "[Errno -2] Name or service not known"),
        (TimeoutError(), "no answer within 2.5 s"),
        (ConnectionClosed(530, "NOT_ALLOWED - no"), "closed with 530, NOT_ALLOWED - no"),
        (AMQPConnectionError("two\nlines"), "two lines"),
        (EOFError(), "EOFError()"),
    ],
)
def test_reasons_are_one_line(error: Exception, text: str) -> None:
    assert explain(error, 2.5) == text


def test_one_broker_is_told_of_as_one() -> None:
    assert str(NoBroker({"a:1": "connection refused"})) == (
        "the only broker known did not take the connection: a:1: connection refused"
    )
