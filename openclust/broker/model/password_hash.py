"""The text forms of password hashes, ours and those of RabbitMQ's definitions. Nothing is hashed here."""

from __future__ import annotations

import base64
import binascii

# A hash decides how much work a login costs. It may come from a file: so its cost is bounded (128 MiB, 16 rounds).
SCRYPT_BLOCKS_MAX = 2**20
SCRYPT_P_MAX = 16

# RabbitMQ's names of its hash functions, as they stand in definitions: our prefix, the digest, and its size in bytes.
RABBIT_ALGORITHMS = {
    "rabbit_password_hashing_sha256": ("rabbit_sha256", "sha256", 32),
    "rabbit_password_hashing_sha512": ("rabbit_sha512", "sha512", 64),
}
RABBIT_DEFAULT = "rabbit_password_hashing_sha256"
SCRYPT = "scrypt"
RABBIT_SALT_BYTES = 4

_BY_PREFIX = {prefix: (name, digest, size) for name, (prefix, digest, size) in RABBIT_ALGORITHMS.items()}


def hash_problem(password_hash: str) -> str | None:
    """What is wrong with a hash, or None. An empty hash is right: that user has no password."""
    if not password_hash:
        return None
    try:
        scrypt_parts(password_hash) if password_hash.startswith("scrypt$") else rabbit_parts(password_hash)
    except ValueError as error:
        return str(error)
    return None


def from_rabbit(password_hash: str, algorithm: str = RABBIT_DEFAULT) -> str:
    """Our form of a hash in RabbitMQ's definitions. ValueError says what is wrong with it."""
    if not password_hash or hash_problem(password_hash) is None:
        return password_hash  # none, or one of ours
    if algorithm == SCRYPT:
        try:
            ours = unb64(password_hash).decode("ascii")
        except UnicodeDecodeError:
            ours = ""
    elif algorithm in RABBIT_ALGORITHMS:
        ours = f"{RABBIT_ALGORITHMS[algorithm][0]}${password_hash}"
    else:
        raise ValueError(f"unknown hashing_algorithm {algorithm!r}; set a new password")
    if problem := hash_problem(ours or "?"):
        raise ValueError(problem)
    return ours


def to_rabbit(password_hash: str) -> tuple[str, str]:
    """The hash in the form of RabbitMQ's definitions, and the name of its algorithm.

    RabbitMQ knows no scrypt: it loads such a user, since the hash is base64, but the user cannot log in there.
    """
    prefix, _, encoded = password_hash.partition("$")
    if prefix == SCRYPT:
        return b64(password_hash.encode()), SCRYPT
    return encoded, _BY_PREFIX[prefix][0] if prefix else RABBIT_DEFAULT


def scrypt_parts(text: str) -> tuple[int, int, int, bytes, bytes]:
    """n, r, p, salt and digest. ValueError says what is wrong."""
    parts = text.split("$")
    if len(parts) != 6:
        raise ValueError("wanted scrypt$n$r$p$salt$hash")
    if not all(number.isascii() and number.isdigit() and len(number) <= 9 for number in parts[1:4]):
        raise ValueError("the cost of a scrypt hash is three whole numbers")
    n, r, p = (int(number) for number in parts[1:4])
    if n < 2 or n & (n - 1) or r < 1 or n * r > SCRYPT_BLOCKS_MAX or not 1 <= p <= SCRYPT_P_MAX:
        raise ValueError(f"a scrypt hash of cost {n}${r}${p} is not allowed")
    salt, digest = unb64(parts[4]), unb64(parts[5])
    if not salt or not 16 <= len(digest) <= 64:
        raise ValueError("salt or hash has the wrong length")
    return n, r, p, salt, digest


def rabbit_parts(text: str) -> tuple[str, bytes, bytes]:
    """The digest's name, the salt and the digest. ValueError says what is wrong."""
    prefix, _, encoded = text.partition("$")
    if prefix not in _BY_PREFIX:
        raise ValueError("not a hash this broker knows (scrypt, rabbit_sha256, rabbit_sha512)")
    _, name, size = _BY_PREFIX[prefix]
    data = unb64(encoded)
    if len(data) != RABBIT_SALT_BYTES + size:
        raise ValueError(f"the hash is not {name} with four bytes of salt")
    return name, data[:RABBIT_SALT_BYTES], data[RABBIT_SALT_BYTES:]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def unb64(text: str) -> bytes:
    """ValueError where it is not base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("the hash is not base64") from None
