"""Very many subscribers, in several processes: each must get every message, one message at a time.

The processes are `python -m openclust.bench.crowd.crowd`: orders on stdin, answers on stdout, one JSON object a line.
Times are of the machine's monotonic clock, which all processes share.
"""

from __future__ import annotations

import gc
import select
import signal
import socket
import subprocess
import sys
import time

import msgspec

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.subscribers import Subscription, attach, detach, raise_open_files
from openclust.bench.client.url import BrokerUrl

RECEIVE_SECONDS = 60.0
PIECE_BYTES = 65_536
AT_ONCE = 64
CLOSE_SECONDS = 120.0


class Gather(msgspec.Struct, frozen=True, kw_only=True, tag="gather"):
    """Comes first: attach so many subscribers to an exchange of this broker. Answered by `Gathered`.

    With more than one queue a connection, they are consumers on its one channel.
    """

    url: BrokerUrl
    exchange: str
    name: str
    connections: int
    queues_each: int = 1


class ListenForOne(msgspec.Struct, frozen=True, kw_only=True, tag="listen"):
    """Every queue will get one message, in a delivery of `size` bytes; 0 if the size is not known yet.

    Answered by `Listening`, and then by `Heard`.
    """

    size: int = 0


class Gathered(msgspec.Struct, frozen=True, kw_only=True, tag="gathered"):
    attached: int
    elapsed_s: float


class Listening(msgspec.Struct, frozen=True, tag="listening"):
    """Publish now."""


class Heard(msgspec.Struct, frozen=True, kw_only=True, tag="heard"):
    """All queues got the message, and nothing else."""

    last_ns: int
    size: int
    queues: int


class Broken(msgspec.Struct, frozen=True, kw_only=True, tag="broken"):
    """Comes last, instead of an answer."""

    why: str


Order = Gather | ListenForOne
Answer = Gathered | Listening | Heard | Broken


class Crowd:
    """One process's subscribers."""

    def __init__(self, order: Gather) -> None:
        self._order = order
        raise_open_files(order.connections)
        self._connection = BenchConnection(order.url)
        self.sockets: list[socket.socket] = []
        started = time.perf_counter()
        try:
            subscriptions = [
                [
                    Subscription(f"{order.name}.{number}.{each}", order.exchange, [""], tag=f"bench.{each:06d}")
                    for each in range(order.queues_each)
                ]
                for number in range(order.connections)
            ]
            self.sockets = attach(self._connection, subscriptions, AT_ONCE, lambda _: None)
        except BaseException:
            self._connection.close()
            raise
        self.elapsed_s = time.perf_counter() - started
        self._epoll = select.epoll(len(self.sockets))
        self._by_fd = {sock.fileno(): sock for sock in self.sockets}
        for fd in self._by_fd:
            self._epoll.register(fd, select.EPOLLIN)

    def listen(self, size: int) -> Heard:
        """Wait for one delivery at every queue; BenchError if one does not come, or comes twice."""
        expected = size * self._order.queues_each
        missing = dict.fromkeys(self._by_fd, 0)
        deadline = time.monotonic() + RECEIVE_SECONDS
        last_ns = 0
        while missing:
            events = self._epoll.poll(1.0, 256)
            for fd, _ in events:
                data = self._receive(fd)
                if not expected:
                    size = delivery_size(data)
                    expected = size * self._order.queues_each
                got = missing.get(fd, 0) + len(data)
                if fd not in missing or got > expected:
                    raise BenchError(f"{self._order.url.address} delivered more to a subscriber than was published")
                if got == expected:
                    del missing[fd]
                else:
                    missing[fd] = got
            if events:
                last_ns = time.perf_counter_ns()
            elif time.monotonic() > deadline:
                raise BenchError(
                    f"{self._order.url.address}: {len(missing)} of {len(self.sockets)} subscribers did not get "
                    f"a message within {RECEIVE_SECONDS:.0f} s"
                )
        return Heard(last_ns=last_ns, size=size, queues=len(self.sockets) * self._order.queues_each)

    def close(self) -> None:
        self._epoll.close()
        detach(self.sockets)
        self._connection.close()

    def _receive(self, fd: int) -> bytes:
        try:
            data = self._by_fd[fd].recv(PIECE_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise BenchError(f"{self._order.url.address} broke a subscriber's connection: {error}") from None
        if not data:
            raise BenchError(f"{self._order.url.address} closed a subscriber's connection without a reason")
        return data


def delivery_size(data: bytes) -> int:
    """The length of the delivery at the beginning of `data`, all of which must be there."""
    size, left = 0, -1
    for frame in frames.FrameCutter().feed(data):
        closing = frames.close_reason(frame)
        if closing is not None:
            raise BenchError(f"a subscriber was closed: {closing}")
        size += len(frame.payload) + frames.FRAME_OVERHEAD
        if frame.type == frames.HEADER:
            left = int.from_bytes(frame.payload[4:12], "big")
        elif frame.type == frames.BODY:
            left -= len(frame.payload)
        if not left:
            return size
    raise BenchError("a first delivery came in pieces: take a smaller --size")


class CrowdProcess:
    """A crowd's process, as the command that starts it sees it. Close it in any case."""

    def __init__(self, order: Gather) -> None:
        self._address = order.url.address
        self._process = subprocess.Popen(
            [sys.executable, "-m", "openclust.bench.crowd.crowd"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.tell(order)

    def tell(self, order: Order) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(order) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchError(f"the subscribers of {self._address} are gone; their last words are above") from None

    def answer(self) -> Answer:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchError(f"the subscribers of {self._address} died; their last words are above")
        answer: Answer = msgspec.json.decode(line, type=Answer)
        if isinstance(answer, Broken):
            raise BenchError(answer.why)
        return answer

    def leave(self) -> None:
        """Let the process detach its subscribers; `close` waits for that."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()

    def close(self) -> None:
        self.leave()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def main() -> None:
    """Serve one crowd."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    crowd: Crowd | None = None
    try:
        for line in sys.stdin.buffer:
            order: Order = msgspec.json.decode(line, type=Order)
            if isinstance(order, Gather):
                crowd = Crowd(order)
                gc.collect()
                gc.freeze()
                _answer(Gathered(attached=order.connections * order.queues_each, elapsed_s=crowd.elapsed_s))
            else:
                assert crowd is not None, "gathered first"
                _answer(Listening())
                _answer(crowd.listen(order.size))
    except BenchError as error:
        _answer(Broken(why=str(error)))
    except BrokenPipeError:
        pass
    finally:
        if crowd is not None:
            crowd.close()


def _answer(answer: Answer) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
