"""What has gone through a connected socket, as the kernel has counted it: nothing is counted here for each read."""

from __future__ import annotations

import socket
import sys
from struct import Struct
from typing import NamedTuple, Protocol

TCP_INFO = Struct("=128xQ16xII40xQQ")
"""Of Linux' tcp_info: bytes_received, data_segs_in, data_segs_out, bytes_sent, bytes_retrans."""


class SocketTraffic(NamedTuple):
    """Bytes and packets, without those that were sent again. All are 0 where the kernel does not tell."""

    received_bytes: int = 0
    received_packets: int = 0
    sent_bytes: int = 0
    sent_packets: int = 0


NO_TRAFFIC = SocketTraffic()


class TcpSocket(Protocol):
    """A socket, or what asyncio shows of one."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


def traffic_of(sock: TcpSocket) -> SocketTraffic:
    """Since the socket is connected. Linux 4.19 and newer tell all of it."""
    if sys.platform != "linux":
        return NO_TRAFFIC
    try:
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO.size)
    except OSError:  # it is closed
        return NO_TRAFFIC
    if len(told) < TCP_INFO.size:
        return NO_TRAFFIC
    received, packets_in, packets_out, sent, sent_again = TCP_INFO.unpack(told)
    return SocketTraffic(received, packets_in, sent - sent_again, packets_out)
