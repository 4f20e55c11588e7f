"""The kernel's counts of a connected socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from openclust.shell.net.traffic import NO_TRAFFIC, SocketTraffic, traffic_of


class Short:
    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        return bytes(104)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
        with one, other:
            yield one, other


@pytest.mark.sockets
def test_bytes_and_packets_are_those_that_went_each_way(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = ends
    for size in (1_000, 2_000):
        one.sendall(bytes(size))
        other.recv(size, socket.MSG_WAITALL)
    other.sendall(b"x")
    one.recv(1)
    assert traffic_of(one) == SocketTraffic(1, 1, 3_000, 2)
    assert traffic_of(other) == SocketTraffic(3_000, 2, 1, 1)


@pytest.mark.sockets
def test_a_closed_socket_tells_nothing(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].close()
    assert traffic_of(ends[0]) == NO_TRAFFIC


def test_an_older_kernel_tells_nothing() -> None:
    assert traffic_of(Short()) == NO_TRAFFIC
