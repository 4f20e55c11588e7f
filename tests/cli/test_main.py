"""The command line as a whole: what is imported when, and how mistakes are told."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner, Result

from openclust import __version__
from openclust.cli import main
from openclust.shell.config.schema import ConfigError


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main.openclust, list(arguments), prog_name="openclust")


def run_command_that(monkeypatch: pytest.MonkeyPatch, outcome: object) -> Result:
    """Run a command that raises or returns `outcome`."""

    @click.command()
    def command() -> object:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(main.CommandLine, "get_command", lambda *_: command)
    return run("start")


def test_version_and_help_say_what_there_is() -> None:
    assert run("--version").output == f"openclust {__version__}\n"
    text = run("--help").output
    for name in main.COMMANDS:
        assert f"\n  {name}" in text


def test_no_command_is_bad_usage_with_the_help() -> None:
    result = run()
    assert result.exit_code == 2
    assert "Commands:" in result.stderr
    assert "error" not in result.stderr
    result = run("users")
    assert result.exit_code == 2
    assert result.stderr.startswith("Usage: openclust users")


@pytest.mark.parametrize("arguments", ["['--help']", "['--version']", "['strat']"])
def test_help_imports_no_command_and_no_large_library(arguments: str) -> None:
    # in an interpreter of its own, since the other tests import everything
    code = f"""
import sys
from openclust.cli.main import openclust
try:
    openclust.main({arguments}, prog_name="openclust")
except SystemExit:
    pass
large = {{"aiohttp", "aio_pika", "aiormq", "networkx", "pyspark", "pandas", "matplotlib", "rich", "asyncio", "ssl"}}
loaded = set(sys.modules)
print("LOADED", sorted((large & loaded) | {{m for m in loaded if m.startswith("openclust.cli.")}}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "LOADED ['openclust.cli.exit_codes', 'openclust.cli.main']" in done.stdout


def test_python_m_openclust_is_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "openclust", "strat"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == "openclust: error: no such command 'strat'; did you mean 'start'? (see: openclust --help)\n"


def test_an_unknown_command_without_a_near_one_lists_all() -> None:
    assert f"there are {', '.join(main.COMMANDS)}" in run("xyzzy").stderr


def test_an_unknown_option_suggests_the_nearest() -> None:
    result = run("start", "--prot", "5")
    assert result.exit_code == 2
    assert result.stderr.startswith("openclust: error: no such option '--prot'")
    assert "--port" in result.stderr


@pytest.mark.parametrize(("outcome", "code"), [(None, 0), (0, 0), (1, 1), (2, 2), (SystemExit(1), 1)])
def test_a_command_says_its_exit_code(monkeypatch: pytest.MonkeyPatch, outcome: object, code: int) -> None:
    result = run_command_that(monkeypatch, outcome)
    assert (result.exit_code, result.output) == (code, "")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConfigError("first", "second"), "openclust: error: first\nopenclust: error: second\n"),
        (click.ClickException("No such thing."), "openclust: error: no such thing\n"),
        (FileNotFoundError(2, "No such file", "/x"), "openclust: error: /x: No such file\n"),
        (OSError("odd"), "openclust: error: odd\n"),
    ],
)
def test_an_error_is_a_line_and_exit_code_2(monkeypatch: pytest.MonkeyPatch, error: Exception, said: str) -> None:
    result = run_command_that(monkeypatch, error)
    assert (result.exit_code, result.stderr) == (2, said)


def test_our_own_mistake_is_a_line_that_says_where_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_command_that(monkeypatch, KeyError("x"))
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "please report it: KeyError: 'x' (" in result.stderr
    assert "test_main.py" in result.stderr


def test_ctrl_c_ends_with_130_and_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_command_that(monkeypatch, KeyboardInterrupt())
    assert result.exit_code == 130
    assert result.stderr.strip() == ""


def test_input_that_ends_too_early_is_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run_command_that(monkeypatch, EOFError())
    assert result.exit_code == 2
    assert "the input ended" in result.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_goes_away_leaves_no_message(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    code = """
import click
from openclust.cli import main
main.CommandLine.get_command = lambda *_: click.Command("start", callback=lambda: print("hello"))
main.openclust.main(["start"])
"""
    command = [sys.executable, "-c", code]
    environ = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, env=environ)
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode in (0, 1)


def test_a_command_whose_library_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.COMMANDS, "gone", ("openclust.cli.gone:gone", ""))
    assert "this version has no command 'gone'" in run("gone").stderr
    monkeypatch.setitem(sys.modules, "openclust.cli.broker.start", None)
    monkeypatch.setattr("importlib.import_module", raise_missing)
    assert "needs the Python package 'rich'" in run("start").stderr


def raise_missing(_: str) -> None:
    raise ModuleNotFoundError("No module named 'rich'", name="rich")
