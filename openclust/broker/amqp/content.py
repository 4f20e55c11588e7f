"""Publishes that arrive in pieces: method, header and body in frames of their own."""

from __future__ import annotations

import msgspec

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.publishing import too_large
from openclust.wire.errors import FRAME_ERROR, RESOURCE_ERROR, SYNTAX_ERROR, UNEXPECTED_FRAME, ConnectionError
from openclust.wire.methods import BasicPublish
from openclust.wire.properties import PREAMBLE


class Incoming(msgspec.Struct):
    """A publish whose frames are still coming; `size` is -1 until its header came."""

    arguments: bytes
    header: bytes = b""
    size: int = -1
    got: int = 0
    pieces: list[bytes] = []


def start_content(channel: Channel, arguments: bytes) -> None:
    """A publish method came alone; its content follows."""
    if channel.incoming is not None:
        raise ConnectionError(UNEXPECTED_FRAME, "basic.publish where content was to come")
    channel.incoming = Incoming(arguments)


def take_header(channel: Channel, payload: bytes) -> None:
    """The content header of a publish."""
    if channel.state != OPEN:
        return
    incoming = channel.incoming
    if incoming is None or incoming.size >= 0:
        raise ConnectionError(UNEXPECTED_FRAME, "a content header where none was to come")
    if len(payload) < PREAMBLE.size:
        raise ConnectionError(SYNTAX_ERROR, "a content header is cut short")
    class_id, weight, size, _ = PREAMBLE.unpack_from(payload)
    if class_id != BasicPublish.ID[0]:
        raise ConnectionError(UNEXPECTED_FRAME, f"a content header of class {class_id} after basic.publish")
    if weight:
        raise ConnectionError(FRAME_ERROR, f"a content header of weight {weight}, not 0")
    limit = channel.broker.limits.message_size_max
    if size > limit:
        channel.incoming = None
        channel.fail(too_large(size, limit), *BasicPublish.ID)
        return
    incoming.header = payload
    incoming.size = size
    if not size:
        _finish(channel, incoming)


def take_body(channel: Channel, payload: bytes) -> None:
    """One piece of a publish's body."""
    if channel.state != OPEN:
        return
    incoming = channel.incoming
    if incoming is None or incoming.size < 0:
        raise ConnectionError(UNEXPECTED_FRAME, "a content body where none was to come")
    if payload:
        incoming.pieces.append(payload)
        incoming.got += len(payload)
        books = channel.broker.books
        books.held_bytes += len(payload)
        if books.is_overdrawn():
            # The alarm stops no message in the middle: so many of them together must have an end.
            raise ConnectionError(RESOURCE_ERROR, "no memory is left for a message in progress")
    if incoming.got > incoming.size:
        raise ConnectionError(UNEXPECTED_FRAME, "a content body is larger than its header said")
    if incoming.got == incoming.size:
        _finish(channel, incoming)


def _finish(channel: Channel, incoming: Incoming) -> None:
    channel.incoming = None
    channel.broker.books.held_bytes -= incoming.got
    try:
        channel.publish(incoming.arguments, incoming.header, b"".join(incoming.pieces))
    except ConnectionError as error:
        channel.connection.fail(error, *BasicPublish.ID)
