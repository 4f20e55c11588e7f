"""What a connection makes of frames that are not the hot path: to which channel they go, or why they may not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.amqp import committing, consuming, content, declaring, publishing
from openclust.broker.amqp.channel import OPEN, Channel
from openclust.broker.amqp.client_channel import ClientChannel
from openclust.wire.codec import decode_method, method_frame, name_of
from openclust.wire.errors import CHANNEL_ERROR, COMMAND_INVALID, NOT_ALLOWED, UNEXPECTED_FRAME, ConnectionError
from openclust.wire.handshake import State, step
from openclust.wire.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection

assert committing and consuming and declaring, "imported for what they register"


def misplaced_publish(connection: Connection, number: int, channel: Channel | None) -> None:
    """A whole publish where no open channel waits for one: why, told in the close; on a closing channel, nothing."""
    if connection.state in (State.CLOSING, State.CLOSED):
        return
    if connection.state is not State.OPEN:
        error = ConnectionError(COMMAND_INVALID, f"basic.publish while {connection.state.value}")
    elif not number:
        error = ConnectionError(COMMAND_INVALID, "basic.publish on channel 0")
    elif channel is None:
        error = _no_channel(number)
    elif channel.state == OPEN:
        error = ConnectionError(UNEXPECTED_FRAME, "basic.publish where content was to come")
    else:
        return
    connection.fail(error, *BasicPublish.ID)


def channel_method(connection: Connection, number: int, payload: bytes) -> bool:
    """A method on a channel; whether it was taken."""
    if connection.state is not State.OPEN:
        raise ConnectionError(COMMAND_INVALID, f"a method on channel {number} while {connection.state.value}")
    channel = connection.channels.get(number)
    if payload[:4] == publishing.PUBLISH_PREFIX and channel is not None:
        if channel.state == OPEN:
            if connection.must_wait():
                return False
            content.start_content(channel, payload[4:])
        return True
    method = decode_method(payload)
    if channel is not None:
        channel.on_method(method)
    elif isinstance(method, ChannelOpen):
        _open_channel(connection, number)
    elif isinstance(method, ChannelClose):
        # A close may cross ours: the answer is owed all the same.
        connection.send(method_frame(number, ChannelCloseOk()))
    elif not isinstance(method, ChannelCloseOk):
        raise _no_channel(number)
    return True


def _open_channel(connection: Connection, number: int) -> None:
    # The negotiated maximum bounds how many there are, not their numbers: aiormq counts on from 65535.
    if len(connection.channels) >= connection.channel_max:
        text = f"{len(connection.channels)} channels are open, the negotiated channel_max: channel {number} is refused"
        raise ConnectionError(NOT_ALLOWED, text)
    connection.channels[number] = ClientChannel(connection, number)
    connection.send(method_frame(number, ChannelOpenOk()))


def channel_for_content(connection: Connection, number: int) -> Channel | None:
    """The channel that a content frame is for; None where what comes does not count any more."""
    if connection.state is State.CLOSING or connection.state is State.CLOSED:
        return None
    if connection.state is not State.OPEN or not number:
        raise ConnectionError(UNEXPECTED_FRAME, f"a content frame on channel {number} while {connection.state.value}")
    channel = connection.channels.get(number)
    if channel is None:
        raise _no_channel(number)
    return channel


def connection_method(connection: Connection, method: Method) -> None:
    """A method on channel 0."""
    kind = type(method)
    if connection.state is State.CLOSING and not isinstance(method, ConnectionClose | ConnectionCloseOk):
        return
    if method.ID[0] != 10:
        raise ConnectionError(COMMAND_INVALID, f"{name_of(kind)} on channel 0")
    after = step(connection.state, kind)
    if isinstance(method, ConnectionClose):
        connection.end(method_frame(0, ConnectionCloseOk()))
    elif isinstance(method, ConnectionCloseOk):
        connection.end()
    elif isinstance(method, ConnectionUpdateSecret):
        # Passwords do not expire here: there is nothing to renew.
        connection.send(method_frame(0, ConnectionUpdateSecretOk()))
    else:
        connection.proceed(method, after)


def _no_channel(number: int) -> ConnectionError:
    return ConnectionError(CHANNEL_ERROR, f"expected 'channel.open' on channel {number}")
