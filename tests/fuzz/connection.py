"""Random bytes, in any order, on several connections of one broker, and the invariants that must hold.

python -m tests.fuzz.connection --seed 4711          one run again, step by step
python -m tests.fuzz.connection --seconds 600        runs of one seed after the other
python -m tests.fuzz.connection --atheris [ARGS]     guided by coverage, where atheris is installed
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from openclust.broker.amqp.connection import Connection
from openclust.broker.model.access import Permission
from openclust.broker.model.changes import Change, DeletePolicy, PutPermission, PutPolicy
from openclust.broker.model.limits import Limits
from openclust.broker.model.policy import Policy
from openclust.wire.codec import method_frame
from openclust.wire.frames import FRAME_BODY, FRAME_HEADER, frame
from openclust.wire.handshake import State
from openclust.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDeclareOk,
)
from openclust.wire.properties import Properties, encode_header
from openclust.wire.table import Value
from tests.fuzz.accounts import check_accounts
from tests.fuzz.choices import ByteChoices, Choices, SeedChoices
from tests.fuzz.client_bytes import opening, speech, stage
from tests.fuzz.said import Said
from tests.support.house import House

STEPS_MAX = 60
READ_BYTES = 131_072

LIMITS = Limits(
    message_size_max=30_000,
    transaction_bytes_max=10_000,
    turn_bytes_max=20_000,
    outbox_bytes_max=4_000,
    unacked_per_channel_max=5,
    consumers_per_channel_max=4,
    queues_max=6,
    exchanges_max=10,
    bindings_max=8,
    route_cache_max=4,
    consumer_timeout_ms=500,
)

Trace = Callable[[str], None]


def change_of(choices: Choices) -> Change:
    """Something that an operator changes while clients are at work."""
    if choices.chance(30):
        return DeletePolicy(vhost="/", name="some")
    if choices.chance(30):
        mine = choices.pick((Permission(), Permission(read=".*"), Permission(configure=".*", write=".*", read=".*")))
        return PutPermission(vhost="/", user=choices.pick(("guest", "reader")), permission=mine)
    settings: dict[str, Value] = choices.pick(
        (
            {"max-length": 1},
            {"message-ttl": 50},
            {"dead-letter-exchange": "", "dead-letter-routing-key": "q2"},
            {"message-deduplication": True},
            {"alternate-exchange": "amq.fanout"},
            {"expires": 100},
            {"consumer-prefetch-max": 2},
        )
    )
    return PutPolicy(
        vhost="/",
        policy=Policy(vhost="/", name="some", pattern="^(q|e)", definition=settings, priority=choices.below(2)),
    )


class Run:
    """One house with a few wild clients and one well-behaved neighbour."""

    def __init__(self, choices: Choices, trace: Trace) -> None:
        self.choices = choices
        self.trace = trace
        high = 3_000 if choices.chance(15) else 2**40
        self.house = House(LIMITS, memory_high_bytes=high)
        self.heard: dict[Connection, Said] = {}
        self.unread: dict[Connection, bytes] = {}
        self.neighbour = self.house.log_in(user="neighbour")
        self.heard[self.neighbour] = Said()
        self.house.send(self.neighbour, ConfirmSelect(), QueueDeclare(queue="neighbour", exclusive=True))

    def play(self) -> None:
        builder = self.house.log_in()
        self.house.feed(builder, stage(self.choices)[len(method_frame(1, ChannelOpen())) :])
        self.settle()
        self.house.lose(builder)
        wild = [self.begin() for _ in range(1 + self.choices.below(3))]
        for _ in range(5 + self.choices.below(STEPS_MAX)):
            at = self.choices.below(len(wild))
            if wild[at] not in self.house.broker.connections:
                wild[at] = self.begin()
            self.step(wild[at])
            self.settle()
        for connection in wild:
            self.house.drain(connection)
        self.settle()
        for connection in wild:
            self.house.lose(connection)
        self.settle()
        self.check_nothing_is_left()
        self.check_neighbour()

    def begin(self) -> Connection:
        connection = self.house.connect()
        self.heard[connection] = Said()
        self.unread[connection] = b""
        self.say(connection, opening(self.choices))
        self.settle()
        return connection

    def step(self, connection: Connection) -> None:
        kind = self.choices.below(100)
        if kind < 84:
            self.say(connection, self.answers(connection) + speech(self.choices, self.heard[connection].tags))
        elif kind < 89:
            self.trace("time passes")
            self.house.advance(self.choices.pick((1, 60, 600)))
        elif kind < 92:
            self.trace(f"{self.name(connection)} takes nothing more")
            self.house.stall(connection)
        elif kind < 96:
            self.trace(f"{self.name(connection)} takes all")
            self.house.drain(connection)
        elif kind < 97:
            self.trace(f"{self.name(connection)} is lost")
            self.house.lose(connection)
        else:
            change = change_of(self.choices)
            self.trace(f"an operator asks for {change}")
            self.house.broker.define(change)

    def answers(self, connection: Connection) -> bytes:
        """Most clients answer a close, and open their channel again."""
        if self.heard[connection].is_closing and self.choices.chance(80):
            return method_frame(0, ConnectionCloseOk())
        closed = sorted(self.heard[connection].closed_channels)
        again = [number for number in closed if self.choices.chance(80)]
        return b"".join(
            method_frame(number, ChannelCloseOk()) + method_frame(number, ChannelOpen()) for number in again
        )

    def name(self, connection: Connection) -> str:
        return f"client {list(self.heard).index(connection)}"

    def say(self, connection: Connection, data: bytes) -> None:
        """The client writes; the broker's side reads it in pieces, as far as it reads."""
        self.unread[connection] += data
        cuts = sorted(self.choices.below(len(data) + 1) for _ in range(self.choices.below(3)))
        self.trace(f"{self.name(connection)} says {data!r}, cut at {cuts}")
        before = 0
        for cut in [*cuts, len(data)]:
            self.read(connection, cut - before)
            before = cut
            if self.choices.chance(30):
                self.settle()
        self.read(connection, len(self.unread[connection]))

    def read(self, connection: Connection, size: int) -> None:
        """The shell reads so many bytes of the socket, unless it waits."""
        size = min(size, READ_BYTES)
        if not size or not self.house.reads(connection) or connection not in self.house.broker.connections:
            return
        data, self.unread[connection] = self.unread[connection][:size], self.unread[connection][size:]
        self.house.feed(connection, data)
        kept = len(connection.reader.rest)
        # A frame that is not whole yet, and what one read brought after something that must wait.
        assert kept <= connection.reader.frame_max + READ_BYTES, f"{kept} bytes kept of what a client said"

    def settle(self) -> None:
        self.house.turn()
        for connection, said in self.heard.items():
            line = self.house.line(connection)
            said.hear(line.take())
            assert not connection.out, "bytes wait in an outbox that nobody will write"
            if line.is_finished:
                # The last word is said: the peer closes its end.
                self.house.lose(connection)
            limits = self.house.broker.limits
            most = limits.outbox_bytes_max + limits.turn_bytes_max + 3 * limits.message_size_max + 200_000
            assert line.pending_bytes <= most, f"{line.pending_bytes} bytes wait for one slow peer"
        check_accounts(self.house.broker)

    def check_nothing_is_left(self) -> None:
        """The wild ones are gone, and what was theirs with them."""
        broker = self.house.broker
        assert list(broker.connections) == [self.neighbour], "a lost connection is still there"
        assert not broker.turn_waiters and not broker.replies
        for queue in broker.vhosts["/"].queues.values():
            assert not queue.unacked and not queue.consumers.all, f"{queue.name} has consumers that are gone"
            assert queue.owner in (None, self.neighbour), f"{queue.name} has an owner that is gone"

    def check_neighbour(self) -> None:
        """Whoever behaves well is served as if nothing had been."""
        house, neighbour, said = self.house, self.neighbour, self.heard[self.neighbour]
        vhost = house.broker.vhosts["/"]
        for queue in [name for name in vhost.queues if name != "neighbour"]:
            vhost.delete_queue(queue)
        self.settle()
        assert neighbour.state is State.OPEN, "the neighbour's connection was closed"
        said.forget()
        body = b"still here"
        message = method_frame(1, BasicPublish(routing_key="neighbour"))
        message += frame(FRAME_HEADER, 1, encode_header(Properties(), len(body))) + frame(FRAME_BODY, 1, body)
        house.feed(neighbour, message)
        self.settle()
        house.send(neighbour, BasicGet(queue="neighbour", no_ack=True), BasicGet(queue="neighbour"))
        house.send(neighbour, QueueDeclare(queue="neighbour", passive=True))
        self.settle()
        kinds = [type(method) for _, method in said.methods]
        assert kinds == [BasicAck, BasicGetOk, BasicGetEmpty, QueueDeclareOk], f"the neighbour was told {kinds}"
        assert said.bodies == [body]
        assert not house.broker.memory_accounts.held_bytes, "memory is held for nothing"


