"""`openclust up`: what it plans, what it shows of real processes, and that none of them is left."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import aio_pika
import click
import msgspec
import psutil
import pytest
from click.testing import CliRunner

from openclust.cli.cluster import local_processes
from openclust.cli.cluster.cluster_view import ClusterView
from openclust.cli.cluster.local_cluster import FREE_PORTS, LocalBroker, LocalCluster, plan_cluster
from openclust.cli.cluster.local_processes import LINE_BYTES_MAX, LocalProcesses
from openclust.cli.cluster.up import is_settled, show_cluster
from openclust.cli.main import openclust
from tests.support.clients.deadline import eventually
from tests.support.manage.fake_member import seen_by_root

START_WAIT_S = 30.0
END_WAIT_S = 15.0


def cluster_in(folder: Path) -> LocalCluster:
    primaries = (LocalBroker("p1", 1, 2, 3), LocalBroker("p2", 4, 5, 6))
    return LocalCluster("K", folder, primaries, secondaries=(LocalBroker("s1", 7, 8, 9),))


# -- what it plans


def test_one_file_names_every_primary_and_no_secondary_with_its_three_addresses(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path / "new")
    cluster.write()
    assert tomllib.loads(cluster.config_file.read_text())["cluster"]["primaries"] == {
        "p1": {"client": "127.0.0.1:1", "peer": "127.0.0.1:2", "http": "127.0.0.1:3"},
        "p2": {"client": "127.0.0.1:4", "peer": "127.0.0.1:5", "http": "127.0.0.1:6"},
    }


def test_the_heartbeat_is_that_of_the_whole_cluster(tmp_path: Path) -> None:
    cluster = msgspec.structs.replace(cluster_in(tmp_path), heartbeat_ms=500)
    assert tomllib.loads(cluster.configuration())["cluster"]["heartbeat_ms"] == 500
    assert "heartbeat_ms" not in cluster_in(tmp_path).configuration()


@pytest.mark.parametrize("ms", ["19", "60001", "fast"])
def test_a_heartbeat_out_of_its_bounds_is_bad_usage(ms: str) -> None:
    result = CliRunner().invoke(openclust, ["up", "--heartbeat-ms", ms], prog_name="openclust")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1) and "--heartbeat-ms" in result.stderr


def test_every_broker_traces_to_a_file_of_its_own(tmp_path: Path) -> None:
    cluster = msgspec.structs.replace(cluster_in(tmp_path), trace=tmp_path / "traces")
    files = [command[command.index("--trace") + 1] for command in map(cluster.command, cluster.brokers)]
    assert files == [str(tmp_path / "traces" / f"{name}.jsonl") for name in ("p1", "p2", "s1")]
    assert all("--trace" not in cluster_in(tmp_path).command(each) for each in cluster.brokers)


def test_every_primary_has_a_folder_of_its_own(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    cluster.write()
    folders = {each.name: tmp_path / each.name for each in cluster.primaries}
    assert all(folder.is_dir() for folder in folders.values())
    for each in cluster.primaries:
        assert f"cluster.data_dir={folders[each.name]}" in cluster.command(each)


def test_a_secondary_joins_all_primaries_and_needs_no_file(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    command = cluster.command(cluster.secondaries[0])
    assert "--config" not in command
    result = CliRunner().invoke(openclust, [*command[command.index("start") :], "--check-config"])
    assert result.exit_code == 0, result.stderr
    assert "secondary of 127.0.0.1:2, 127.0.0.1:5, accepts peers on 127.0.0.1:8" in result.stdout
    assert "broker       s1 of cluster K\n" in result.stdout
    assert "AMQP         127.0.0.1:7\n" in result.stdout
    assert "http://127.0.0.1:9" in result.stdout


def test_primaries_come_before_secondaries(tmp_path: Path) -> None:
    cluster = plan_cluster("K", tmp_path, 2, 2)
    assert [each.name for each in cluster.primaries] == ["p1", "p2"]
    assert [each.name for each in cluster.secondaries] == ["s1", "s2"]
    assert cluster.brokers == cluster.primaries + cluster.secondaries


def test_a_broker_is_settled_in_the_place_it_was_started_for(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    primary, secondary = cluster.primaries[0], cluster.secondaries[0]
    assert is_settled(cluster, primary, view_of("backup", "p2")) and is_settled(cluster, primary, view_of("root", "p1"))
    assert is_settled(cluster, secondary, view_of("secondary", "p1"))
    assert not is_settled(cluster, primary, view_of("secondary", "p2"))
    assert not is_settled(cluster, secondary, view_of("root", "s1"))
    assert not is_settled(cluster, secondary, view_of("secondary", None)), "it waits for a root"
    assert not is_settled(cluster, secondary, None)


def view_of(role: str, root: str | None) -> ClusterView:
    return msgspec.convert(seen_by_root() | {"role": role, "root": root}, ClusterView)


def test_what_would_be_the_same_for_all_is_kept_from_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENCLUST_LISTEN_PORT", "5672")
    monkeypatch.setenv("OPENCLUST_NAME", "x")
    monkeypatch.setenv("OPENCLUST_LOG_FORMAT", "json")
    given = cluster_in(tmp_path).environment()
    assert "OPENCLUST_LISTEN_PORT" not in given and "OPENCLUST_NAME" not in given
    assert (given["OPENCLUST_LOG_FORMAT"], given["PATH"]) == ("json", os.environ["PATH"])


@pytest.mark.sockets
def test_free_ports_all_differ_and_no_connection_is_given_them() -> None:
    brokers = plan_cluster("K", Path(), 9, 5).brokers
    ports = [port for each in brokers for port in (each.client_port, each.peer_port, each.http_port)]
    assert len(set(ports)) == 42
    assert all(port in FREE_PORTS for port in ports)


@pytest.mark.sockets
def test_a_port_that_is_taken_is_named_with_the_way_out() -> None:
    port = plan_cluster("K", Path(), 1).primaries[0].client_port
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        result = CliRunner().invoke(openclust, ["up", "--base-port", str(port)])
    assert result.exit_code == 2
    assert f"127.0.0.1:{port} for p1 cannot be had: Address already in use; choose another" in result.stderr


@pytest.mark.sockets
def test_secondaries_follow_the_primaries_from_the_base_port() -> None:
    base = next(port for port in range(20_000, 30_000, 20) if can_have(port))
    brokers = plan_cluster("K", Path(), 3, 2, base_port=base).brokers
    assert [each.client_port - base for each in brokers] == [0, 1, 2, 3, 4]
    assert [each.peer_port - base for each in brokers] == [10, 11, 12, 13, 14]
    assert [each.http_port - base for each in brokers] == [10_000, 10_001, 10_002, 10_003, 10_004]


def can_have(base: int) -> bool:
    try:
        return bool(plan_cluster("K", Path(), 3, 2, base_port=base))
    except click.ClickException:
        return False


def test_clients_do_not_come_to_peer_ports() -> None:
    result = CliRunner().invoke(openclust, ["up", "--primaries", "3", "--secondaries", "8", "--base-port", "20000"])
    assert result.exit_code == 2
    assert "--base-port has room for 10 brokers" in result.stderr


def test_a_cluster_has_a_bound() -> None:
    assert CliRunner().invoke(openclust, ["up", "--primaries", "10"]).exit_code == 2
    assert CliRunner().invoke(openclust, ["up", "--primaries", "0"]).exit_code == 2
    assert CliRunner().invoke(openclust, ["up", "--secondaries", "51"]).exit_code == 2


# -- what it runs


class RunningUp:
    """`openclust up` in a process of its own, with what it wrote so far."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.children: list[psutil.Process] = []

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def wait_for_table(self) -> None:
        eventually(lambda: "Ctrl-C ends them all." in self.out or self.process.poll() is not None, START_WAIT_S)
        assert "Ctrl-C ends them all." in self.out, self.err
        self.children = psutil.Process(self.process.pid).children()

    def broker(self, name: str) -> psutil.Process:
        return next(each for each in self.children if name in each.cmdline())


