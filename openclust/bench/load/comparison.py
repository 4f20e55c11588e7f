"""Rounds of one work, alternating between brokers, and repeated with newly started ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from openclust.bench.brokers.broker_process import BrokerProcess, find_listener
from openclust.bench.client.bench_connection import BenchConnection
from openclust.bench.client.bench_errors import BenchError
from openclust.bench.client.url import BrokerUrl
from openclust.bench.load.generator import Generator
from openclust.bench.load.load_messages import Order, Progressed
from openclust.bench.load.work import Figures, LoadWork


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """A broker in a comparison. Its CPU and memory are measured if its process ids are known.

    In a cluster the subscribers may be at other brokers, and the queue may be declared at yet another one. The
    processes of all these brokers count.
    """

    name: str
    url: BrokerUrl
    product: str = ""
    pids: tuple[int, ...] = ()
    subscribers_at: tuple[BrokerUrl, ...] = ()
    declared_at: BrokerUrl | None = None
    queue_arguments: dict[str, str] = {}


Measured = tuple[Contender, list[Figures]]
"""A broker, and the figures of each round at it."""

Each = TypeVar("Each")


class Watcher(Protocol):
    """Is told of the progress, and may show it."""

    def doing(self, what: str) -> None: ...

    def told(self, progressed: Progressed) -> None: ...

    def finished_round(self) -> None: ...


def introduce(name: str | None, url: BrokerUrl, pid: int | None, others: Sequence[BrokerUrl] = ()) -> Contender:
    """Log in once, so that a wrong URL is an error before anything is measured; learn the broker's product and version.

    `others` are the other brokers of its cluster. CPU and memory are measured only if the processes of all are known.
    """
    for other in others:
        BenchConnection(other).close()
    connection = BenchConnection(url)
    connection.close()
    product = f"{connection.product} {connection.version}".strip()
    pids = [pid if pid is not None else find_listener(url.host, url.port)]
    pids += [find_listener(other.host, other.port) for other in others]
    known = tuple(found for found in pids if found is not None)
    return Contender(
        name=name or connection.product.lower() or "broker",
        url=url,
        product=product,
        pids=known if len(known) == len(pids) else (),
    )


def with_distinct_names(contenders: Sequence[Contender]) -> list[Contender]:
    """Contenders of the same name get their number in the list behind it: `openclust-1`, `openclust-2`."""
    names = [contender.name for contender in contenders]
    return [
        contender if names.count(contender.name) == 1 else msgspec.structs.replace(contender, name=f"{name}-{number}")
        for number, (name, contender) in enumerate(zip(names, contenders, strict=True), start=1)
    ]


def order_for(contender: Contender, work: LoadWork) -> Order:
    """The order for the load generator of this broker."""
    return Order(
        url=contender.url,
        work=work,
        broker_pids=contender.pids,
        subscribers_at=contender.subscribers_at,
        declared_at=contender.declared_at,
        queue_arguments=contender.queue_arguments,
    )


def in_turn(each: Sequence[Each], turn: int) -> list[Each]:
    """The order of this turn. Every second turn goes backwards (A B, B A, A B ...): nothing is always first."""
    return list(reversed(each)) if turn % 2 else list(each)


def run_starts(starts: int, run: Callable[[int], list[Measured]]) -> list[Measured]:
    """All rounds of all starts. `run` gets the number of the start, from 0; it starts the brokers and ends them.

    How fast a process is depends also on the process: on where its memory is, on the core it was given. That luck
    stays with it for all of its rounds, so that only other processes show how large it is.
    """
    found = run(0)
    for start in range(1, starts):
        for (_, figures), (_, more) in zip(found, run(start), strict=True):
            figures += more
    return found


def run_rounds(
    work: LoadWork, contenders: Sequence[Contender], rounds: int, watcher: Watcher, start: int = 0
) -> list[Measured]:
    """Round 1 at each broker, round 2 at each... so that what slows this machine for a while slows all of them.

    Whoever is first in one round is last in the next, and whoever begins one start ends the next.
    """
    figures: list[list[Figures]] = [[] for _ in contenders]
    generators: dict[int, Generator] = {}
    places = range(len(contenders))
    try:
        for place in in_turn(places, start):
            contender = contenders[place]
            watcher.doing(f"{contender.name}: attaching")
            with _naming(contender):
                generators[place] = Generator(order_for(contender, work), watcher.told)
        for number in range(rounds):
            for place in in_turn(places, start + number):
                contender, generator, found = contenders[place], generators[place], figures[place]
                with _naming(contender):
                    if number == 0 and work.warm_up_seconds and work.pattern != "connections":
                        watcher.doing(f"{contender.name}: warming up")
                        generator.run(work.warm_up_seconds)
                    watcher.doing(f"{contender.name}: waiting for quiet")
                    _settle(contenders)
                    watcher.doing(f"{contender.name}: round {number + 1} of {rounds}")
                    found.append(generator.run())
                watcher.finished_round()
    finally:
        for generator in generators.values():
            watcher.doing("cleaning up")
            generator.close()
        _settle(contenders, forgiving=True)
    return list(zip(contenders, figures, strict=True))


def _settle(contenders: Sequence[Contender], forgiving: bool = False) -> None:
    for contender in contenders:
        if contender.pids:
            try:
                BrokerProcess(*contender.pids).settle()
            except BenchError:
                if not forgiving:
                    raise


class _naming:
    """Put the broker's name in front of errors."""

    def __init__(self, contender: Contender) -> None:
        self._name = contender.name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BenchError):
            raise BenchError(f"{self._name}: {error}") from None
