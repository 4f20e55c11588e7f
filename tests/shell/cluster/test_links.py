"""A link notices that its connection is lost, whatever aiormq waits for."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from openclust.shell.cluster.links import lost
from openclust.shell.cluster.peer_connection import PeerConnection, PeerTransport
from tests.shell.cluster.test_peer_connection import Peer, run


class Socket:
    """A transport whose socket is open or closed."""

    def __init__(self, *, is_closed: bool) -> None:
        self.is_closed = is_closed


def transport(*, is_closed: bool) -> PeerTransport:
    return cast(PeerTransport, Socket(is_closed=is_closed))


def test_a_connection_whose_socket_was_closed_is_lost_though_its_closing_does_not_end() -> None:
    async def scene(connection: PeerConnection, peer: Peer) -> None:
        assert not connection.closing.done()
        await asyncio.wait_for(lost(connection, transport(is_closed=True), look_every_s=0.01), 5)

    run(scene)


def test_a_connection_with_an_open_socket_is_not_lost_until_aiormq_says_so() -> None:
    async def scene(connection: PeerConnection, peer: Peer) -> None:
        waiting = asyncio.ensure_future(lost(connection, transport(is_closed=False), look_every_s=0.01))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.1)
        peer.reader.feed_eof()
        await asyncio.wait_for(waiting, 5)

    run(scene)
