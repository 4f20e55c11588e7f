"""TLS contexts whose failed handshakes still have the certificate that was refused and the alert to send."""

from __future__ import annotations

import ssl
from typing import Any

_CERTIFICATE = 11
"""The handshake message of that name: RFC 5246 7.4.2, RFC 8446 4.4.2."""


class HandshakeFailed(ssl.SSLError):
    """Raised in place of OpenSSL's error, which is its cause.

    `certificate` is the one that the other side sent (DER), empty if it sent none. `alert` are the bytes to send to it.
    """

    def __init__(self, error: ssl.SSLError, certificate: bytes, alert: bytes) -> None:
        super().__init__(*error.args)
        self.reason = getattr(error, "reason", None) or ""
        self.error = error
        self.certificate = certificate
        self.alert = alert


class Handshake(ssl.SSLObject):
    """Call `settle` when the handshake is done."""

    outgoing: ssl.MemoryBIO
    certificate = b""
    """The one that the other side sent, as long as the handshake goes on."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            raise HandshakeFailed(error, self.certificate, self.outgoing.read()) from error

    def settle(self) -> None:
        """Look at no more records: certificates come in handshakes only."""
        assert isinstance(self.context, HandshakeContext)
        if self.context.after is not None:
            self.context = self.context.after
        self.certificate = b""


class HandshakeContext(ssl.SSLContext):
    """Call `watch` when its verification is configured."""

    sslobject_class = Handshake
    after: ssl.SSLContext | None = None
    """The context for the time after the handshake, which looks at no records; None if this one does not either."""

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **options: Any
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *arguments, **options)
        assert isinstance(made, Handshake)
        made.outgoing = outgoing
        return made

    def watch(self) -> None:
        """Remember the certificates that come in handshakes: after a failure Python gives no access to them.

        All versions of Python since 3.8 have this undocumented call. If a later one has not, a log line about a refused
        certificate tells the reason, but not the certificate.
        """
        if hasattr(ssl.SSLContext, "_msg_callback"):
            self._msg_callback = _remember
            self.after = ssl.SSLContext(self.protocol)
            self.after.check_hostname = False
            self.after.verify_mode = self.verify_mode


def _remember(tls: object, direction: str, _version: object, _kind: object, message: object, data: bytes) -> None:
    if direction == "read" and message == _CERTIFICATE and isinstance(tls, Handshake):
        tls.certificate = _first_certificate(data)


def _first_certificate(message: bytes) -> bytes:
    """The sender's own certificate in a handshake message of TLS 1.2 or 1.3; empty if there is none."""
    body = message[4:]
    # In TLS 1.2 the length of the list comes first; in 1.3 a context, which is empty in a handshake, precedes it.
    list_at = 3 if len(body) == 3 + int.from_bytes(body[:3], "big") else 4
    size = int.from_bytes(body[list_at : list_at + 3], "big")
    certificate = body[list_at + 3 : list_at + 3 + size]
    return certificate if len(certificate) == size else b""
