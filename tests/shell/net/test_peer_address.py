"""Which addresses are this machine's own."""

from __future__ import annotations

import pytest

from openclust.shell.net.peer_address import is_loopback, peer_at


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"])
def test_an_address_of_the_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "", "x"])
def test_another_address_or_none(address: str) -> None:
    assert not is_loopback(address)


def test_a_peer_is_known_by_its_address() -> None:
    peer = peer_at(("127.0.0.1", 5), certificate_name="alice", is_tls=True)
    assert (peer.host, peer.port, peer.is_loopback, peer.certificate_name) == ("127.0.0.1", 5, True, "alice")
