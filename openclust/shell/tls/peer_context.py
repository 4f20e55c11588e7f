"""TLS between brokers: each end shows a certificate that the cluster's own authority signed."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from openclust.shell.config.schema import ClusterSection, ConfigError
from openclust.shell.tls.handshake_context import HandshakeContext


class PeerContexts(NamedTuple):
    """One for accepted links, one for dialled ones. The authority's signature counts, and no name is checked."""

    accepting: HandshakeContext
    dialling: HandshakeContext


def peer_contexts(cluster: ClusterSection) -> PeerContexts:
    """Made of the files in the configuration; ConfigError if one does not load."""
    return PeerContexts(_context(ssl.PROTOCOL_TLS_SERVER, cluster), _context(ssl.PROTOCOL_TLS_CLIENT, cluster))


def _context(protocol: int, cluster: ClusterSection) -> HandshakeContext:
    cert, key, ca = cluster.peer_cert, cluster.peer_key, cluster.peer_ca
    assert cert is not None and key is not None and ca is not None, "checked with the configuration"
    context = HandshakeContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED

    def no_password() -> str:
        raise ConfigError(f"cluster.peer_key = {key!r}: the key is encrypted; give the broker one without a passphrase")

    try:
        context.load_cert_chain(cert, key, password=no_password)
    except (OSError, ssl.SSLError) as error:
        told = getattr(error, "strerror", None) or "not a certificate and its key"
        if isinstance(error, ssl.SSLError):
            told = _PROBLEMS.get(error.reason or "", "not a certificate and its key")
        raise ConfigError(f"cluster.peer_cert = {cert!r}, cluster.peer_key = {key!r}: {told}") from None
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cluster.peer_ca = {ca!r}: holds no PEM certificate that can be read: {error}") from None
    context.watch()
    return context


_PROBLEMS = {
    "KEY_VALUES_MISMATCH": "the key is not that of the certificate",
    "EE_KEY_TOO_SMALL": "its key is too weak for this system's OpenSSL",
    "CA_MD_TOO_WEAK": "its signature is too weak for this system's OpenSSL",
}
