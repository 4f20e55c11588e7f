"""`openclust up`: a cluster of real processes on this machine, for trying things out."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import click
import msgspec

from openclust.cli.cluster.cluster_view import ClusterView, ask
from openclust.cli.cluster.local_cluster import (
    BASE_PORT_MAX,
    PRIMARIES_MAX,
    SECONDARIES_MAX,
    LocalBroker,
    LocalCluster,
    plan_cluster,
)
from openclust.cli.cluster.local_processes import LocalProcesses
from openclust.cli.cluster.status import reasons
from openclust.cli.exit_codes import DONE
from openclust.cli.http_client import HttpClient
from openclust.cli.term import show_table
from openclust.shell.config.checks import RANGES

ALL_ENDED = 1
ROOT_WAIT_S = 30.0
SETTLE_WAIT_S = 3.0
"""Once there is a root, the table is shown after this time, even if other brokers have not found their places."""
POLL_S = 0.05
ANSWER_WAIT_S = 1.0
TRY = """
Try it from another terminal, in `{python} -m asyncio`: publish at one broker, get at another.

    import aio_pika; channel = await (await aio_pika.connect("{first}")).channel()
    await channel.declare_queue("hello"); await channel.default_exchange.publish(aio_pika.Message(b"hi"), "hello")
    other = await (await aio_pika.connect("{last}")).channel()
    print((await (await other.get_queue("hello")).get(no_ack=True)).body)
