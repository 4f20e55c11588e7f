"""One published message, in queues and on its way to consumers."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from openclust.wire.properties import Properties, decode_properties, encode_header, header_fields
from openclust.wire.table import encode_long
from openclust.wire.text import decode_text, encode_text

OVERHEAD_BYTES = 400
"""The memory of a message beside its header and body: for its structs and its place in a queue."""


class Message(msgspec.Struct, gc=False):
    """`header` and `body` are the publisher's bytes. `suffix` is the end of its basic.deliver: see `delivery_suffix`.

    `holders` counts its places in queues and unacknowledged deliveries: the memory accounts charge it once.
    """

    exchange: str
    routing_key: str
    header: bytes
    body: bytes
    suffix: bytes
    holders: int = 0
    decoded: Properties | None = None
    persistent: bool | None = None

    @property
    def is_persistent(self) -> bool:
        """Whether its delivery mode is 2."""
        if self.persistent is None:
            self.persistent = _is_persistent(self.header)
        return self.persistent

    @property
    def properties(self) -> Properties:
        """The decoded properties. Do not change them: messages may share them."""
        if self.decoded is None:
            self.decoded = decode_properties(self.header)
        return self.decoded

    @property
    def cost(self) -> int:
        """The bytes that the memory accounts charge for it."""
        return len(self.body) + len(self.header) + OVERHEAD_BYTES


def _is_persistent(header: bytes) -> bool:
    """Whether the delivery mode in a content header is 2. The properties before it are skipped, not decoded."""
    flags = header[12]
    if not flags & 0x10:
        return False
    at = 14
    for flag in (0x80, 0x40):
        if flags & flag:
            at += 1 + header[at]
    if flags & 0x20:
        at += 4 + int.from_bytes(header[at : at + 4], "big")
    return header[at] == 2


def delivery_suffix(exchange: str, routing_key: str) -> bytes:
    """The end of a basic.deliver or get-ok of a message: redelivered = false, exchange, routing key, frame end."""
    name = encode_text(exchange)
    key = encode_text(routing_key)
    return b"\0%c%b%c%b\xce" % (len(name), name, len(key), key)


@lru_cache(maxsize=10_000)
def names_in(suffix: bytes) -> tuple[str, str]:
    """The exchange and the routing key in a suffix."""
    size = suffix[1]
    exchange, key = suffix[2 : 2 + size], suffix[3 + size : -1]
    return decode_text(exchange), decode_text(key)


def counted_header(message: Message, deliveries: int) -> bytes:
    """The content header with `x-delivery-count`, as quorum queues add it: how often the message came back."""
    properties = message.properties
    fields = header_fields(message.header)
    fields["x-delivery-count"] = encode_long(deliveries)
    return encode_header(properties, len(message.body), fields)
