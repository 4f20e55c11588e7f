"""`openclust context`: clusters by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(openclust, ["context", *arguments], prog_name="openclust")


def test_clusters_are_added_used_listed_and_removed(home: Path) -> None:
    path = home / "openclust" / "contexts.toml"
    assert run("add", "test", "--url", "http://t1").output == f"Added test in {path}, in use now.\n"
    added = run("add", "prod", "--url", "https://ops@p1", "--url", "https://ops@p2", "--password-file", "/run/secret")
    assert added.output == f"Added prod in {path}; openclust context use prod uses it.\n"
    assert run("use", "prod").output == "Commands talk to prod.\n"
    assert run("list").output.splitlines() == [
        "   name  urls                                       password file",
        "*  prod  https://ops@p1:15672 https://ops@p2:15672  /run/secret",
        "   test  http://t1:15672                            -",
    ]
    (prod, test) = json.loads(run("list", "--json").output)
    assert (prod["name"], prod["is_current"], prod["urls"][1]) == ("prod", True, "https://ops@p2:15672")
    assert test["is_current"] is False
    assert run("remove", "prod").output == f"Removed prod from {path}; no context is in use.\n"
    assert [each["name"] for each in json.loads(run("list", "--json").output)] == ["test"]


@pytest.mark.parametrize("command", ["use", "remove"])
def test_an_unknown_one_is_told_with_those_there_are(command: str) -> None:
    run("add", "test", "--url", "http://t1")
    result = run(command, "prd")
    assert result.exit_code == 2
    assert "has no context 'prd'; there are test" in result.stderr


def test_a_list_shows_no_password_of_a_file_that_holds_one(home: Path) -> None:
    path = home / "openclust" / "contexts.toml"
    path.parent.mkdir()
    path.touch(0o600)
    path.write_text("[contexts.a]\nurls = ['http://anna:secret@h']\n")
    for arguments in (["list"], ["list", "--json"]):
        assert "http://anna@h:15672" in run(*arguments).output
        assert "secret" not in run(*arguments).output


@pytest.mark.parametrize("url", ["amqp://h", "http://anna:secret@h"])
def test_a_wrong_url_is_not_kept(home: Path, url: str) -> None:
    assert run("add", "test", "--url", url).exit_code == 2
    assert not (home / "openclust").exists()
