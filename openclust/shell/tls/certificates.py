"""Certificates as the log and the check of the configuration name them, and when ours expire."""

from __future__ import annotations

import contextlib
import logging
import time
import warnings
from collections.abc import Iterator, Sequence

import msgspec

from openclust.shell.host.event_log import fields
from openclust.wire.errors import cut

log = logging.getLogger("openclust.tls")

DAY_S = 86_400
WARNED_DAYS = (30, 7)
"""So many days before a certificate of ours expires the log says so, and once more when it has expired."""


class Certificate(msgspec.Struct, frozen=True):
    """The subject of a certificate, its issuer, and its validity in seconds since 1970."""

    subject: str
    issuer: str
    serial: str
    begins_s: int
    expires_s: int

    def fields(self) -> dict[str, str]:
        """Its fields in a log line."""
        return {
            "certificate": self.subject,
            "issuer": self.issuer,
            "serial": self.serial,
            "expires": stamp(self.expires_s),
        }


def stamp(at_s: int) -> str:
    """`2026-01-31T12:00:00Z`"""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))


def from_der(der: bytes) -> Certificate | None:
    """The certificate in these bytes, which any peer may have sent; None if they cannot be read as one."""
    # Imported here: a broker without TLS needs no library for certificates in memory.
    from cryptography import x509

    try:
        with _quiet():
            return _read(x509.load_der_x509_certificate(der))
    except (ValueError, TypeError, OverflowError, x509.InvalidVersion):
        return None


def from_file(path: str) -> list[Certificate]:
    """The certificates of a PEM file, in their order; an empty list if none can be read."""
    from cryptography import x509

    try:
        with open(path, "rb") as file, _quiet():
            return [_read(each) for each in x509.load_pem_x509_certificates(file.read())]
    except (OSError, ValueError, TypeError, OverflowError, x509.InvalidVersion):
        return []


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library from writing warnings about irregular names and numbers to stderr, past the log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _read(certificate: object) -> Certificate:
    from cryptography import x509

    assert isinstance(certificate, x509.Certificate)
    return Certificate(
        subject=cut(certificate.subject.rfc4514_string()) or "(no name)",
        issuer=cut(certificate.issuer.rfc4514_string()) or "(no name)",
        serial=cut(f"{certificate.serial_number:x}"),
        begins_s=int(certificate.not_valid_before_utc.timestamp()),
        expires_s=int(certificate.not_valid_after_utc.timestamp()),
    )


class OurCertificate(msgspec.Struct, frozen=True):
    """A certificate that this broker uses, and the key of the configuration that names its file."""

    key: str
    path: str
    certificate: Certificate
    is_authority: bool = False

    def problem(self, now_s: int) -> str | None:
        """Why peers refuse it now; None if it is valid."""
        one = self.certificate
        if now_s >= one.expires_s:
            told = f"{self.key} = {self.path!r}: the certificate {one.subject} expired at {stamp(one.expires_s)}"
            return f"{told}; give a renewed one"
        if now_s < one.begins_s:
            return f"{self.key} = {self.path!r}: the certificate {one.subject} is good only from {stamp(one.begins_s)}"
        return None


def shown(key: str, path: str | None) -> list[OurCertificate]:
    """Of the chain that a broker shows, the certificate that expires first: the chain is useless from then on."""
    found = from_file(path) if path is not None else []
    return [OurCertificate(key, path or "", min(found, key=_end))] if found else []


def trusted(key: str, path: str | None) -> list[OurCertificate]:
    """Of the authorities in a file, the one that expires last: from then on no certificate is accepted."""
    found = from_file(path) if path is not None else []
    return [OurCertificate(key, path or "", max(found, key=_end), is_authority=True)] if found else []


def _end(certificate: Certificate) -> int:
    return certificate.expires_s


class Expiry:
    """Logs once that a certificate of ours expires within 30 days, once within 7, and once that it has expired."""

    def __init__(self) -> None:
        self._said: dict[OurCertificate, int] = {}

    def look(self, ours: Sequence[OurCertificate], now_s: int) -> None:
        """Log which of these expire soon; all other certificates are forgotten."""
        self._said = {each: self._said.get(each, 0) for each in ours}
        for each in ours:
            stage = _stage(each.certificate, now_s)
            if stage > self._said[each]:
                _say(each, now_s)
            self._said[each] = stage


def _stage(certificate: Certificate, now_s: int) -> int:
    if now_s < certificate.begins_s:
        return 1
    left_s = certificate.expires_s - now_s
    return 1 + len(WARNED_DAYS) if left_s <= 0 else sum(left_s <= days * DAY_S for days in WARNED_DAYS)


def _say(ours: OurCertificate, now_s: int) -> None:
    told = fields(file=ours.path, **ours.certificate.fields())
    left_s = ours.certificate.expires_s - now_s
    if left_s <= 0:
        what = (
            "certificates that it signed are refused" if ours.is_authority else "peers that check it refuse this broker"
        )
        log.error("%s has expired: %s", ours.key, what, extra=told)
    elif now_s < ours.certificate.begins_s:
        log.warning("%s is good only from %s", ours.key, stamp(ours.certificate.begins_s), extra=told)
    else:
        log.warning("%s expires in %s", ours.key, time_left(left_s), extra=told)


def time_left(left_s: int) -> str:
    """`29 days`, `1 day`, `5 hours`, `40 minutes`"""
    for unit_s, unit in ((DAY_S, "day"), (3_600, "hour"), (60, "minute")):
        if left_s >= unit_s:
            count = left_s // unit_s
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return "less than a minute"
