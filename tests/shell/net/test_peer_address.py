"""Which addresses are this machine's own."""

from __future__ import annotations

from typing import Any

import pytest

from openclust.shell.net.peer_address import is_loopback, local_address, peer_at


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"])
def test_an_address_of_the_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "", "x"])
def test_another_address_or_none(address: str) -> None:
    assert not is_loopback(address)


def test_a_peer_is_known_by_its_address() -> None:
    peer = peer_at(("127.0.0.1", 5), certificate_name="alice", is_tls=True)
    assert (peer.host, peer.port, peer.is_loopback, peer.certificate_name) == ("127.0.0.1", 5, True, "alice")


class Connected:
    def __init__(self, name: tuple[str, int]) -> None:
        self.name = name

    def getsockname(self) -> tuple[str, int]:
        if not self.name[1]:
            raise OSError
        return self.name


def local(host: str, port: int) -> tuple[str, int]:
    sock: Any = Connected((host, port))
    return local_address(sock)


def test_connections_to_one_address_share_the_object() -> None:
    assert local("10.0.0.1", 5_672) == ("10.0.0.1", 5_672)
    assert local("10.0.0.1", 5_672) is local("10.0.0.1", 5_672)


def test_a_socket_that_is_closed_already_has_no_local_address() -> None:
    assert local("", 0) == ("", 0)