@contextlib.contextmanager
def running_up(folder: Path, *arguments: str) -> Iterator[RunningUp]:
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "openclust", "up", *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
    running = RunningUp(process, folder)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_WAIT_S)
        process.kill()
        process.wait()
        for each in running.children:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


@pytest.mark.sockets
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_shows_a_root_and_ends_all_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    with running_up(tmp_path, "--primaries", "3", "--dir", str(tmp_path / "data")) as up:
        up.wait_for_table()
        rows = re.findall(r"^(p\d) +(root|backup) +amqp://\S+ +http://\S+$", up.out, re.MULTILINE)
        assert [name for name, _ in rows] == ["p1", "p2", "p3"]
        assert sorted(role for _, role in rows) == ["backup", "backup", "root"]
        eventually(lambda: re.search(r"^p2 \| .*openclust is ready", up.err, re.MULTILINE))
        assert "\x1b" not in up.out + up.err, "no colours where there is no terminal"
        assert len(up.children) == 3
        up.process.send_signal(number)
        assert up.process.wait(END_WAIT_S) == 0
        assert not any(each.is_running() for each in up.children)
        assert "did not end within" not in up.err, "they were asked to, and had no need to be killed"
        assert "Traceback" not in up.err


@pytest.mark.sockets
@pytest.mark.parametrize("primaries", [1, 3])
def test_secondaries_are_in_the_cluster_when_the_table_is_shown(tmp_path: Path, primaries: int) -> None:
    arguments = ("--primaries", str(primaries), "--secondaries", "2", "--dir", str(tmp_path / "data"))
    with running_up(tmp_path, *arguments) as up:
        up.wait_for_table()
        assert re.search(r"^cluster local has a root after \d+\.\d s, all serve after \d+\.\d s$", up.out, re.MULTILINE)
        rows = re.findall(r"^(s\d) +(\w+) +amqp://127.0.0.1:\d+/ +http://\S+$", up.out, re.MULTILINE)
        assert rows == [("s1", "secondary"), ("s2", "secondary")]
        assert len(up.children) == primaries + 2
        assert asyncio.run(asyncio.wait_for(tried(up.out), END_WAIT_S)) == b"hi", "what it says to try"
        up.broker("s2").kill()
        eventually(lambda: "up | s2 was ended by SIGKILL; the others go on" in up.err)
        assert re.search(r"^up \|   .* start .*--name s2 --join .*$", up.err, re.MULTILINE), "how to start it again"


