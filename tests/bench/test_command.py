"""The command line, as far as it goes without a broker."""

from __future__ import annotations

import signal
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.cli.bench.bench import bench


def run(*args: str) -> Result:
    return CliRunner().invoke(bench, list(args))


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
    return port


def test_without_a_subcommand_it_is_the_table() -> None:
    result = run("--compare", "nonsense")
    assert result.exit_code == 2
    assert "write NAME=URL" in result.output


@pytest.mark.parametrize("args", [("fanout",), ("table",), ()])
def test_a_wrong_url_is_one_line_and_exit_code_2(args: tuple[str, ...]) -> None:
    result = run(*args, "--url", "http://h/")
    assert result.exit_code == 2
    assert result.output == "Error: 'http://h/' is not an AMQP URL; write amqp://user:password@host:port/vhost\n"


def test_an_unknown_row_lists_the_rows() -> None:
    result = run("--only", "p3p")
    assert result.exit_code == 2
    assert "no row 'p3p'" in result.output and "fanout-1000-single" in result.output


def test_starting_a_broker_and_naming_one_exclude_each_other() -> None:
    result = run("p2p", "--start", "--url", "amqp://h/")
    assert result.exit_code == 2
    assert "leave --url and --pid away" in result.output


def test_several_starts_are_for_brokers_that_the_bench_starts() -> None:
    result = run("p2p", "--starts", "2", "--url", "amqp://host.invalid/")
    assert result.exit_code == 2
    assert "give --start too" in result.output


def test_uneven_bindings_are_refused_before_anything_is_connected() -> None:
    result = run("topic", "--bindings", "10", "--keys", "3", "--url", "amqp://host.invalid/")
    assert result.exit_code == 2
    assert "multiple of --keys" in result.output


def test_a_plot_without_matplotlib_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run("p2p", "--plot", "x.png", "--url", "amqp://host.invalid/")
    assert result.exit_code == 2
    assert "pip install 'openclust[plot]'" in result.output


def test_a_checkout_without_an_openclust_is_named(tmp_path: Path) -> None:
    result = run("p2p", "--url", "amqp://host.invalid/", "--compare-checkout", str(tmp_path))
    assert result.exit_code == 2
    assert f"--compare-checkout {tmp_path}: there is no openclust" in result.output


def test_sigterm_ends_it_in_order_and_is_the_process_s_own_again_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("openclust.cli.bench.bench.parse_url", lambda _: signal.raise_signal(signal.SIGTERM))
    assert run("p2p").exit_code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.sockets
def test_a_broker_that_is_not_there_is_one_line_with_a_way_out() -> None:
    port = closed_port()
    result = run("p2p", "--url", f"amqp://127.0.0.1:{port}/")
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert f"cannot connect to 127.0.0.1:{port}: connection refused" in result.output
    assert "openclust start" in result.output
