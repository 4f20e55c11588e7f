"""The TLS listener's context, checked by handshakes in memory, and user names out of certificates."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from openclust.shell.config.schema import ConfigError, TlsSection
from openclust.shell.tls.server_context import login_name, server_context

ALICE = {
    "subject": ((("countryName", "DE"),), (("organizationName", "Ex, Ltd"),), (("commonName", "alice"),)),
    "subjectAltName": (("IP Address", "127.0.0.1"), ("DNS", "alice.example"), ("email", "a@example")),
}


def make_certificate(folder: Path, name: str, passphrase: bytes | None = None) -> tuple[str, str]:
    """The paths of a self-signed certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(f"{name}.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encryption = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(pem))
    (folder / f"{name}.key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption))
    return str(folder / f"{name}.pem"), str(folder / f"{name}.key")


@pytest.fixture
def tls(tmp_path: Path) -> TlsSection:
    cert, key = make_certificate(tmp_path, "broker")
    return TlsSection(port=5671, cert=cert, key=key)


def client_context(ca: str) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """Both sides of a handshake in memory; the server's connection. SSLError when either side refuses."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname="broker.example")
    for _ in range(4):
        for side in (theirs, ours):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours


def test_a_client_that_trusts_the_certificate_gets_in(tls: TlsSection) -> None:
    assert tls.cert
    connection = shake_hands(server_context(tls), client_context(tls.cert))
    assert connection.version() == "TLSv1.3"
    assert not connection.getpeercert()


def test_a_client_too_old_is_refused(tls: TlsSection) -> None:
    assert tls.cert
    old = client_context(tls.cert)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    assert shake_hands(server_context(tls), old).version() == "TLSv1.2"
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        shake_hands(server_context(msgspec.structs.replace(tls, min_version="1.3")), old)


def test_a_client_certificate_is_required_or_optional(tls: TlsSection, tmp_path: Path) -> None:
    assert tls.cert
    cert, key = make_certificate(tmp_path, "alice")
    required = server_context(msgspec.structs.replace(tls, ca=cert, verify="required"))
    optional = server_context(msgspec.structs.replace(tls, ca=cert, verify="optional"))
    client = client_context(tls.cert)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake_hands(required, client)
    shake_hands(optional, client)
    client.load_cert_chain(cert, key)
    certificate = shake_hands(required, client).getpeercert()
    assert certificate
    assert login_name(certificate, "cn") == "alice"
    assert login_name(certificate, "san") == "alice.example"


def test_a_client_certificate_that_nobody_signed_is_refused_even_when_optional(tls: TlsSection, tmp_path: Path) -> None:
    assert tls.cert
    stranger = client_context(tls.cert)
    stranger.load_cert_chain(*make_certificate(tmp_path, "mallory"))
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake_hands(server_context(msgspec.structs.replace(tls, ca=tls.cert, verify="optional")), stranger)


def problem_of(tls: TlsSection) -> str:
    with pytest.raises(ConfigError) as caught:
        server_context(tls)
    return str(caught.value)


def test_what_does_not_load_is_named(tls: TlsSection, tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "other")
    text = tmp_path / "text"
    text.write_text("hello")
    assert problem_of(msgspec.structs.replace(tls, key=key)).endswith(
        f"is not the key of the certificate in {tls.cert!r}"
    )
    assert "no PEM certificate and key" in problem_of(msgspec.structs.replace(tls, cert=str(text)))
    assert "no PEM certificate that can be read" in problem_of(msgspec.structs.replace(tls, ca=str(text)))
    assert "No such file" in problem_of(msgspec.structs.replace(tls, cert=cert + "x"))
    assert "No such file" in problem_of(msgspec.structs.replace(tls, ca=cert + "x"))


def test_an_encrypted_key_is_refused_without_asking(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path, "broker", passphrase=b"hush")
    assert "the key is encrypted" in problem_of(TlsSection(port=1, cert=cert, key=key))


def test_the_user_is_named_by_common_name_subject_or_alternative_name() -> None:
    assert login_name(ALICE, "cn") == "alice"
    assert login_name(ALICE, "dn") == "CN=alice,O=Ex\\, Ltd,C=DE"
    assert login_name(ALICE, "san") == "alice.example"


def test_a_certificate_that_names_nobody_is_nobody() -> None:
    for certificate in ({}, {"subject": ()}, {"subject": ((("commonName", ""),),)}):
        assert not login_name(certificate, "cn")
    assert login_name({}, "dn") is None
    assert login_name({}, "san") is None


@pytest.mark.parametrize(
    ("value", "escaped"),
    [(" a ", "\\ a\\ "), ("#a", "\\#a"), ('a"+,;<>\\b', 'a\\"\\+\\,\\;\\<\\>\\\\b'), (" ", "\\ "), ("a\0", "a\\00")],
)
def test_a_subject_is_escaped_so_that_no_value_can_pose_as_another(value: str, escaped: str) -> None:
    assert login_name({"subject": ((("commonName", value),),)}, "dn") == f"CN={escaped}"