@pytest.mark.parametrize("is_on_path", [True, False])
def test_the_command_it_shows_can_be_pasted_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_on_path: bool
) -> None:
    program = tmp_path / ".venv" / "bin" / "openclust"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(program.parent if is_on_path else tmp_path))
    monkeypatch.setattr(sys, "argv", [str(program), "up"])
    cluster = cluster_in(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        show_cluster(cluster, {}, "has a root")
    typed = "openclust" if is_on_path else ".venv/bin/openclust"
    assert f"\n{typed} status --watch --url {cluster.brokers[0].http_url}\n" in out.getvalue()


async def tried(out: str) -> bytes:
    """What comes of the lines that a person is told to type."""
    first, last = re.findall(r'aio_pika\.connect\("(\S+)"\)', out)
    async with await aio_pika.connect(first) as one, await aio_pika.connect(last) as other:
        channel = await one.channel()
        await channel.declare_queue("hello")
        await channel.default_exchange.publish(aio_pika.Message(b"hi"), "hello")
        message = await (await (await other.channel()).get_queue("hello")).get(no_ack=True)
        assert message is not None
        return message.body


@pytest.mark.sockets
def test_it_tells_of_one_that_dies_and_goes_on(tmp_path: Path) -> None:
    with running_up(tmp_path, "--dir", str(tmp_path / "data")) as up:
        up.wait_for_table()
        up.broker("p3").kill()
        eventually(lambda: "up | p3 was ended by SIGKILL; the others go on" in up.err)
        again = re.search(r"^up \|   (.* start .*--name p3 .*)$", up.err, re.MULTILINE)
        assert again is not None, "how to start it again"
        assert up.process.poll() is None
        assert up.broker("p1").is_running() and up.broker("p2").is_running()


@pytest.mark.sockets
def test_it_ends_when_no_broker_is_left(tmp_path: Path) -> None:
    with running_up(tmp_path, "--primaries", "1", "--dir", str(tmp_path / "data")) as up:
        up.wait_for_table()
        up.broker("p1").kill()
        assert up.process.wait(END_WAIT_S) == 1
        assert up.err.endswith("openclust: error: no broker is left\n")


# -- what its brokers write


class WritingCluster(LocalCluster, frozen=True):
    """One "broker" that writes something, and ends."""

    code: str = ""

    def command(self, broker: LocalBroker) -> list[str]:
        return [sys.executable, "-c", self.code]


def said_by(code: str, folder: Path, stop_at: str | None = None) -> list[tuple[str, str]]:
    """All that is said until it has ended, by itself or because it was stopped after this line."""
    said: list[tuple[str, str]] = []

    async def run() -> None:
        stop = asyncio.Event()

        def say(name: str, line: str) -> None:
            said.append((name, line))
            if line == stop_at:
                stop.set()

        processes = LocalProcesses(WritingCluster("K", folder, (LocalBroker("p1", 1, 2, 3),), code=code), say)
        await processes.start()
        async with asyncio.timeout(END_WAIT_S):
            await (processes.wait_until_all_ended() if stop_at is None else stop.wait())
        await processes.stop()
        assert processes.running() == []

    asyncio.run(run())
    return said


@pytest.mark.sockets
def test_one_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_processes, "STOP_WAIT_S", 0.3)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(60)"
    said = said_by(code, tmp_path, stop_at="ready")
    assert said == [("p1", "ready"), ("up", "p1 did not end within 0.3 s of SIGTERM: killed")]


@pytest.mark.sockets
def test_lines_come_whole_and_steer_no_terminal(tmp_path: Path) -> None:
    code = "import sys; print('one'); print('tw\\x1b[2Jo', file=sys.stderr); print('three', end='')"
    said = said_by(f"import os; os.environ['PYTHONUNBUFFERED'] = '1'; {code}", tmp_path)
    assert sorted(line for line in said if line[0] != "up") == [("p1", "one"), ("p1", "three"), ("p1", "tw\\x1b[2Jo")]


@pytest.mark.sockets
def test_a_line_without_an_end_is_cut(tmp_path: Path) -> None:
    said = said_by(f"print('x' * {5 * LINE_BYTES_MAX}, end='')", tmp_path)
    assert sum(len(line) for name, line in said if name == "p1") == 5 * LINE_BYTES_MAX
    assert all(len(line) <= 2 * LINE_BYTES_MAX for _, line in said)