def run(choices: Choices, trace: Trace = lambda line: None) -> None:
    """One run; an exception of any kind is a finding."""
    Run(choices, trace).play()


def run_seed(seed: int, trace: Trace = lambda line: None) -> None:
    """One run, by its seed; what goes wrong carries the seed."""
    try:
        run(SeedChoices(seed), trace)
    except BaseException as error:
        error.add_note(f"repeat with: python -m tests.fuzz.connection --seed {seed}")
        raise


def _with_atheris(arguments: list[str]) -> int:
    try:
        import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        print(
            "error: atheris is not installed: `pip install atheris`, or use --seconds for runs without its guidance",
            file=sys.stderr,
        )
        return 2
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], *arguments], lambda data: run(ByteChoices(data)))
    atheris.Fuzz()
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.connection",
        description="Send random bytes on several connections of a broker, and check its invariants.",
    )
    parser.add_argument("--seed", type=int, help="run this seed, and print each step")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="run one seed after the other for so long (default: 60)"
    )
    parser.add_argument("--from-seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument(
        "--atheris", action="store_true", help="let atheris choose the bytes by coverage; it gets all other arguments"
    )
    options, rest = parser.parse_known_args(arguments)
    if options.atheris:
        return _with_atheris(rest)
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    if options.seed is not None:
        run_seed(options.seed, print)
        return 0
    end = time.monotonic() + options.seconds
    seed = options.from_seed
    while time.monotonic() < end:
        run_seed(seed)
        seed += 1
    print(f"seeds {options.from_seed} to {seed - 1}: nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
