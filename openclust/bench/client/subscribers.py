"""Thousands of consuming connections: attached with one write each, many at a time, and closed again."""

from __future__ import annotations

import resource
import select
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from openclust.bench.client import frames
from openclust.bench.client.bench_connection import BenchConnection, reason, reset
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.frames import FrameCutter

# Files besides the connections: standard streams, the epoll object, the publisher, those of the interpreter.
SPARE_FILES = 48
ANSWER_SECONDS = 60.0
DETACH_SECONDS = 60.0
EXPIRES_MS = 600_000


class Subscription(NamedTuple):
    """What a subscriber asks for after its login."""

    queue: str
    exchange: str
    binding_keys: list[str]
    prefetch: int | None = None
    durable: bool = False
    exclusive: bool = True
    tag: str = "bench"
    arguments: Mapping[str, str] = MappingProxyType({})


def raise_open_files(connections: int) -> None:
    """Raise the soft limit on open files to the hard limit; BenchError if that is too low for so many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = connections + SPARE_FILES
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard not in (-1, resource.RLIM_INFINITY) and hard < needed:
        raise BenchError(
            f"{connections} subscribers need {needed} open files and this process may have {hard}; "
            "raise the limit (`ulimit -Hn`) or take fewer --subscribers"
        )


def login(like: BenchConnection, heartbeat_s: int = 0) -> bytes:
    """The bytes from the protocol header to channel.open. The broker's limits are those that `like` was told."""
    return (
        frames.PROTOCOL_HEADER
        + frames.start_ok(like.url.user, like.url.password)
        + frames.tune_ok(like.channel_max, like.frame_max, heartbeat_s)
        + frames.connection_open(like.url.vhost)
        + frames.channel_open(1)
    )


def declaration(subscription: Subscription) -> bytes:
    """The queue.declare, on channel 1. A queue that outlives its connections expires, if nobody deletes it."""
    arguments: dict[str, object] = {**subscription.arguments}
    if not subscription.exclusive:
        arguments["x-expires"] = EXPIRES_MS
    return frames.queue_declare(
        1, subscription.queue, durable=subscription.durable, exclusive=subscription.exclusive, arguments=arguments
    )


def subscribe(subscription: Subscription) -> bytes:
    """Declare, bind and consume on channel 1. With a prefetch, deliveries are to be acknowledged."""
    out = declaration(subscription)
    for key in subscription.binding_keys:
        out += frames.queue_bind(1, subscription.queue, subscription.exchange, key)
    if subscription.prefetch is not None:
        out += frames.basic_qos(1, subscription.prefetch)
    return out + frames.basic_consume(1, subscription.queue, subscription.tag, no_ack=subscription.prefetch is None)


def attach(
    like: BenchConnection,
    subscriptions: Sequence[Sequence[Subscription]],
    at_once: int,
    progress: Callable[[int], None],
    heartbeat_s: int = 0,
) -> list[socket.socket]:
    """Make a connection for each list of subscriptions, `at_once` at a time. Returns non-blocking sockets, in order.

    Several subscriptions of one connection share its channel, and need tags of their own. They go to the same address,
    user and virtual host as `like`. Returns when the last has its consume-ok. Calls `progress` with the number of
    connections attached so far, now and then. Where they agree on heartbeats, sending them is the caller's duty.
    """
    raise_open_files(len(subscriptions))
    attaching = _AttachingSubscribers(like, subscriptions, progress, heartbeat_s)
    try:
        attaching.run(at_once)
    except BaseException:
        for sock in attaching.sockets:
            sock.close()
        raise
    finally:
        attaching.epoll.close()
    return attaching.sockets


