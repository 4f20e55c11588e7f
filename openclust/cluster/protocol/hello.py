"""How brokers of one cluster know each other: the hello of each, and the proof that it holds the secret."""

from __future__ import annotations

import hashlib
import hmac
from typing import Literal

import msgspec

PROTOCOL = 6

LISTS_CHARACTERS_MAX = 150
"""An error text has 255 bytes. Of two longer lists of primaries it names only the primaries in which they differ."""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker says of itself when it dials another. `primaries` is the list it knows, sorted.

    `uuid` names the cluster, once it has had a root; `peer` is the address at which other brokers reach this one. A
    secondary knows neither primaries nor heartbeat before a primary tells it. `life` is drawn at each start: it tells a
    broker that comes back from another one of the same name.

    The heartbeat must be the same everywhere because leases are counted in heartbeats: with a longer one than that of
    its voters, a root would still serve when they elect another.
    """

    protocol: int = PROTOCOL
    cluster_key: str
    name: str
    role: Literal["primary", "secondary"] = "primary"
    primaries: tuple[str, ...] = ()
    heartbeat_ms: int = 100
    uuid: str = ""
    peer: str = ""
    life: str = ""


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a hello that is the same in every protocol version."""

    protocol: int
    name: str


class VersionTold(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an introduction that is the same in every protocol version."""

    hello: Version


class Introduction(msgspec.Struct, frozen=True, kw_only=True):
    """The dialling broker's answer to the other's nonce; the proof is empty where it has no secret."""

    hello: Hello
    proof: str = ""


def difference(mine: Hello, theirs: Hello) -> str | None:
    """Why the two cannot be of one cluster, with the item that differs; None where they can."""
    if theirs.name == mine.name:
        if theirs.life == mine.life:
            return f"the broker {mine.name!r} has reached itself"
        return f"the name {mine.name!r} is taken by this broker: give one of the two another name, or stop it"
    items = ["cluster_key"]
    if mine.uuid and theirs.uuid:
        items.append("uuid")
    if mine.role == theirs.role == "primary":
        items += ["primaries", "heartbeat_ms"]
    elif mine.role == theirs.role:
        return f"both this broker and {theirs.name!r} are secondaries: a secondary joins primaries"
    for item in items:
        ours, other = getattr(mine, item), getattr(theirs, item)
        if ours == other:
            continue
        if item == "primaries":
            return _different_lists(mine, theirs)
        return f"{item} differs: {mine.name} has {ours!r}, {theirs.name} has {other!r}"
    return None


def _different_lists(mine: Hello, theirs: Hello) -> str:
    """A text with both lists of primaries; where they are long, with the primaries that only one of them has."""
    both = (f"{each.name} has {', '.join(each.primaries)}" for each in (mine, theirs))
    text = f"primaries differ: {'; '.join(both)}"
    if len(text) <= LISTS_CHARACTERS_MAX:
        return text
    ours, other = set(mine.primaries), set(theirs.primaries)
    only = [
        f"only {who} has {', '.join(sorted(names))}"
        for who, names in ((mine.name, ours - other), (theirs.name, other - ours))
        if names
    ]
    return f"primaries differ: {'; '.join(only)}"


def introduce(hello: Hello, nonce: str, secret: str) -> bytes:
    """The answer to a broker that has sent this nonce."""
    return msgspec.json.encode(Introduction(hello=hello, proof=_proof(hello, nonce, secret)))


def is_proven(introduction: Introduction, nonce: str, secret: str) -> bool:
    """Whether the sender of an introduction holds the secret, which is not sent itself."""
    return hmac.compare_digest(introduction.proof, _proof(introduction.hello, nonce, secret))


def _proof(hello: Hello, nonce: str, secret: str) -> str:
    if not secret:
        return ""
    said = b"openclust link\0" + nonce.encode() + b"\0" + msgspec.json.encode(hello)
    return hmac.new(secret.encode(), said, hashlib.sha256).hexdigest()
