"""`openclust definitions`: out of a running broker, into one, and checked without one."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.clients.broker_process import free_port
from tests.support.manage.running_api import RunningApi, running_api
from tests.support.paths import RABBITMQ_DEFINITIONS

RABBIT = str(RABBITMQ_DEFINITIONS)


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(openclust, ["definitions", *arguments], prog_name="openclust", input=stdin)


@pytest.fixture
def api() -> Iterator[RunningApi]:
    with running_api() as running:
        yield running


@pytest.fixture
def wrong(tmp_path: Path) -> str:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps({"queues": [{"name": "q\x1b", "vhost": "/", "durable": 1}]}))
    return str(path)


# -- without a broker


def test_a_right_file_is_told_with_what_is_ignored_in_it(tmp_path: Path) -> None:
    result = run("check", RABBIT)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{RABBIT} is right: an empty broker would make 26 changes.\n"
    path = tmp_path / "shovel.json"
    shovel = {"component": "shovel", "name": "s", "vhost": "/", "value": {}}
    path.write_text(json.dumps({"parameters": [shovel]}))
    result = run("check", str(path))
    assert result.exit_code == 0
    assert result.stderr == (
        "ignored: parameters[0] 's' in vhost '/': parameters of the component 'shovel' are not supported\n"
    )


def test_a_wrong_file_is_exit_code_1_and_a_line_a_problem(wrong: str) -> None:
    result = run("check", wrong)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "problem: queues[0] 'q?' in vhost '/': expected `bool`, got `int` - at `$.durable`\n"


def test_problems_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "many.json"
    path.write_text(json.dumps({"queues": [{}] * 80}))
    lines = run("check", str(path)).stderr.splitlines()
    assert [len(lines), lines[-1]] == [51, "problem: 30 more"]


@pytest.mark.parametrize("command", ["check", "import"])
def test_what_is_no_json_is_wrong_input(tmp_path: Path, command: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text("{")
    result = run(command, str(path))
    assert result.exit_code == 2
    assert f"error: {path}: line 1, column 2" in result.stderr
    result = run(command, str(tmp_path / "none"))
    assert result.exit_code == 2
    assert result.stderr == f"openclust: error: {tmp_path / 'none'}: No such file or directory\n"


@pytest.mark.parametrize("url", ["amqp://localhost", "localhost:15672", "http://:1", "http://x:y:z", "http://x:99999"])
def test_a_wrong_url_is_a_usage_error(url: str) -> None:
    result = run("export", "--url", url)
    assert result.exit_code == 2
    assert "--url wants http://USER@HOST:PORT" in result.stderr


# -- with one


@pytest.mark.sockets
def test_no_broker_is_told_with_its_url_and_the_way_out_but_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("OPENCLUST_PASSWORD", "topsecret")
    result = run("export", "--url", f"http://anna@127.0.0.1:{port}")
    assert result.exit_code == 2
    assert f"no answer from the HTTP API at http://127.0.0.1:{port}: Connection refused" in result.stderr
    assert "--http-port" in result.stderr
    assert "topsecret" not in result.stderr


@pytest.mark.sockets
def test_an_import_and_an_export_go_round(api: RunningApi, tmp_path: Path) -> None:
    result = run("import", RABBIT, "--url", api.url)
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Imported {RABBIT}: 25 changes, 1 things were there already.\n"
    file = tmp_path / "out.json"
    result = run("export", str(file), "--url", api.url)
    assert result.exit_code == 0
    assert result.stdout == (f"Wrote 3 users, 2 vhosts, 1 policies, 2 exchanges, 3 queues and 4 bindings to {file}.\n")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == api.get("/api/definitions")
    assert run("import", str(file), "--url", api.url).stdout.startswith(f"Imported {file}: 0 changes")


@pytest.mark.sockets
def test_an_export_goes_to_standard_output(api: RunningApi) -> None:
    result = run("export", "--url", api.url)
    assert json.loads(result.stdout) == api.get("/api/definitions")


@pytest.mark.sockets
def test_a_file_can_come_from_standard_input(api: RunningApi) -> None:
    queue = {"name": "q", "vhost": "/", "durable": True}
    result = run("import", "-", "--url", api.url, stdin=json.dumps({"queues": [queue]}))
    assert result.exit_code == 0
    assert [row["name"] for row in api.get("/api/queues")] == ["q"]


@pytest.mark.sockets
def test_a_refused_import_is_exit_code_1_with_its_problems(api: RunningApi, wrong: str) -> None:
    result = run("import", wrong, "--url", api.url)
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "problem: queues[0] 'q?' in vhost '/': expected `bool`, got `int` - at `$.durable`",
        "Nothing was changed.",
    ]


@pytest.mark.sockets
def test_an_import_that_skips_problems_names_what_it_leaves_out_and_is_exit_code_1(
    api: RunningApi, tmp_path: Path
) -> None:
    path = tmp_path / "in_part.json"
    path.write_text(json.dumps({"queues": [{"name": "q", "vhost": "/"}, {"name": "x", "vhost": "none"}]}))
    result = run("import", str(path), "--url", api.url, "--skip-problems")
    assert result.exit_code == 1
    assert result.stderr == (
        "left out: queues[1] 'x' in vhost 'none': no vhost 'none', neither in the document nor in the broker\n"
    )
    assert result.stdout == (f"Imported {path} but for what was left out: 1 changes, 0 things were there already.\n")
    assert [row["name"] for row in api.get("/api/queues")] == ["q"]
    path.write_text(json.dumps({"queues": [{"name": "q", "vhost": "/"}]}))
    assert run("import", str(path), "--url", api.url, "--skip-problems").exit_code == 0


@pytest.mark.sockets
def test_a_wrong_login_is_told_with_the_way_out(api: RunningApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLUST_PASSWORD", "topsecret")
    result = run("export", "--url", api.url.replace("guest:guest", "guest"))
    assert result.exit_code == 2
    assert "wrong user name or password; give a user in --url" in result.stderr
    assert "topsecret" not in result.stderr


@pytest.mark.sockets
def test_what_does_not_speak_http_is_told(api: RunningApi) -> None:
    amqp_port = api.on_loop(lambda server: server.listeners[0].address[1])
    result = run("export", "--url", f"http://127.0.0.1:{amqp_port}")
    assert result.exit_code == 2
    assert "does not speak HTTP" in result.stderr


@pytest.mark.sockets
def test_an_export_that_cannot_be_written_names_the_file(api: RunningApi, tmp_path: Path) -> None:
    result = run("export", str(tmp_path / "no" / "out.json"), "--url", api.url)
    assert result.exit_code == 2
    assert f"{tmp_path / 'no' / 'out.json'}: cannot be written: No such file or directory" in result.stderr
