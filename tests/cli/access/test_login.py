"""Which brokers a command asks, and where the password comes from."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from openclust.cli.access import login
from openclust.cli.access.context_file import ClusterContext, ContextFile, save_contexts
from openclust.cli.access.login import client_for
from openclust.cli.http_client import HttpClient


@pytest.fixture(autouse=True)
def nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "has_terminal", lambda: False)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    path = tmp_path / "password"
    path.write_bytes(b"from the file\r\nsecond line\n")
    return str(path)


def client(
    *urls: str, context: str | None = None, file: str | None = None, environ: dict[str, str] | None = None
) -> HttpClient:
    return client_for(urls, context, file, None, environ={"XDG_CONFIG_HOME": "/nowhere"} | (environ or {}))


def test_without_anything_it_is_guest_on_this_machine() -> None:
    found = client(environ={"OPENCLUST_PASSWORD": "of another cluster"})
    assert (found.base, found.user, found.password) == ("http://127.0.0.1:15672", "guest", "guest")


def test_the_file_goes_before_the_environment(secret: str) -> None:
    environ = {"OPENCLUST_PASSWORD": "from the environment"}
    assert client("http://anna@h", environ=environ).password == "from the environment"
    assert client("http://anna@h", file=secret, environ=environ).password == "from the file"


def test_the_well_known_password_needs_no_telling() -> None:
    assert client("http://h").password == client("http://guest@h").password == "guest"
    assert client("http://guest:guest@h", environ={"OPENCLUST_PASSWORD": "x"}).password == "guest"


def test_a_person_is_asked_and_the_answer_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def prompt(text: str, **options: object) -> str:
        asked.append((text, options["hide_input"]))
        return "typed"

    monkeypatch.setattr(login, "has_terminal", lambda: True)
    monkeypatch.setattr(click, "prompt", prompt)
    assert client("http://anna@a", "http://anna@b").password == "typed"
    assert asked == [("Password for anna", True)]


def test_without_a_terminal_the_other_ways_are_named() -> None:
    with pytest.raises(click.UsageError, match=r"no password for anna.*--password-file or OPENCLUST_PASSWORD"):
        client("http://anna@h")


@pytest.mark.parametrize("url", ["http://anna:secret@h", "http://guest:secret@h"])
def test_a_password_among_the_arguments_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(click.UsageError, match="can read the arguments") as raised:
        client(url)
    assert "secret" not in raised.value.message


@pytest.mark.parametrize(
    ("data", "problem"), [(b"\nx", "no password"), (b"x" * 1_025, "at most 1024 bytes"), (b"\xff\xfe", "not UTF-8")]
)
def test_a_file_without_a_password_is_told(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "password"
    path.write_bytes(data)
    with pytest.raises(click.ClickException, match=problem):
        client("http://anna@h", file=str(path))


# -- contexts


@pytest.fixture
def home(tmp_path: Path, secret: str) -> dict[str, str]:
    file = ContextFile(
        current="test",
        contexts={
            "test": ClusterContext(urls=["http://t1", "http://t2"]),
            "prod": ClusterContext(urls=["https://ops@p1:1"], password_file=secret, ca_file="/ca.pem"),
            "own": ClusterContext(urls=["http://anna:in%20it@h"]),
        },
    )
    save_contexts(str(tmp_path / "openclust" / "contexts.toml"), file)
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def test_the_context_in_use_is_asked_and_another_by_its_name(home: dict[str, str]) -> None:
    assert client(environ=home).base == "http://t1:15672"
    found = client(context="prod", environ=home)
    assert (found.base, found.user, found.password) == ("https://p1:1", "ops", "from the file")
    assert client("http://other", environ=home).base == "http://other:15672"


def test_a_password_in_the_file_of_contexts_is_in_nobodys_arguments(home: dict[str, str]) -> None:
    assert client(context="own", environ=home).password == "in it"


def test_an_unknown_context_names_the_known_ones(home: dict[str, str]) -> None:
    with pytest.raises(click.UsageError, match="no context 'prd': there are own, prod, test"):
        client(context="prd", environ=home)
    with pytest.raises(click.UsageError, match="there are none"):
        client(context="prd")


def test_a_url_and_a_context_are_one_too_many(home: dict[str, str]) -> None:
    with pytest.raises(click.UsageError, match="exclude each other"):
        client("http://h", context="prod", environ=home)
