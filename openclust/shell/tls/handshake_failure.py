"""Logs why TLS handshakes failed: with whom, which certificate, and the reason."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Sequence

from openclust.broker.queues.repeats import Repeats
from openclust.shell.host.event_log import fields
from openclust.shell.tls.certificates import Certificate, OurCertificate, from_der
from openclust.shell.tls.handshake_context import HandshakeFailed

log = logging.getLogger("openclust.tls")

LINES_MAX = 20
LINES_INTERVAL_MS = 60_000
"""So many failures are logged one by one in this time; of all others there is a line at times, with their number."""

_EXPIRED, _NOT_YET = 10, 9
_UNSIGNED = (2, 18, 19, 20, 21)
_PURPOSE = 26
"""Of OpenSSL's X509_V_ERR codes, those that have a plainer text here."""

_PLAIN_AMQP = b"AMQP"
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"CONN")

_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it sent no certificate, and one is required",
    "UNSUPPORTED_PROTOCOL": "it speaks only versions of TLS that are not accepted here",
    "VERSION_TOO_LOW": "it speaks only versions of TLS that are not accepted here",
    "WRONG_SSL_VERSION": "it speaks only versions of TLS that are not accepted here",
    "HTTP_REQUEST": "it speaks HTTP without TLS, and this port is for HTTPS",
    "HTTPS_PROXY_REQUEST": "it takes this port for a proxy",
    "WRONG_VERSION_NUMBER": "it does not speak TLS",
    "PACKET_LENGTH_TOO_LONG": "it does not speak TLS",
    "RECORD_LAYER_FAILURE": "it does not speak TLS",
    "NO_SHARED_CIPHER": "it offers no cipher that is accepted here",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "it offers no signature algorithm that the certificate here can be used with",
    "NO_SHARED_SIGNATURE_ALGORITHMS": "it offers no signature algorithm that the certificate here can be used with",
}
_ALERTS = {
    "CERTIFICATE_EXPIRED": "it has expired",
    "UNKNOWN_CA": "no authority is trusted there that has signed it",
    "BAD_CERTIFICATE": "it is damaged, or not good for this name",
    "CERTIFICATE_UNKNOWN": "it is not trusted there",
    "UNSUPPORTED_CERTIFICATE": "it is not meant for this purpose",
    "CERTIFICATE_REVOKED": "it has been revoked",
    "CERTIFICATE_REQUIRED": "none was sent, and one is required there",
}
"""Alerts about a certificate, as OpenSSL's reasons end: TLSV1_ALERT_UNKNOWN_CA is one."""


def refusal(error: ssl.SSLError) -> str:
    """Why the other side refuses our certificate, by its alert; empty if the error is another one."""
    _, is_alert, name = _code(error).partition("_ALERT_")
    return _ALERTS.get(name, "") if is_alert else ""


def reason(error: ssl.SSLError, authority: str) -> str:
    """Why one side refused the other. `authority` is the key of the configuration that names trusted authorities."""
    if isinstance(error, HandshakeFailed):
        error = error.error
    if isinstance(error, ssl.SSLCertVerificationError):
        return _unverified(error, authority)
    _, is_alert, name = _code(error).partition("_ALERT_")
    if is_alert:
        return f"it broke off: {name.lower().replace('_', ' ')}"
    code = _code(error)
    return _REASONS.get(code) or code.lower().replace("_", " ") or str(error)


def _code(error: ssl.SSLError) -> str:
    """OpenSSL's name of the reason; empty for errors that are not from OpenSSL."""
    return getattr(error, "reason", None) or ""


def _unverified(error: ssl.SSLCertVerificationError, authority: str) -> str:
    if error.verify_code == _EXPIRED:
        return "its certificate has expired"
    if error.verify_code == _NOT_YET:
        return "its certificate is not good yet"
    if error.verify_code in _UNSIGNED:
        return f"no authority of {authority} has signed its certificate"
    if error.verify_code == _PURPOSE:
        return "its certificate is not meant for this purpose (extended key usage)"
    return f"its certificate is refused: {error.verify_message}"


class HandshakeFailures:
    """Logs the failed handshakes of one listener. `own` and `authority` are its keys of the configuration.

    `ours` gives our certificates that were read last: a line that the other side refuses one names it.
    """

    def __init__(
        self, who: str, own: str, authority: str, ours: Callable[[], Sequence[OurCertificate]] = lambda: ()
    ) -> None:
        self._who = who
        self._ours = ours
        self._own = own
        self._authority = authority
        self._repeats = Repeats()
        self._others = Repeats()
        self._lines = 0
        self._lines_since_ms = 0

    def failed(self, peer: tuple[str, int], error: ssl.SSLError, heard: bytes, now_ms: int) -> None:
        """A handshake has failed. `heard` are the first bytes that the other side sent."""
        if told := refusal(error):
            shown = next((each.certificate for each in self._ours() if each.key == self._own), None)
            self._say(peer, f"it refuses {self._own}: {told}", shown, now_ms)
        elif heard.startswith(_PLAIN_AMQP):
            self._say(peer, "it speaks AMQP without TLS, and this port is for TLS", None, now_ms)
        elif heard.startswith(_HTTP):
            self._say(peer, "it speaks HTTP, and this port is for AMQP by TLS", None, now_ms)
        elif heard[:1] not in (b"", b"\x16"):
            self._say(peer, f"it does not speak TLS: it began with {heard[:8]!r}", None, now_ms)
        else:
            certificate = error.certificate if isinstance(error, HandshakeFailed) else None
            self._say(peer, reason(error, self._authority), certificate, now_ms)

    def gave_up(self, peer: tuple[str, int], now_ms: int) -> None:
        """The other side has closed its socket in the middle of a handshake."""
        text = f"it closed its socket in the middle of it; perhaps it does not trust {self._own}"
        self._say(peer, text, None, now_ms)

    def timed_out(self, peer: tuple[str, int], now_ms: int) -> None:
        self._say(peer, "it took too long", None, now_ms)

    def _say(self, peer: tuple[str, int], why: str, certificate: bytes | Certificate | None, now_ms: int) -> None:
        host, port = peer
        # Many clients, with a certificate each, may connect from one host.
        count = self._repeats.again(f"{host} {why} {hash(certificate)}", now_ms)
        if count is not None and not self._has_room(now_ms):
            count = self._others.again("", now_ms)
            why = f"{why}; so do those of many others"
        if count is None:
            return
        self._lines += 1
        # A stranger's certificate is parsed only if a line is written.
        shown = from_der(certificate) if isinstance(certificate, bytes) else certificate
        told = fields(peer=f"{host}:{port}", **(shown.fields() if shown is not None else {}))
        log.warning("the TLS handshake of a %s failed: %s%s", self._who, why, count, extra=told)

    def _has_room(self, now_ms: int) -> bool:
        """Whether one more failure may be logged by itself now."""
        if now_ms - self._lines_since_ms >= LINES_INTERVAL_MS:
            self._lines, self._lines_since_ms = 0, now_ms
        return self._lines < LINES_MAX