"""
COLORS = tuple(f"{light}{name}" for light in ("", "bright_") for name in ("cyan", "magenta", "green", "yellow", "blue"))


@click.command()
@click.option(
    "--primaries",
    type=click.IntRange(1, PRIMARIES_MAX),
    default=3,
    show_default=True,
    metavar="COUNT",
    help="How many brokers elect the root.",
)
@click.option(
    "--secondaries",
    type=click.IntRange(0, SECONDARIES_MAX),
    default=0,
    show_default=True,
    metavar="COUNT",
    help="How many more brokers join them.",
)
@click.option("--cluster-key", metavar="KEY", default="local", show_default=True, help="The name of the cluster.")
@click.option(
    "--base-port",
    type=click.IntRange(1, BASE_PORT_MAX),
    metavar="PORT",
    help="Clients at PORT and up, peers at PORT+10, HTTP at PORT+10000 [free ports].",
)
@click.option(
    "--dir", "--data-dir", "folder", metavar="DIR", help="Configuration and data, kept [a temporary one, removed]."
)
@click.option(
    "--heartbeat-ms",
    type=click.IntRange(*RANGES["cluster.heartbeat_ms"]),
    metavar="MS",
    help="Time between two statuses of a primary; longer for a busy machine [100].",
)
@click.option("--trace", metavar="DIR", help="Every broker's trace, as NAME.jsonl in there [off].")
@click.option("--log-level", metavar="LEVEL", default="info", show_default=True, help="That of every broker.")
def up(
    primaries: int,
    secondaries: int,
    cluster_key: str,
    base_port: int | None,
    folder: str | None,
    heartbeat_ms: int | None,
    trace: str | None,
    log_level: str,
) -> int:
    """Run a cluster of real processes on this machine until Ctrl-C, and follow their logs on stderr.

    A broker that ends is told, and the others go on: kill one and see. A second Ctrl-C does not wait for anything.
    """
    with tempfile.TemporaryDirectory(prefix="openclust-up-") if folder is None else nullcontext(folder) as place:
        home = Path(place).absolute()
        planned = plan_cluster(cluster_key, home, primaries, secondaries, base_port=base_port, log_level=log_level)
        traces = None if trace is None else Path(trace).absolute()
        return _run(msgspec.structs.replace(planned, trace=traces, heartbeat_ms=heartbeat_ms))


def _run(cluster: LocalCluster) -> int:
    cluster.write()
    return asyncio.run(_serve(cluster))


async def _serve(cluster: LocalCluster) -> int:
    processes = LocalProcesses(cluster, Prefix([each.name for each in cluster.brokers]).say)
    told = asyncio.Event()

    def on_signal() -> None:
        if told.is_set():
            processes.kill()
        told.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal)
    tasks: list[asyncio.Task[object]] = []
    try:
        await processes.start()
        introduction = asyncio.create_task(_introduce(processes))
        ends: list[asyncio.Task[object]] = [
            asyncio.create_task(told.wait()),
            asyncio.create_task(processes.wait_until_all_ended()),
        ]
        tasks = [introduction, *ends]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return DONE if told.is_set() else ALL_ENDED
    finally:
        for task in tasks:
            task.cancel()
        await processes.stop()
        if not told.is_set():
            click.echo("openclust: error: no broker is left", err=True)


async def _introduce(processes: LocalProcesses) -> None:
    """Shows the brokers when they have a root. Without one it reports the reason after a while, and waits on."""
    cluster = processes.cluster
    began = time.monotonic()
    rooted_s: float | None = None
    warned = False
    while running := processes.running():
        seen = {each.name: view for each in running if (view := await asyncio.to_thread(_view, each)) is not None}
        took_s = time.monotonic() - began
        late = [each.name for each in running if not is_settled(cluster, each, seen.get(each.name))]
        if rooted_s is None and any(each.name in seen and seen[each.name].role == "root" for each in cluster.primaries):
            rooted_s = took_s
        if rooted_s is not None and (not late or took_s - rooted_s > SETTLE_WAIT_S):
            others = f"{', '.join(late)} not in it yet" if late else f"all serve after {took_s:.1f} s"
            show_cluster(cluster, seen, f"has a root after {rooted_s:.1f} s, {others}")
            return
        if not warned and took_s > ROOT_WAIT_S:
            warned = True
            lines = [line for view in seen.values() for line in reasons(view)] or ["no broker answers"]
            click.echo(f"openclust: no root after {ROOT_WAIT_S:g} s: {'; '.join(dict.fromkeys(lines))}", err=True)
        await asyncio.sleep(POLL_S)


def _view(broker: LocalBroker) -> ClusterView | None:
    try:
        return ask(HttpClient(broker.http_url, ANSWER_WAIT_S))[0]
    except click.ClickException:
        return None  # not started yet, or ended


def is_settled(cluster: LocalCluster, broker: LocalBroker, view: ClusterView | None) -> bool:
    """Whether a broker has found its place, and a root."""
    roles = ("root", "backup") if broker in cluster.primaries else ("secondary",)
    return view is not None and view.root is not None and view.role in roles


def show_cluster(cluster: LocalCluster, seen: dict[str, ClusterView], how_it_is: str) -> None:
    """Shows the table of brokers, and commands to try."""
    click.echo(f"\ncluster {cluster.cluster_key} {how_it_is}\n")
    show_table(
        ("broker", "role", "clients", "HTTP API"),
        [
            (each.name, seen[each.name].role if each.name in seen else "?", each.amqp_url, each.api_url)
            for each in cluster.brokers
        ],
    )
    click.echo(TRY.format(python=_python(), first=cluster.brokers[0].amqp_url, last=cluster.brokers[-1].amqp_url))
    click.echo(f"{_program()} status --watch --url {cluster.brokers[0].http_url}")
    click.echo("User and password are guest. Ctrl-C ends them all.\n")
    sys.stdout.flush()


def _python() -> str:
    return shlex.quote(os.path.relpath(sys.executable)) if sys.prefix != sys.base_prefix else "python3"


def _program() -> str:
    """The command that runs this program in this folder: its name alone only if the shell would find it."""
    path = sys.argv[0]
    if os.path.basename(path) != "openclust":
        return f"{_python()} -m openclust"
    found = shutil.which("openclust")
    is_found = found is not None and os.path.realpath(found) == os.path.realpath(path)
    return "openclust" if is_found else shlex.quote(os.path.relpath(path))


class Prefix:
    """Writes lines to stderr, each behind the name of its broker, which has a colour on a terminal."""

    def __init__(self, names: list[str]) -> None:
        self._width = max(len(name) for name in [*names, "up"])
        self._is_colored = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        self._colors = {name: COLORS[i % len(COLORS)] for i, name in enumerate(names)}

    def say(self, name: str, line: str) -> None:
        prefix = f"{name:<{self._width}} |"
        if self._is_colored:
            color = self._colors.get(name)
            prefix = click.style(prefix, fg=color, bold=color is None)
        click.echo(f"{prefix} {line}", err=True)
