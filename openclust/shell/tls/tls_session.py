"""What was agreed in a TLS handshake, in the words of RabbitMQ's management API."""

from __future__ import annotations

import re
import ssl

import msgspec

from openclust.shell.tls.certificates import Certificate, from_der


class TlsSession(msgspec.Struct, frozen=True, kw_only=True):
    """The protocol, the parts of the cipher suite, and the certificate of the other side if it has shown one."""

    protocol: str
    key_exchange: str
    cipher: str
    hash: str
    certificate: Certificate | None


def session_of(tls: ssl.SSLObject) -> TlsSession | None:
    """The session of a finished handshake; None before it."""
    agreed = tls.cipher()
    if agreed is None:
        return None
    key_exchange, cipher, hash_ = parts_of_suite(agreed[0])
    der = tls.getpeercert(binary_form=True)
    return TlsSession(
        protocol=(tls.version() or "").lower(),
        key_exchange=key_exchange,
        cipher=cipher,
        hash=hash_,
        certificate=from_der(der) if der else None,
    )


def parts_of_suite(name: str) -> tuple[str, str, str]:
    """Key exchange, cipher and hash of a cipher suite.

    TLS_AES_256_GCM_SHA384 of TLS 1.3 (RFC 8446 B.4) names no key exchange, which is "any". OpenSSL's names for TLS
    1.2, such as ECDHE-RSA-AES256-GCM-SHA384, begin with it; without one it is "rsa". Without a hash it is an AEAD.
    """
    words = name.removeprefix("TLS_").replace("-", "_").lower().split("_")
    key_exchange = "any"
    if not name.startswith("TLS_"):
        count = next((at for at, word in enumerate(words) if word.startswith(("aes", "chacha", "camellia", "aria"))), 0)
        key_exchange, words = "_".join(words[:count]) or "rsa", words[count:]
    hash_ = words.pop() if words and words[-1].startswith("sha") else "aead"
    return key_exchange, re.sub(r"\b(aes|camellia|aria)(\d)", r"\1_\2", "_".join(words)), hash_
