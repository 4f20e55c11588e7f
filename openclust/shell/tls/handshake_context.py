"""TLS contexts whose handshakes, when they fail, still know the certificate that was refused and the alert to send."""

from __future__ import annotations

import ssl
from typing import Any

_CERTIFICATE = 11
"""The handshake message of that name: RFC 5246 7.4.2, RFC 8446 4.4.2."""


class HandshakeFailed(ssl.SSLError):
    """Raised in place of OpenSSL's error, which is its cause.

    `certificate` is what the other side showed (DER), empty where it showed none. `alert` is what it must be sent.
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
    """What the other side has shown, until the handshake is done."""

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            raise HandshakeFailed(error, self.certificate, self.outgoing.read()) from error

    def settle(self) -> None:
        """Look at no more records: nothing of what follows is about certificates."""
        assert isinstance(self.context, HandshakeContext)
        if self.context.after is not None:
            self.context = self.context.after
        self.certificate = b""


class HandshakeContext(ssl.SSLContext):
    """Call `watch` when its verification is configured."""

    sslobject_class = Handshake
    after: ssl.SSLContext | None = None
    """What takes its place when a handshake is done; None where it looks at no records anyway."""

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *arguments: Any, **options: Any
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, *arguments, **options)
        assert isinstance(made, Handshake)
        made.outgoing = outgoing
        return made

    def watch(self) -> None:
        """Remember the certificates that are shown: a handshake that fails has no other way to tell them.

        Python's documentation does not have this call, though all its versions since 3.8 do. Where one had not, a line
        of the log about a refused certificate would say why it was refused, and not which it was.
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
    """The sender's own certificate in a handshake message, of either version; empty where there is none."""
    body = message[4:]
    # 1.2 begins with the length of the list, 1.3 with a context, which is empty in a handshake.
    list_at = 3 if len(body) == 3 + int.from_bytes(body[:3], "big") else 4
    size = int.from_bytes(body[list_at : list_at + 3], "big")
    certificate = body[list_at + 3 : list_at + 3 + size]
    return certificate if len(certificate) == size else b""
