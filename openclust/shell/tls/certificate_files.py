"""The files that TLS needs. They are read again when they are renewed, for all handshakes from then on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from openclust.shell.config.schema import ClusterSection, ConfigError, HttpSection, TlsSection
from openclust.shell.host.atomic_file import Fingerprint, fingerprint
from openclust.shell.host.event_log import fields
from openclust.shell.tls.certificates import Expiry, OurCertificate, shown, trusted
from openclust.shell.tls.handshake_context import HandshakeContext
from openclust.shell.tls.peer_context import PeerContexts, peer_contexts
from openclust.shell.tls.server_context import server_context

log = logging.getLogger("openclust.tls")

CHECK_INTERVAL_MS = 1_000
HTTP_KEYS = "http.tls_"

T = TypeVar("T")


class TlsFiles(Generic[T]):
    """`contexts` are made of the files as they were read last. Call `look` from time to time.

    The contexts stay as they are if a file does not load, or if its certificate has expired and the one in use has not.
    """

    def __init__(
        self, files: Mapping[str, str], load: Callable[[], T], ours: Callable[[], Sequence[OurCertificate]]
    ) -> None:
        """Read `files`, each under its key of the configuration, by `load`; ConfigError if one does not load."""
        self._files = files
        self._load = load
        self._ours = ours
        self._seen = self._changing = self._fingerprints()
        self.contexts: T = load()
        self.ours = ours()
        self._expiry = Expiry()
        self._next_check_ms = 0

    def look(self, now_ms: int, now_s: int) -> None:
        """At most once a second: read renewed files, and log which certificates expire soon."""
        if now_ms < self._next_check_ms:
            return
        self._next_check_ms = now_ms + CHECK_INTERVAL_MS
        found = self._fingerprints()
        # Certificate and key are files of their own: they are read when a second has gone by without a change.
        if found == self._changing and found != self._seen:
            self._seen = found
            self._renew(now_s)
        self._changing = found
        self._expiry.look(self.ours, now_s)

    def _renew(self, now_s: int) -> None:
        try:
            contexts = self._load()
        except ConfigError as error:
            for problem in error.problems:
                log.error("%s; the files read before stay in use", problem)
            return
        ours = self._ours()
        for each in ours:
            if now_s >= each.certificate.expires_s and not self._has_expired(each.key, now_s):
                log.error("%s; the files read before stay in use", each.problem(now_s))
                return
        self.contexts, self.ours = contexts, ours
        for each in ours:
            log.info("read %s again", each.key, extra=fields(file=each.path, **each.certificate.fields()))

    def _has_expired(self, key: str, now_s: int) -> bool:
        return any(each.key == key and now_s >= each.certificate.expires_s for each in self.ours)

    def _fingerprints(self) -> list[Fingerprint | None]:
        return [fingerprint(path) for path in self._files.values()]


def client_files(tls: TlsSection) -> TlsFiles[HandshakeContext] | None:
    """Those of the listener for clients; None if it has no TLS."""
    return None if tls.port is None else _listener_files(tls, "tls.")


def http_files(http: HttpSection) -> TlsFiles[HandshakeContext] | None:
    """Those of the HTTP API; None if it has no TLS."""
    return _listener_files(tls_of_http(http), HTTP_KEYS) if has_http_tls(http) else None


def _listener_files(tls: TlsSection, keys: str) -> TlsFiles[HandshakeContext]:
    files = {f"{keys}cert": tls.cert, f"{keys}key": tls.key, f"{keys}ca": tls.ca}
    given = {key: path for key, path in files.items() if path is not None}
    return TlsFiles(given, lambda: server_context(tls, keys), lambda: _listener_certificates(tls, keys))


def peer_files(cluster: ClusterSection) -> TlsFiles[PeerContexts] | None:
    """Those of the links between brokers, in both directions; None if these have no TLS."""
    cert, key, ca = cluster.peer_cert, cluster.peer_key, cluster.peer_ca
    if cert is None or key is None or ca is None:
        return None
    given = {"cluster.peer_cert": cert, "cluster.peer_key": key, "cluster.peer_ca": ca}
    return TlsFiles(given, lambda: peer_contexts(cluster), lambda: peer_certificates(cluster))


def client_certificates(tls: TlsSection) -> list[OurCertificate]:
    """The certificates that must be valid for clients to connect by TLS."""
    return [] if tls.port is None else _listener_certificates(tls, "tls.")


def http_certificates(http: HttpSection) -> list[OurCertificate]:
    """The certificates that must be valid for the HTTP API to be called by TLS."""
    return _listener_certificates(tls_of_http(http), HTTP_KEYS) if has_http_tls(http) else []


def _listener_certificates(tls: TlsSection, keys: str) -> list[OurCertificate]:
    authorities = trusted(f"{keys}ca", tls.ca) if tls.verify != "none" else []
    return shown(f"{keys}cert", tls.cert) + authorities


def tls_of_http(http: HttpSection) -> TlsSection:
    """The settings of the HTTP API's listener, in the form of those of the listener for clients."""
    return TlsSection(
        cert=http.tls_cert,
        key=http.tls_key,
        ca=http.tls_ca,
        verify=http.tls_verify,
        min_version=http.tls_min_version,
    )


def has_http_tls(http: HttpSection) -> bool:
    return http.enabled and http.tls_cert is not None


def peer_certificates(cluster: ClusterSection) -> list[OurCertificate]:
    """The certificates that must be valid for links to be made."""
    return shown("cluster.peer_cert", cluster.peer_cert) + trusted("cluster.peer_ca", cluster.peer_ca)
