"""`openclust start` up to the moment it would serve."""

from __future__ import annotations

import errno
import gc
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result

from openclust.cli.broker import start as start_module
from openclust.cli.broker.start import FLAGS, listen_problem
from openclust.cli.main import openclust
from openclust.shell.config.keys import KEYS
from openclust.shell.config.schema import Config, ListenSection
from tests.support.clients.broker_process import free_port
from tests.support.clients.certificates import Authority
from tests.support.clients.deadline import eventually


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS.values():
        monkeypatch.delenv(key.variable, raising=False)
    monkeypatch.delenv("OPENCLUST_CONFIG", raising=False)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """The configurations that brokers were run with."""
    configs: list[Config] = []

    def serve(config: Config) -> int:
        configs.append(config)
        return 0

    run_broker_as(monkeypatch, serve)
    return configs


def run_broker_as(monkeypatch: pytest.MonkeyPatch, serve: Callable[[Config], int]) -> None:
    module = ModuleType("openclust.shell.server")
    module.serve = lambda config, services: serve(config)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "openclust.shell.server", module)
    monkeypatch.setattr("openclust.shell.host.event_log.configure", lambda *_: None)


def start(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, ["start", *arguments], prog_name="openclust")


def test_the_collector_goes_on_when_all_is_loaded(served: list[Config]) -> None:
    assert start("--cluster-key", "k").exit_code == 0
    assert gc.isenabled()


def test_a_cluster_key_is_enough(served: list[Config]) -> None:
    result = start("--cluster-key", "k")
    assert result.exit_code == 0, result.output
    assert [config.cluster_key for config in served] == ["k"]


def test_no_cluster_key_is_an_error_with_the_ways_to_give_one(served: list[Config]) -> None:
    result = start()
    assert result.exit_code == 2
    assert result.stderr.startswith("openclust: error: no cluster key: give --cluster-key KEY")
    assert served == []


def test_every_flag_sets_its_key(served: list[Config], tmp_path: Path) -> None:
    for name in ("d", "u", "c", "k", "a"):
        (tmp_path / name).write_text('{"users": []}')
    flags = {
        "cluster_key": "k",
        "name": "n",
        "listen.host": "127.0.0.3",
        "listen.port": "1",
        "tls.host": "127.0.0.4",
        "tls.verify": "optional",
        "http.host": "127.0.0.5",
        "http.port": "3",
        "auth.users_file": str(tmp_path / "u"),
        "definitions.file": str(tmp_path / "d"),
        "log.level": "debug",
        "log.format": "json",
        "trace.file": str(tmp_path / "t"),
        "tls.ca": str(tmp_path / "a"),
        "cluster.join": "127.0.0.1:5682,127.0.0.1:5683",
        "cluster.data_dir": str(tmp_path / "data"),
    }
    needing_certificates = {"tls.port", "tls.cert", "tls.key"}
    assert set(flags) | needing_certificates == {key for _, key in FLAGS.values()}
    flag_of = {key: flag for flag, key in FLAGS.values()}
    result = start(*[text for key, value in flags.items() for text in (flag_of[key], value)])
    assert result.exit_code == 0, result.output
    for key, value in flags.items():
        section, _, name = key.rpartition(".")
        found = getattr(getattr(served[0], section) if section else served[0], name)
        assert (",".join(found) if isinstance(found, tuple) else str(found)) == value


def test_any_key_can_be_set(served: list[Config]) -> None:
    result = start("--cluster-key", "k", "--set", "limits.channel_max=9", "--set", "listen.backlog=5", "--no-http")
    assert result.exit_code == 0, result.output
    assert (served[0].limits.channel_max, served[0].listen.backlog, served[0].http.enabled) == (9, 5, False)


def test_a_key_given_by_flag_and_by_set_is_an_error(served: list[Config]) -> None:
    result = start("--cluster-key", "k", "--port", "1", "--set", "listen.port=2")
    assert result.stderr == "openclust: error: listen.port is given twice, with --port and with --set\n"
    result = start("--cluster-key", "k", "--no-http", "--set", "http.enabled=true")
    assert result.stderr == "openclust: error: http.enabled is given twice, with --no-http and with --set\n"


def test_a_wrong_flag_is_named(served: list[Config]) -> None:
    result = start("--cluster-key", "k", "--port", "many", "--log-level", "verbose")
    assert result.exit_code == 2
    assert "openclust: error: --port: listen.port = many: wanted a whole number\n" in result.stderr
    assert "--log-level: log.level = verbose: wanted one of" in result.stderr


def test_the_file_comes_from_the_flag_or_the_environment(
    served: list[Config], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f'cluster_key = "{name}"\n')
    monkeypatch.setenv("OPENCLUST_CONFIG", str(tmp_path / "one"))
    start()
    start("--config", str(tmp_path / "two"))
    assert [config.cluster_key for config in served] == ["one", "two"]


def test_check_config_says_what_would_run_and_runs_nothing(served: list[Config]) -> None:
    result = start("--cluster-key", "k", "--name", "b1", "--host", "::1", "--no-http", "--check-config")
    assert result.exit_code == 0, result.output
    assert "b1 of cluster k" in result.stdout
    assert "[::1]:5672" in result.stdout
    assert served == []


