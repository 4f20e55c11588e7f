"""TLS for clients: the context of a listener, and the user name in a client's certificate."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from openclust.shell.config.schema import ConfigError, LoginFrom, TlsSection
from openclust.shell.tls.handshake_context import HandshakeContext

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
_VERIFY = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

# RFC 4514 section 3; other attributes keep OpenSSL's long name
_SHORT_NAMES = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}


def server_context(tls: TlsSection, keys: str = "tls.") -> HandshakeContext:
    """The context of a listener, or ConfigError when a certificate or key does not load.

    `keys` is how its keys of the configuration begin: `tls.` or `http.tls_`.
    """
    assert tls.cert is not None and tls.key is not None, "checked with the configuration"
    context = HandshakeContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_COMPRESSION

    def no_password() -> str:
        raise ConfigError(f"{keys}key = {tls.key!r}: the key is encrypted; give the broker one without a passphrase")

    try:
        context.load_cert_chain(tls.cert, tls.key, password=no_password)
    except ssl.SSLError as error:
        raise ConfigError(_certificate_problem(keys, tls.cert, tls.key, error)) from None
    except OSError as error:
        raise ConfigError(f"{keys}cert = {tls.cert!r}, {keys}key = {tls.key!r}: {error.strerror}") from None
    if tls.ca is not None:
        try:
            context.load_verify_locations(tls.ca)
        except ssl.SSLError:
            raise ConfigError(f"{keys}ca = {tls.ca!r}: holds no PEM certificate that can be read") from None
        except OSError as error:
            raise ConfigError(f"{keys}ca = {tls.ca!r}: {error.strerror}") from None
    context.verify_mode = _VERIFY[tls.verify]
    context.watch()
    return context


def login_name(certificate: Mapping[str, Any], login_from: LoginFrom) -> str | None:
    """The user that a verified certificate names, or None. `certificate` is what `SSLObject.getpeercert()` gives.

    The first common name for `cn`, the RFC 4514 text for `dn` (`CN=alice,O=Example`), the first DNS name, address of
    e-mail or URI for `san`.
    """
    if login_from == "san":
        return next((v for kind, v in certificate.get("subjectAltName", ()) if kind in ("DNS", "email", "URI")), None)
    rdns = certificate.get("subject", ())
    if login_from == "cn":
        return next((value for rdn in rdns for name, value in rdn if name == "commonName"), None)
    texts = ["+".join(f"{_SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in rdn) for rdn in rdns]
    return ",".join(reversed(texts)) or None


def _escaped(value: str) -> str:
    """RFC 4514 section 2.4."""
    text = "".join("\\" + c if c in '"+,;<>\\' else "\\00" if c == "\0" else c for c in value)
    if text.startswith((" ", "#")):
        text = "\\" + text
    if text.endswith(" ") and text != "\\ ":
        text = text[:-1] + "\\ "
    return text


def _certificate_problem(keys: str, cert: str, key: str, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"{keys}key = {key!r}: is not the key of the certificate in {cert!r}"
    if error.reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
        return f"{keys}cert = {cert!r}: its key or signature is too weak for this system's OpenSSL"
    return f"{keys}cert = {cert!r}, {keys}key = {key!r}: no PEM certificate and key that can be read"
