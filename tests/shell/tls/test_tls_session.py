"""What a TLS session is in RabbitMQ's words."""

from __future__ import annotations

import pytest

from openclust.shell.tls.tls_session import parts_of_suite


@pytest.mark.parametrize(
    ("suite", "parts"),
    [
        ("TLS_AES_256_GCM_SHA384", ("any", "aes_256_gcm", "sha384")),
        ("TLS_CHACHA20_POLY1305_SHA256", ("any", "chacha20_poly1305", "sha256")),
        ("ECDHE-RSA-AES256-GCM-SHA384", ("ecdhe_rsa", "aes_256_gcm", "sha384")),
        ("ECDHE-ECDSA-CHACHA20-POLY1305", ("ecdhe_ecdsa", "chacha20_poly1305", "aead")),
        ("AES128-SHA", ("rsa", "aes_128", "sha")),
    ],
)
def test_a_cipher_suite_has_a_key_exchange_a_cipher_and_a_hash(suite: str, parts: tuple[str, str, str]) -> None:
    assert parts_of_suite(suite) == parts