def tls_flags(folder: Path, days_left: float) -> list[str]:
    authority = Authority(folder)
    cert, key = authority.issue("localhost", server=True, days_left=days_left)
    return ["--cluster-key", "k", "--tls-port", "5671", "--tls-cert", str(cert), "--tls-key", str(key)]


def test_check_config_says_until_when_certificates_are_good(served: list[Config], tmp_path: Path) -> None:
    result = start(*tls_flags(tmp_path, 20.5), "--check-config")
    assert result.exit_code == 0
    assert "  certificate  tls.cert CN=localhost until " in result.output and "(in 20 days)" in result.output


def test_an_expired_certificate_is_an_error_of_the_check_and_none_of_the_start(
    served: list[Config], tmp_path: Path
) -> None:
    flags = tls_flags(tmp_path, -1)
    result = start(*flags, "--check-config")
    assert result.exit_code == 2
    assert "the certificate CN=localhost expired at " in result.stderr
    assert start(*flags).exit_code == 0
    assert len(served) == 1, "who comes without TLS is served all the same"


def test_the_certificate_of_links_is_checked_too(served: list[Config], tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("p1", server=True, days_left=-1)
    files = {"peer_cert": cert, "peer_key": key, "peer_ca": authority.ca}
    settings = [each for name, path in files.items() for each in ("--set", f"cluster.{name}={path}")]
    result = start("--cluster-key", "k", *settings, "--check-config")
    assert result.exit_code == 2
    assert f"cluster.peer_cert = '{cert}': the certificate CN=p1 expired at " in result.stderr


@pytest.mark.parametrize("check", [["--check-config"], []])
def test_files_are_read_before_anything_is_served(served: list[Config], tmp_path: Path, check: list[str]) -> None:
    for name in ("users", "definitions", "cert", "key"):
        (tmp_path / name).write_text("{\n")
    files = {name: str(tmp_path / name) for name in ("users", "definitions", "cert", "key")}
    result = start(
        *("--cluster-key", "k", "--users-file", files["users"], "--definitions", files["definitions"]),
        *("--tls-port", "5671", "--tls-cert", files["cert"], "--tls-key", files["key"], *check),
    )
    assert result.exit_code == 2
    certificate, users, definitions = result.stderr.splitlines()
    assert "no PEM certificate and key" in certificate
    assert f"{files['users']}: line 2, column 1" in users
    assert f"--definitions: definitions.file = {files['definitions']}: line 2, column 1" in definitions
    assert served == []


@pytest.mark.parametrize(("content", "said"), [(b"[]", "wanted a JSON object"), (b"\xff", "not JSON in UTF-8")])
def test_definitions_must_be_a_json_object(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "definitions.json"
    path.write_bytes(content)
    assert said in start("--cluster-key", "k", "--definitions", str(path), "--check-config").stderr
    path.write_text(json.dumps({"queues": []}))
    assert start("--cluster-key", "k", "--definitions", str(path), "--check-config").exit_code == 0


def test_the_exit_code_is_that_of_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    run_broker_as(monkeypatch, lambda _: 1)
    assert start("--cluster-key", "k").exit_code == 1


def test_a_port_in_use_is_one_line_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "error while attempting to bind on address ('127.0.0.1', 5672): address already in use"

    def fail(_: Config) -> int:
        raise OSError(errno.EADDRINUSE, text)

    run_broker_as(monkeypatch, fail)
    result = start("--cluster-key", "k")
    assert result.exit_code == 2
    assert result.stderr == (
        "openclust: error: cannot listen on 127.0.0.1:5672: another process has this port; "
        "stop it, or choose another with --port\n"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EADDRINUSE, "attempting to bind on address ('::1', 15672, 0, 0): x"), "with --http-port"),
        (
            OSError(errno.EADDRINUSE, "Address already in use"),
            "cannot listen on web:5672: another process",
        ),
        (OSError(errno.EADDRINUSE, "bind on address ('::', 9, 0, 0): x"), "with --port, --tls-port or --http-port"),
        (OSError(errno.EACCES, "bind on address ('127.0.0.1', 80): x"), "ports below 1024 need a privilege"),
        (OSError(errno.EADDRINUSE, "Address already in use", "[::1]:5672"), "cannot listen on [::1]:5672: another"),
        (OSError(errno.EADDRNOTAVAIL, "x"), "this machine has no such address"),
        (socket.gaierror(-2, "Name or service not known"), "cannot listen on 'web': Name or service not known"),
        (OSError(errno.ENOSPC, "No space left", "/x"), "cannot run the broker: No space left: /x"),
    ],
)
def test_why_a_listener_could_not_be_opened(error: OSError, said: str) -> None:
    assert said in listen_problem(error, Config(cluster_key="k", listen=ListenSection(host="web")))


LISTED = """
[cluster.primaries.p1]
client = "127.0.0.1:5001"
peer = "127.0.0.1:5101"
http = "127.0.0.1:5201"
[cluster.primaries.p2]
client = "127.0.0.1:5002"
peer = "127.0.0.1:5102"
"""


