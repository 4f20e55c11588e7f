"""Methods whose reply may have to wait for another broker. Until then the input of their connection waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from openclust.broker.amqp.channel import OPEN, Channel
from openclust.wire.errors import AmqpError, ChannelError, ConnectionError
from openclust.wire.handshake import State
from openclust.wire.methods import Method

if TYPE_CHECKING:
    from openclust.broker.cluster_port import Done


def answer(channel: Channel, method: Method, start: Callable[[Done], None], reply: Callable[[Any], None]) -> None:
    """Call `start`. When its result is there, reply; if that is an error, close the channel or connection for it."""
    connection = channel.connection
    is_done = is_waiting = False

    def done(result: Any) -> None:
        nonlocal is_done
        is_done = True
        if is_waiting:
            connection.release_from("cluster")
            if channel.state != OPEN or connection.state is not State.OPEN:
                # The client has closed meanwhile.
                return
        if isinstance(result, ConnectionError):
            connection.fail(result, *method.ID)
        elif isinstance(result, AmqpError):
            channel.fail(ChannelError(result.code, result.text), *method.ID)
        else:
            reply(result)

    start(done)
    if not is_done:
        is_waiting = True
        connection.wait("cluster")