class _AttachingSubscribers:
    def __init__(
        self,
        like: BenchConnection,
        subscriptions: Sequence[Sequence[Subscription]],
        progress: Callable[[int], None],
        heartbeat_s: int,
    ) -> None:
        self.epoll = select.epoll()
        self.sockets: list[socket.socket] = []
        self._login = login(like, heartbeat_s)
        self._subscriptions = subscriptions
        self._progress = progress
        self._family, self._address = like.socket.family, like.socket.getpeername()
        self._name = like.url.address
        self._unsent: dict[int, bytes] = {}
        self._missing: dict[int, int] = {}
        self._readers: dict[int, FrameCutter] = {}
        self._by_fd: dict[int, socket.socket] = {}

    def run(self, at_once: int) -> None:
        attached, total = 0, len(self._subscriptions)
        deadline = time.monotonic() + ANSWER_SECONDS
        while attached < total:
            while len(self.sockets) - attached < at_once and len(self.sockets) < total:
                self._start(self._subscriptions[len(self.sockets)])
            before = attached
            for fd, event in self.epoll.poll(1.0, 256):
                if event & select.EPOLLOUT and fd in self._unsent:
                    self._write(self._by_fd[fd])
                if event & ~select.EPOLLOUT and self._read(self._by_fd[fd]):
                    attached += 1
            if attached > before:
                deadline = time.monotonic() + ANSWER_SECONDS
                self._progress(attached)
            elif time.monotonic() > deadline:
                raise BenchError(
                    f"{self._name}: {attached} of {total} subscribers attached, then none for {ANSWER_SECONDS:.0f} s"
                )

    def _start(self, subscriptions: Sequence[Subscription]) -> None:
        sock = socket.socket(self._family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.sockets.append(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            sock.connect(self._address)
        except BlockingIOError:
            pass
        except OSError as error:
            raise self._broken(reason(error)) from None
        fd = sock.fileno()
        self._by_fd[fd], self._readers[fd] = sock, FrameCutter()
        self._unsent[fd] = self._login + b"".join(map(subscribe, subscriptions))
        self._missing[fd] = len(subscriptions)
        self.epoll.register(fd, select.EPOLLIN | select.EPOLLOUT)

    def _write(self, sock: socket.socket) -> None:
        fd = sock.fileno()
        try:
            rest = self._unsent[fd][sock.send(self._unsent[fd]) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise self._broken(reason(error)) from None
        if rest:
            self._unsent[fd] = rest
        else:
            del self._unsent[fd]
            self.epoll.modify(fd, select.EPOLLIN)

    def _read(self, sock: socket.socket) -> bool:
        """Whether all consumers of this connection have their consume-ok."""
        try:
            data = sock.recv(65_536)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._broken(reason(error)) from None
        if not data:
            raise self._broken("connection closed without a reason")
        fd = sock.fileno()
        try:
            for frame in self._readers[fd].feed(data):
                closing = frames.close_reason(frame)
                if closing is not None:
                    raise self._broken(closing)
                if frame.ids == frames.BASIC_CONSUME_OK:
                    self._missing[fd] -= 1
                if not self._missing[fd]:
                    self.epoll.unregister(fd)
                    del self._readers[fd], self._by_fd[fd], self._missing[fd]
                    return True
        except ValueError as error:
            raise self._broken(str(error)) from None
        return False

    def _broken(self, why: str) -> BenchError:
        return BenchError(f"{self._name}: while attaching subscriber {len(self.sockets)}: {why}")


def detach(sockets: list[socket.socket]) -> None:
    """Close all connections with connection.close; those without an answer after a minute just close their socket."""
    goodbye = frames.connection_close()
    waiting: dict[int, socket.socket] = {}
    epoll = select.epoll()
    for sock in sockets:
        try:
            sock.send(goodbye)
        except OSError:
            reset(sock)
            continue
        waiting[sock.fileno()] = sock
        epoll.register(sock.fileno(), select.EPOLLIN)
    deadline = time.monotonic() + DETACH_SECONDS
    while waiting and time.monotonic() < deadline:
        for fd, _ in epoll.poll(1.0, 256):
            try:
                data = waiting[fd].recv(65_536)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            # Deliveries may come before close-ok, which is the last frame.
            if not data or data.endswith(frames.connection_close_ok()):
                epoll.unregister(fd)
                reset(waiting.pop(fd))
    for sock in waiting.values():
        reset(sock)
    epoll.close()