def listed(tmp_path: Path, *arguments: str, name: str = "p1", text: str = "") -> Result:
    """Start a primary of a list."""
    file = tmp_path / "cluster.toml"
    file.write_text(text + LISTED)
    return start("--cluster-key", "k", "--config", str(file), "--name", name, *arguments)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--port", "5673"),
            "--port: listen.port = 5673: is not for a listed primary: cluster.primaries.p1.client says ",
        ),
        (("--host", "127.0.0.2"), "--host: listen.host = 127.0.0.2: is not for a listed primary"),
        (("--set", "listen.port=5673"), "--set: listen.port = 5673: is not for a listed primary"),
        (("--http-port", "5673"), "cluster.primaries.p1.http says 127.0.0.1:5201; write it there"),
    ],
)
def test_an_address_that_a_listed_primary_does_not_go_by_is_refused_with_the_place_to_write_it(
    served: list[Config], tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    result = listed(tmp_path, *flags)
    assert (result.exit_code, served) == (2, []) and said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_an_http_port_for_a_primary_without_an_api_is_refused(served: list[Config], tmp_path: Path) -> None:
    result = listed(tmp_path, "--http-port", "5673", name="p2")
    assert result.exit_code == 2
    assert "it has no HTTP API without an address in cluster.primaries.p2.http; write it there" in result.stderr
    assert listed(tmp_path, "--http-port", "5673", "--no-http", name="p2").exit_code == 0


def test_an_address_that_says_the_same_as_the_list_is_no_contradiction(served: list[Config], tmp_path: Path) -> None:
    result = listed(tmp_path, "--port", "5001", "--host", "127.0.0.1", "--http-port", "5201")
    assert result.exit_code == 0, result.stderr
    assert listed(tmp_path, "--no-http").exit_code == 0 and not served[-1].http.enabled


def test_an_address_in_a_file_may_be_for_others_and_is_told(served: list[Config], tmp_path: Path) -> None:
    """The same file may serve secondaries, which listen there."""
    result = listed(tmp_path, "--check-config", text="[listen]\nport = 5673\n")
    assert result.exit_code == 0
    assert "cluster.toml line 2: listen.port = 5673: is not for a listed primary: cluster.primaries.p1" in result.stdout


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("127.0.0.1:5001", "write another into cluster.primaries.p1.client"),
        ("127.0.0.1:5101", "write another into cluster.primaries.p1.peer"),
        ("127.0.0.1:5201", "write another into cluster.primaries.p1.http"),
    ],
)
def test_a_port_that_a_listed_primary_cannot_have_is_changed_in_the_list(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str, key: str
) -> None:
    def fail(config: Config) -> int:
        raise OSError(errno.EADDRINUSE, "Address already in use", address)

    run_broker_as(monkeypatch, fail)
    result = listed(tmp_path)
    assert result.stderr.endswith(f"cannot listen on {address}: another process has this port; stop it, or {key}\n")


def test_a_port_for_peers_that_a_secondary_cannot_have_has_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(config: Config) -> int:
        raise OSError(errno.EADDRINUSE, "Address already in use", "127.0.0.1:5682")

    run_broker_as(monkeypatch, fail)
    result = start("--cluster-key", "k", "--join", "127.0.0.1:1", "--set", "cluster.peer_listen=127.0.0.1:5682")
    assert result.stderr.endswith("stop it, or choose another with --set cluster.peer_listen\n")


@pytest.mark.sockets
@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_broker_runs_without_stdin_stdout_or_stderr(tmp_path: Path, closed: str) -> None:
    port = free_port()
    command = f"exec {sys.executable} -m openclust start --cluster-key k --no-http --port {port} {closed}"
    clean = {key: value for key, value in os.environ.items() if not key.startswith("OPENCLUST_")}
    broker = subprocess.Popen(["sh", "-c", command], env=clean)
    try:
        eventually(lambda: answers(port) or broker.poll() is not None)
        assert broker.poll() is None
        broker.terminate()
        assert broker.wait(10) == 0
    finally:
        broker.kill()
        broker.wait()


def answers(port: int) -> bool:
    """Whether AMQP is spoken there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as sock:
            sock.sendall(b"AMQP\0\0\x09\x01")
            return sock.recv(1) == b"\x01"
    except OSError:
        return False


def test_the_log_is_configured_before_the_broker_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def serve(_: Config) -> int:
        calls.append("serve")
        return 0

    run_broker_as(monkeypatch, serve)
    monkeypatch.setattr("openclust.shell.host.event_log.configure", lambda *arguments: calls.append(arguments))
    start("--cluster-key", "k", "--log-level", "warning", "--log-format", "json")
    assert calls == [("warning", "json"), "serve"]


def test_flags_in_the_table_are_flags_of_the_command() -> None:
    options = {option for parameter in start_module.start.params for option in parameter.opts}
    assert {flag for flag, _ in FLAGS.values()} <= options
    assert {key for _, key in FLAGS.values()} <= set(KEYS)
