"""Content headers: the fourteen basic properties of a message, and the body's size."""

from __future__ import annotations

from struct import Struct, error

import msgspec

from openclust.wire.errors import SYNTAX_ERROR, ConnectionError
from openclust.wire.table import Fields, Table, Timestamp, decode_table, encode_table, join_table, split_table
from openclust.wire.text import decode_text, encode_text

CONTENT_TYPE = 0x8000
CONTENT_ENCODING = 0x4000
HEADERS = 0x2000
DELIVERY_MODE = 0x1000
PRIORITY = 0x0800
CORRELATION_ID = 0x0400
REPLY_TO = 0x0200
EXPIRATION = 0x0100
MESSAGE_ID = 0x0080
TIMESTAMP = 0x0040
TYPE = 0x0020
USER_ID = 0x0010
APP_ID = 0x0008
CLUSTER_ID = 0x0004

PREAMBLE = Struct(">HHQH")
"""Class, weight, body size, property flags: how every content header begins."""

_UP_TO_FLAGS = Struct(">HHQ")
_TIMESTAMP = Struct(">Q")


class Properties(msgspec.Struct, kw_only=True):
    """The properties of one message; None means that a property is absent."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: Timestamp | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


_FIELDS: tuple[tuple[int, str, str], ...] = (
    (CONTENT_TYPE, "content_type", "shortstr"),
    (CONTENT_ENCODING, "content_encoding", "shortstr"),
    (HEADERS, "headers", "table"),
    (DELIVERY_MODE, "delivery_mode", "octet"),
    (PRIORITY, "priority", "octet"),
    (CORRELATION_ID, "correlation_id", "shortstr"),
    (REPLY_TO, "reply_to", "shortstr"),
    (EXPIRATION, "expiration", "shortstr"),
    (MESSAGE_ID, "message_id", "shortstr"),
    (TIMESTAMP, "timestamp", "timestamp"),
    (TYPE, "type", "shortstr"),
    (USER_ID, "user_id", "shortstr"),
    (APP_ID, "app_id", "shortstr"),
    (CLUSTER_ID, "cluster_id", "shortstr"),
)


def decode_properties(header: bytes) -> Properties:
    """The properties in the payload of a content header. Malformed input is a 502."""
    properties = Properties()
    try:
        flags = PREAMBLE.unpack_from(header)[3]
        if flags & 0x0003:
            raise ConnectionError(SYNTAX_ERROR, "unknown property flags in a content header")
        at = PREAMBLE.size
        for flag, name, kind in _FIELDS:
            if not flags & flag:
                continue
            if kind == "shortstr":
                end = at + 1 + header[at]
                if end > len(header):
                    raise ConnectionError(SYNTAX_ERROR, f"property {name} passes the end of its content header")
                setattr(properties, name, decode_text(header[at + 1 : end]))
                at = end
            elif kind == "octet":
                setattr(properties, name, header[at])
                at += 1
            elif kind == "timestamp":
                properties.timestamp = Timestamp(_TIMESTAMP.unpack_from(header, at)[0])
                at += 8
            else:
                properties.headers, at = decode_table(header, at)
    except (error, IndexError) as problem:
        raise ConnectionError(SYNTAX_ERROR, "malformed content header") from problem
    if at != len(header):
        raise ConnectionError(SYNTAX_ERROR, f"{len(header) - at} bytes too many in a content header")
    return properties


def content_header(properties: bytes, body_size: int) -> bytes:
    """The payload of a content header. `properties` are its bytes behind the body size."""
    return _UP_TO_FLAGS.pack(60, 0, body_size) + properties


def header_fields(header: bytes) -> Fields:
    """The headers in a content header, each as it came; {} if there are none. The payload must be well-formed."""
    flags = PREAMBLE.unpack_from(header)[3]
    if not flags & HEADERS:
        return {}
    at = PREAMBLE.size
    for flag in (CONTENT_TYPE, CONTENT_ENCODING):
        if flags & flag:
            at += 1 + header[at]
    return split_table(header[at : at + 4 + int.from_bytes(header[at : at + 4], "big")])


def encode_header(properties: Properties, body_size: int, fields: Fields | None = None) -> bytes:
    """The payload of a content header. With `fields` these are its headers, in place of those in `properties`."""
    flags = 0
    parts = [b""]
    for flag, name, kind in _FIELDS:
        value = getattr(properties, name)
        if fields is not None and flag == HEADERS:
            value = fields
        if value is None:
            continue
        flags |= flag
        if kind == "shortstr":
            raw = encode_text(value)
            if len(raw) > 255:
                raise ValueError(f"property {name} is longer than 255 bytes")
            parts.append(bytes((len(raw),)) + raw)
        elif kind == "octet":
            parts.append(bytes((value,)))
        elif kind == "timestamp":
            parts.append(_TIMESTAMP.pack(value))
        else:
            parts.append(encode_table(value) if fields is None else join_table(fields))
    parts[0] = PREAMBLE.pack(60, 0, body_size, flags)
    return b"".join(parts)
