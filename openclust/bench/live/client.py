"""One client of a live run: its connection, its deliveries. It never blocks; `player_process` polls its socket."""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Callable

from openclust.bench.client import frames
from openclust.bench.client.frames import ACK_FRAME, BASIC_ACK, BODY, FRAME_END, FRAME_OVERHEAD, METHOD
from openclust.bench.live.live_plan import LiveClient

STAMP = struct.Struct(">Q")
_HEAD = struct.Struct(">BHI")
BUFFER_BYTES = 262_144
CONNECTION_FORCED = 320
HEARTBEAT_S = 60
FRAME_MAX = 131_072
CHANNEL_MAX = 8

Address = tuple[str, int]


class ConnectionEnded(Exception):
    """The connection ended: `is_lost` without a close, `is_moved` to rebalance clients, or redirected to `target`."""

    def __init__(self, *, is_lost: bool, is_moved: bool = False, target: Address | None = None, why: str = "") -> None:
        super().__init__(why)
        self.is_lost, self.is_moved, self.target, self.why = is_lost, is_moved, target, why


class Player:
    """`on_message` is called with the stamp of each message that comes, its delivery tag, and when it was read."""

    __slots__ = ("_rest", "_unsent", "broker", "client", "is_attached", "is_missing", "on_message", "sock", "tries")

    def __init__(self, client: LiveClient, on_message: Callable[[Player, int, int, int], None]) -> None:
        self.client = client
        self.on_message = on_message
        self.sock: socket.socket | None = None
        self.broker = client.contact
        self.is_attached = False
        self.is_missing = False
        """Whether it has lost its broker and is not attached again."""
        self.tries = 0
        self._rest = b""
        self._unsent = b""

    def connect(self, address: Address, *, is_redirected: bool) -> socket.socket:
        """Begin to connect; returns the socket, which becomes writable when it is connected."""
        self.sock = sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_attached, self._rest = False, b""
        sock.connect_ex(address)
        said = {"openclust_redirected": True} if is_redirected else {}
        self._unsent = (
            frames.PROTOCOL_HEADER
            + frames.start_ok("guest", "guest", **said)
            + frames.tune_ok(CHANNEL_MAX, FRAME_MAX, HEARTBEAT_S)
            + frames.connection_open("/", insist=not self.client.follows)
        )
        return sock

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()
        self.sock, self.is_attached = None, False

    @property
    def poll_events(self) -> int:
        """The events to poll for."""
        return select.EPOLLIN | select.EPOLLOUT if self._unsent else select.EPOLLIN

    def send(self, data: bytes) -> None:
        """Send now, or as soon as the socket is writable."""
        self._unsent += data
        self.flush()

    def flush(self) -> None:
        assert self.sock is not None
        try:
            self._unsent = self._unsent[self.sock.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError as error:
            raise ConnectionEnded(is_lost=True, why=str(error)) from None

    def ack(self, tag: int) -> None:
        self.send(ACK_FRAME.pack(METHOD, 1, 13, *BASIC_ACK, tag, 0, FRAME_END))

    def receive(self) -> bool:
        """Handle what has come; returns whether that completed the attaching."""
        assert self.sock is not None
        try:
            data = self.sock.recv(BUFFER_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            raise ConnectionEnded(is_lost=True, why=str(error)) from None
        read_ns = time.perf_counter_ns()
        if not data:
            raise ConnectionEnded(is_lost=True, why="closed without a word")
        if self._rest:
            data = self._rest + data
        at, end, attached, tag = 0, len(data), False, 0
        while at + FRAME_OVERHEAD <= end:
            kind, _, size = _HEAD.unpack_from(data, at)
            following = at + size + FRAME_OVERHEAD
            if following > end:
                break
            if kind == METHOD:
                ids = data[at + 7 : at + 11]
                if ids == _DELIVER:
                    tag_at = at + 12 + data[at + 11]
                    tag = int.from_bytes(data[tag_at : tag_at + 8], "big")
                    # Wait for header and body too: the delivery tag is in the method frame only.
                    header_size = int.from_bytes(data[following + 3 : following + 7], "big")
                    body_at = following + header_size + FRAME_OVERHEAD
                    if body_at + FRAME_OVERHEAD > end:
                        break
                    following = body_at + int.from_bytes(data[body_at + 3 : body_at + 7], "big") + FRAME_OVERHEAD
                    if following > end:
                        break
                    self.on_message(self, STAMP.unpack_from(data, body_at + 7)[0], tag, read_ns)
                elif ids != _ACK:
                    attached = self._told(ids, data[at + 7 : following - 1]) or attached
            elif kind == BODY:
                raise ConnectionEnded(is_lost=False, why="a body without its method: messages must fit one frame")
            at = following
        self._rest = data[at:]
        return attached

    def _told(self, ids: bytes, payload: bytes) -> bool:
        """Handle a frame that is no delivery; returns whether it was the expected answer."""
        if ids == _OPEN_OK:
            self._unsent += self._setting_up()
            self.flush()
        elif ids == _REDIRECT:
            raise ConnectionEnded(
                is_lost=False, target=_address(payload[5 : 5 + payload[4]].decode()), why="redirected"
            )
        elif ids in (_CLOSE, _CHANNEL_CLOSE):
            code = int.from_bytes(payload[4:6], "big")
            why = payload[7 : 7 + payload[6]].decode(errors="replace")
            raise ConnectionEnded(is_lost=False, is_moved=code == CONNECTION_FORCED, why=f"{code} {why}")
        elif ids == _LAST_ANSWER[self.client.kind]:
            self.is_attached, self.tries = True, 0
            return True
        return False

    def _setting_up(self) -> bytes:
        """The frames that declare, bind and consume, in one write."""
        client, out = self.client, frames.channel_open(1)
        if client.kind == "subscribers":
            queue = f"live.{client.number}"
            out += frames.queue_declare(1, queue, exclusive=True)
            for key in client.keys:
                out += frames.queue_bind(1, queue, "amq.direct", key)
            out += frames.basic_consume(1, queue, "live", no_ack=True)
        elif client.kind == "consumers":
            out += frames.basic_qos(1, 1) + frames.basic_consume(1, client.queue, "live", no_ack=False)
        elif client.kind == "producers":
            out += frames.confirm_select(1)
        return out


def _ids(pair: tuple[int, int]) -> bytes:
    return struct.pack(">HH", *pair)


_DELIVER, _ACK = _ids(frames.BASIC_DELIVER), _ids(frames.BASIC_ACK)
_OPEN_OK, _REDIRECT = _ids(frames.CONNECTION_OPEN_OK), _ids(frames.CONNECTION_REDIRECT)
_CLOSE, _CHANNEL_CLOSE = _ids(frames.CONNECTION_CLOSE), _ids(frames.CHANNEL_CLOSE)
_LAST_ANSWER = {
    "subscribers": _ids(frames.BASIC_CONSUME_OK),
    "consumers": _ids(frames.BASIC_CONSUME_OK),
    "producers": _ids(frames.CONFIRM_SELECT_OK),
    "publishers": _ids(frames.CHANNEL_OPEN_OK),
}


def _address(host: str) -> Address:
    name, _, port = host.rpartition(":")
    return name, int(port)
