"""The running broker: event loop, clock, randomness and sockets around a `Node`, and what performs its effects."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import secrets
import signal
import socket
import time
from collections.abc import Coroutine, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, assert_never, cast

import psutil

from openclust.broker.amqp.connection import Connection
from openclust.broker.counts.histogram import Histogram
from openclust.broker.journal.journal import Journal
from openclust.broker.model.effects import CheckLogin, CloseTransport, Effect, Note, Proxy, Resume, StartHeartbeats
from openclust.broker.server.broker import Broker
from openclust.node import Node, perform
from openclust.shell.cluster.cluster_driver import ClusterDriver
from openclust.shell.cluster.peer_listener import PeerListener
from openclust.shell.config.schema import Config
from openclust.shell.definitions_file import import_at_start, import_in_cluster
from openclust.shell.host.clock import monotonic_ms, wall_ms
from openclust.shell.host.event_loop import new_event_loop
from openclust.shell.host.line_limit import LineLimit
from openclust.shell.host.memory import high_watermark_bytes
from openclust.shell.host.notes import log_note
from openclust.shell.host.open_files import raise_open_files_limit
from openclust.shell.net.client_proxy import ClientProxies
from openclust.shell.net.heartbeats import beat, first_wait_ms
from openclust.shell.net.listener import Listener, listening_sockets
from openclust.shell.net.outbox_flush import OutboxFlush
from openclust.shell.net.peer_address import local_address, peer_at
from openclust.shell.net.stream import GONE, Stream, Transport
from openclust.shell.net.timer_wheel import TimerWheel
from openclust.shell.store_driver import StoreDriver, new_store
from openclust.shell.tls.certificate_files import client_files, http_files, peer_files
from openclust.shell.tls.handshake_failure import HandshakeFailures
from openclust.shell.tls.server_context import login_name
from openclust.shell.tls.tls_stream import TlsStream
from openclust.shell.users.logins import Logins
from openclust.wire.errors import CONNECTION_FORCED
from openclust.wire.handshake import State

if TYPE_CHECKING:
    from openclust.broker.journal.store_rows import Write
    from openclust.cluster.protocol.outbox import Outbox

log = logging.getLogger("openclust.server")

WHEEL_TICK_MS = 100
WHEEL_SLOTS = 1_024
CLOSE_WAIT_MS = 2_000
CLOSE_OK_AFTER_MS = 2
"""RabbitMQ answers a connection.close after 1.6 to 3 ms; aiormq needs some tenths of a millisecond to expect it."""
CLOSE_OK_WAIT_MS = 10_000
REFUSED_WAIT_MS = 1_000
GOODBYE_S = 5.0
TURNS_S = (0.000_1, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5)
"""Bounds of the histogram of the time that a turn takes, from its first event on."""


class Service(Protocol):
    """Something that runs beside the broker, such as the HTTP API."""

    async def start(self, server: Server) -> None: ...
    async def stop(self) -> None: ...


class Server:
    """The node's host. Call `turn` (or `turn_soon`) after anything that may have changed the broker."""

    def __init__(self, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.loop = loop
        self.broker = Broker(
            config.limits,
            random_name=lambda: secrets.token_urlsafe(16),
            memory_high_bytes=high_watermark_bytes(config.limits.memory_high_watermark),
            cluster_name=config.cluster_key,
            name=config.name,
            mechanisms=config.auth.mechanisms,
            guest_from_loopback_only=config.auth.guest_from_loopback_only,
            journal=Journal(has_disk=config.cluster.data_dir is not None),
        )
        self.broker.set_clock(self.now_ms(), wall_ms())
        self.logins = Logins(config.auth.users_file, config.cluster.data_dir)
        self.broker.replace_users(self.logins.users.values())
        self.wheel: TimerWheel[Connection] = TimerWheel(WHEEL_SLOTS, WHEEL_TICK_MS, self.broker.now_ms)
        self.listeners: list[Listener] = []
        self.client_tls = client_files(config.tls)
        self.peer_tls = peer_files(config.cluster)
        self.http_tls = http_files(config.http)
        self.peer_listener = PeerListener(config, self.peer_tls, self)
        # A store of another cluster or broker is refused before any other file of its data directory is read.
        store = new_store(config)
        self.member = ClusterDriver(config, self.broker, self, self.peer_tls)
        self.node = Node(self.broker, self.member.membership)
        self.storage = StoreDriver(config, store, self.node, self.turn_soon)
        self.proxies = ClientProxies(self.broker, self)
        self.line_limit = LineLimit(log)
        self._tls_server: asyncio.Server | None = None
        self._handshakes: set[TlsStream] = set()
        self._turn_planned = False
        # Of a turn that was planned: when the first event for it came.
        self._turn_began_s = 0.0
        self.turns = Histogram(TURNS_S)
        self._writing = OutboxFlush(loop, self._written)
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused = 0
        self.stopping = asyncio.Event()
        self.stop_reason = ""

    now_ms = staticmethod(monotonic_ms)

    # -- turns

    def receive(self, connection: Connection, data: bytes) -> None:
        """Bytes came for a connection."""
        if not self._turn_planned:
            self._turn_planned = True
            self._turn_began_s = perf_counter()
            self.loop.call_soon(self.turn)
        self.node.receive(connection, data, self.now_ms())
        if connection.hold:
            self._transport(connection).pause_reading()

    def turn_soon(self) -> None:
        if not self._turn_planned:
            self._turn_planned = True
            self._turn_began_s = perf_counter()
            self.loop.call_soon(self.turn)

    def turn(self) -> None:
        """End a turn of the node: perform its effects in their order, then write each outbox that is not empty."""
        self._turn_planned = False
        began_s, self._turn_began_s = self._turn_began_s, 0.0
        ready = self.node.turn()
        self.member.look()
        perform(ready, self)
        self._plan_deadline()
        if began_s:
            self.turns.add(perf_counter() - began_s)

    def write(self, writes: list[Write]) -> None:
        self.storage.write(writes)

    def send(self, messages: list[Outbox]) -> None:
        self.member.send(messages)

    def flush(self, connections: list[Connection]) -> None:
        self._writing.add(connections)

    def look_at_disk(self) -> None:
        self.storage.look()

    def end_proxied(self, count: int) -> None:
        self.proxies.end(count)

    def farewell(self, connection: Connection) -> None:
        # A client that was refused has a moment to read the reason.
        self.wheel.add(connection, CLOSE_OK_WAIT_MS if connection.was_open else REFUSED_WAIT_MS)

    def _written(self) -> None:
        """All outboxes are with their sockets."""
        self.member.written()
        self.node.written()
        if self.node.is_busy:
            self.turn_soon()

    def _plan_deadline(self) -> None:
        due_ms = self.node.expires_ms
        if due_ms == self._deadline_ms:
            return
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._deadline_ms = due_ms
        if due_ms:
            self._deadline = self.loop.call_later(max(0, due_ms - self.now_ms()) / 1_000, self._on_deadline)

    def _on_deadline(self) -> None:
        self._deadline = None
        self._deadline_ms = 0
        self.node.expire(self.now_ms(), wall_ms())
        self.turn()

    def effect(self, effect: Effect) -> None:
        match effect:
            case Note():
                log_note(log, effect, self.line_limit, self.broker.now_ms)
            case CheckLogin():
                self._check_login(effect)
            case CloseTransport(connection, b""):
                self._transport(connection).finish()
            case CloseTransport(connection, close_ok):
                # The wheel then holds no heartbeat for this connection, which could end it before the answer is due.
                self.close_later(connection)
                self.loop.call_later(CLOSE_OK_AFTER_MS / 1_000, self._answer_close, connection, close_ok)
            case StartHeartbeats():
                transport = self._transport(effect.connection)
                self.wheel.add(effect.connection, first_wait_ms(transport, effect.interval_s, WHEEL_TICK_MS))
            case Resume():
                self._transport(effect.connection).resume_reading()
                self.receive(effect.connection, b"")
            case Proxy():
                self.proxies.begin(effect)
            case _:
                assert_never(effect)

    def _answer_close(self, connection: Connection, close_ok: bytes) -> None:
        transport = self._transport(connection)
        if transport is not GONE:
            connection.append_close_ok(close_ok)
            transport.finish()

    @staticmethod
    def _transport(connection: Connection) -> Transport:
        return cast(Transport, connection.transport)

    # -- logins

    def _check_login(self, effect: CheckLogin) -> None:
        self.refresh_users()
        credentials = effect.credentials
        user = self.broker.users.get(credentials.name)
        known = self.logins.known(user, credentials)
        if not known:
            # The users file may have changed within the last second.
            self.refresh_users(at_once=True)
            user = self.broker.users.get(credentials.name)
            known = self.logins.known(user, credentials)
        if known is not None:
            effect.connection.checked(credentials, user if known else None)
            return
        self._run(self._check_slowly(effect))

    def _run(self, work: Coroutine[None, None, None]) -> None:
        """Run a coroutine in a task of its own."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def refresh_users(self, *, at_once: bool = False) -> None:
        it = self.member.membership
        self.logins.refresh(
            self.broker, self.now_ms(), is_alone=it.is_alone, is_in_touch=it.is_in_touch, at_once=at_once
        )

    async def _check_slowly(self, effect: CheckLogin) -> None:
        credentials = effect.credentials
        user = self.broker.users.get(credentials.name)
        right = await self.logins.check(user, credentials)
        effect.connection.checked(credentials, user if right else None)
        self.turn_soon()

    # -- connections

    def peer_connected(self, sock: socket.socket, address: tuple[str, int]) -> None:
        self.plain_connected(sock, address, is_peer=True)

    def plain_connected(self, sock: socket.socket, address: tuple[str, int], *, is_peer: bool = False) -> None:
        if not self._has_room(address[0]):
            sock.close()
            return
        connection = Connection(self.broker, peer_at(address, local=local_address(sock), is_peer=is_peer))
        connection.transport = Stream(self, sock, connection, self.now_ms())
        self.wheel.add(connection, self.config.limits.handshake_timeout_ms)

    def tls_accepted(self, stream: TlsStream) -> bool:
        """Whether there is room for a handshake. Its end must be told, by `tls_connected` or `tls_ended`."""
        if not self._has_room(stream.address[0]):
            return False
        self._handshakes.add(stream)
        return True

    def tls_ended(self, stream: TlsStream) -> None:
        self._handshakes.discard(stream)

    def tls_connected(self, stream: TlsStream, certificate: Mapping[str, Any]) -> Connection:
        """The handshake is done; `certificate` is the verified one of the other side, empty where it showed none."""
        self._handshakes.discard(stream)
        if stream.is_peer:
            # The brokers' own authority signed this certificate, so any name in it will do.
            name = login_name(certificate, "cn") or login_name(certificate, "dn") or "a broker"
        else:
            name = login_name(certificate, self.config.tls.login_from) or ""
        peer = peer_at(
            stream.address, local=stream.local_address, certificate_name=name, is_tls=True, is_peer=stream.is_peer
        )
        connection = Connection(self.broker, peer)
        connection.transport = stream
        self.wheel.add(connection, self.config.limits.handshake_timeout_ms // 2)
        return connection

    def _has_room(self, host: str) -> bool:
        waiting = len(self.broker.connections) - self.broker.open_count() + len(self._handshakes)
        if waiting < self.config.limits.connections_before_login_max:
            return True
        self._refused += 1
        if self._refused % 1_000 == 1:
            log.warning(
                "refused a connection of %s: %d others have not logged in yet (limits.connections_before_login_max)",
                host,
                waiting,
            )
        return False

    def connection_lost(self, connection: Connection) -> None:
        if connection.state is State.OPEN and not connection.peer.is_peer and not connection.peer.is_internal:
            # For a peer the membership logs which broker is gone.
            self.broker.note("warning", "client closed its socket without closing the connection", connection)
        self.wheel.remove(connection)
        self.node.connection_lost(connection, self.now_ms())
        # Connection and transport refer to each other, and the garbage collector runs seldom.
        connection.transport = GONE
        self.turn_soon()

    def close_later(self, connection: Connection) -> None:
        """Nothing more is sent on this connection: its peer has `CLOSE_WAIT_MS` to close its end."""
        self.wheel.add(connection, CLOSE_WAIT_MS)

    def tick(self) -> None:
        """Every 100 ms: handshakes that take too long, heartbeats, closed connections whose peers do not answer."""
        now_ms = self.now_ms()
        self.broker.set_clock(now_ms, wall_ms())
        for connection in self.wheel.advance(now_ms):
            self._due(connection, now_ms)
        self.refresh_users()
        self.line_limit.look(now_ms)
        for files in (self.client_tls, self.http_tls, self.peer_tls):
            if files is not None:
                files.look(now_ms, wall_ms() // 1_000)
        self.turn_soon()
        self.loop.call_later(WHEEL_TICK_MS / 1_000, self.tick)

    def _due(self, connection: Connection, now_ms: int) -> None:
        transport = self._transport(connection)
        if connection.state is State.OPEN:
            self._beat(connection, transport)
            return
        if connection.state is State.CLOSING:
            connection.end()
            return
        if connection.state is not State.CLOSED:
            left_ms = transport.born_ms + self.config.limits.handshake_timeout_ms - now_ms
            if left_ms > 0:
                self.wheel.add(connection, left_ms)
                return
            self.broker.note("warning", f"handshake timed out while {connection.state.value}", connection)
        transport.abort()

    def _beat(self, connection: Connection, transport: Transport) -> None:
        if not connection.heartbeat_s:
            return
        wait_ms = beat(connection, transport, self.broker.now_ms, WHEEL_TICK_MS)
        if wait_ms is None:
            text = f"missed heartbeats from client, timeout: {connection.heartbeat_s}s"
            self.broker.note("warning", text, connection)
            # This broker ends the connection: the log must not say later that the client closed its socket.
            connection.state = State.CLOSED
            transport.abort()
            return
        self.wheel.add(connection, wait_ms)

    # -- life

    async def start(self) -> None:
        """Read the store, import definitions, then listen. OSError if an address cannot be used."""
        config = self.config
        membership = self.member.membership
        self.storage.begin(self.loop, self.logins)
        if config.definitions.file is not None and membership.is_alone:
            import_at_start(self.broker, config.definitions.file, config.auth.users_file)
        accounts = self.broker.memory_accounts
        accounts.base_bytes = psutil.Process().memory_info().rss
        if accounts.base_bytes > accounts.high_bytes:
            log.error(
                "limits.memory_high_watermark is %d bytes, less than the %d the broker needs for itself: "
                "all publishers will be blocked",
                accounts.high_bytes,
                accounts.base_bytes,
            )
        for sock in listening_sockets(config.listen.host, config.listen.port, config.listen.backlog):
            listener = Listener(self.loop, sock, self.plain_connected)
            self.listeners.append(listener)
            log.info("accepting on %s:%d", *listener.address)
        await self.peer_listener.start()
        self.member.start(self.listeners[0].address, self.peer_listener.address)
        if config.definitions.file is not None and not membership.is_alone:
            self._run(
                import_in_cluster(
                    self.broker,
                    config.definitions.file,
                    is_in_touch=lambda: membership.is_in_touch,
                    turn_soon=self.turn_soon,
                )
            )
        if (tls := self.client_tls) is not None:
            failures = HandshakeFailures("client", "tls.cert", "tls.ca", lambda: tls.ours)
            self._tls_server = await self.loop.create_server(
                lambda: TlsStream(
                    self, tls.contexts, failures, handshake_timeout_ms=config.limits.handshake_timeout_ms
                ),
                config.tls.host or config.listen.host,
                config.tls.port,
                backlog=config.listen.backlog,
            )
            log.info("accepting TLS on %s:%d", config.tls.host or config.listen.host, config.tls.port)
        self.tick()

    @property
    def tls_addresses(self) -> list[tuple[str, int]]:
        """Where clients reach this broker by TLS."""
        sockets = self._tls_server.sockets if self._tls_server is not None else ()
        return [(name[0], name[1]) for name in (sock.getsockname() for sock in sockets)]

    def stop_for(self, reason: str) -> None:
        """Begin to end the broker; `reason` says who asked for it."""
        self.stop_reason = self.stop_reason or reason
        self.stopping.set()

    async def stop(self) -> None:
        """Accept no more connections, close all there are, and wait up to `GOODBYE_S` for the peers' answers."""
        await self.member.stop(self.stop_reason or "asked by the program that runs it")
        for listener in self.listeners:
            listener.close()
        self.peer_listener.close()
        if self._tls_server is not None:
            self._tls_server.close()
        for stream in list(self._handshakes):
            stream.abort()
        self.broker.close_all(CONNECTION_FORCED, "CONNECTION_FORCED - broker forced connection closure: shutdown")
        self.turn()
        end = time.monotonic() + GOODBYE_S
        while self.broker.connections and time.monotonic() < end:
            await asyncio.sleep(0.02)
        for connection in list(self.broker.connections):
            self._transport(connection).abort()
        await self.proxies.stop()
        self.storage.stop()
        self.logins.close()


def serve(config: Config, services: Sequence[Service] = ()) -> int:
    """Run a broker until SIGTERM or Ctrl-C; the exit code. OSError if it cannot listen."""
    log.info("open files: at most %d", raise_open_files_limit())
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(_serve(config, services))


async def _serve(config: Config, services: Sequence[Service]) -> int:
    loop = asyncio.get_running_loop()
    server = Server(config, loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop_for, f"asked by {number.name}")
    # Ten thousand connections are millions of long-lived objects: the garbage collector is to walk them seldom.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)
    started: list[Service] = []
    try:
        await server.start()
        for service in services:
            await service.start(server)
            started.append(service)
        server.member.membership.readiness.started()
        server.turn_soon()
        await server.stopping.wait()
        log.info("stopping: %s", server.stop_reason)
    finally:
        for service in started:
            with contextlib.suppress(Exception):
                await service.stop()
        await server.stop()
    return 0
