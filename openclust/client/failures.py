"""The reasons why no broker took a connection, in words for people."""

from __future__ import annotations

import os
import ssl

from aiormq.exceptions import (
    AMQPConnectionError,
    AMQPError,
    AuthenticationError,
    ConnectionClosed,
    ProbableAuthenticationError,
)

from openclust.shell.tls.handshake_failure import refusal

_FOR_GOOD = {402, 403}
"""Codes that a client gets again if it tries again: another cluster's key, a wrong password."""


class NoBroker(AMQPConnectionError):
    """No broker took the connection. `tried` has the reason for each address."""

    reason = "%s"

    def __init__(self, tried: dict[str, str]) -> None:
        who = f"none of {len(tried)} brokers took" if len(tried) > 1 else "the only broker known did not take"
        super().__init__(f"{who} the connection: " + "; ".join(f"{at}: {tried[at]}" for at in tried))
        self.tried = tried

    def __str__(self) -> str:
        return str(self.args[0])


def explain(error: BaseException, host_timeout: float) -> str:
    """Why one attempt failed, in one line."""
    if isinstance(error, ConnectionClosed) and len(error.args) == 2:
        return f"closed with {error.args[0]}, {error.args[1]}"
    if isinstance(error, TimeoutError) and not str(error):
        return f"no answer within {host_timeout:g} s"
    if refused := _refused_certificate(error):
        return f"it refuses our certificate: {refused}"
    is_ssl = isinstance(error.__cause__, ssl.SSLError)  # its errno is a number of OpenSSL
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0 and not is_ssl:
        return os.strerror(error.errno).lower()
    text = " ".join(str(error).split())
    return text or repr(error)


def is_for_good(error: BaseException) -> bool:
    """Whether the next attempt would fail in the same way."""
    if isinstance(error, ConnectionClosed):
        return bool(error.args) and error.args[0] in _FOR_GOOD
    if isinstance(error, AuthenticationError | ProbableAuthenticationError):
        return True
    return isinstance(error.__cause__, ssl.SSLCertVerificationError) or bool(_refused_certificate(error))


def _refused_certificate(error: BaseException) -> str:
    """Why the broker refuses our certificate, by its TLS alert; empty for all other errors."""
    cause = error.__cause__
    return refusal(cause) if isinstance(cause, ssl.SSLError) else ""


ATTEMPT_ERRORS = (AMQPError, OSError, TimeoutError, ValueError, EOFError)
"""What an attempt to connect may fail with; anything else is a mistake of ours."""
