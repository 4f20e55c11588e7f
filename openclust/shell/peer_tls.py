"""TLS between brokers: both ends show a certificate that the cluster's own authority has signed."""

from __future__ import annotations

import ssl

from openclust.shell.config import Cluster, ConfigError


def accepting(cluster: Cluster) -> ssl.SSLContext | None:
    """For who is dialled; None where links are plain. ConfigError where a file does not load."""
    return _context(ssl.PROTOCOL_TLS_SERVER, cluster)


def dialling(cluster: Cluster) -> ssl.SSLContext | None:
    """For who dials. Any name will do: who has the authority's signature is a broker of this cluster."""
    return _context(ssl.PROTOCOL_TLS_CLIENT, cluster)


def _context(protocol: int, cluster: Cluster) -> ssl.SSLContext | None:
    cert, key, ca = cluster.peer_cert, cluster.peer_key, cluster.peer_ca
    if cert is None or key is None or ca is None:
        return None
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        told = getattr(error, "strerror", None) or "not a certificate and its key"
        raise ConfigError(f"cluster.peer_cert = {cert!r}, cluster.peer_key = {key!r}: {told}") from None
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cluster.peer_ca = {ca!r}: holds no PEM certificate that can be read: {error}") from None
    return context
