"""`openclust users`: adding, listing, changing and removing users of a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.broker.model.access import Permission, User
from openclust.cli import term
from openclust.cli.main import openclust
from openclust.shell.users.passwords import matches
from openclust.shell.users.users_file import load_users, save_users

EVERYTHING = Permission(".*", ".*", ".*")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("OPENCLUST_CONFIG", raising=False)
    monkeypatch.delenv("OPENCLUST_AUTH_USERS_FILE", raising=False)
    monkeypatch.setattr("openclust.cli.broker.users.has_terminal", lambda: True)
    return str(tmp_path / "users.json")


def users(*arguments: str, typed: str | bytes | None = None) -> Result:
    return CliRunner().invoke(openclust, ["users", *arguments], input=typed, prog_name="openclust")


def added(path: str, name: str = "ann", *more: str) -> None:
    result = users("add", name, "--file", path, "--password-stdin", *more, typed="secret\n")
    assert result.exit_code == 0, result.output


def test_a_user_is_added_with_a_password_typed_twice(path: str) -> None:
    result = users("add", "ann", "--file", path, typed="secret\nsecret\n")
    assert result.exit_code == 0, result.output
    assert "secret" not in result.output
    ann = load_users(path)["ann"]
    assert matches(ann.password_hash, b"secret")
    assert ann.permissions == {"/": EVERYTHING}
    assert ann.type == "normal"


def test_a_password_typed_differently_is_asked_for_again(path: str) -> None:
    users("add", "ann", "--file", path, typed="one\ntwo\nsecret\nsecret\n")
    assert matches(load_users(path)["ann"].password_hash, b"secret")


def test_without_a_terminal_the_password_must_come_on_standard_input(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclust.cli.broker.users.has_terminal", lambda: False)
    result = users("add", "ann", "--file", path, typed="secret\nsecret\n")
    assert result.exit_code == 2
    assert "use --password-stdin" in result.stderr


def test_the_password_is_the_first_line_of_standard_input(path: str) -> None:
    users("add", "ann", "--file", path, "--password-stdin", typed=" pä ss \r\nmore\n".encode())
    assert matches(load_users(path)["ann"].password_hash, " pä ss ".encode())


@pytest.mark.parametrize(
    ("typed", "said"),
    [(b"", "empty"), (b"\n", "empty"), (b"x" * 1_025 + b"\n", "at most 1024 bytes"), (b"\xff\n", "not UTF-8")],
)
def test_a_password_that_cannot_be_is_refused(path: str, typed: bytes, said: str) -> None:
    result = users("add", "ann", "--file", path, "--password-stdin", typed=typed)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not Path(path).exists()


def test_there_is_no_argument_for_a_password(path: str) -> None:
    assert users("add", "ann", "--file", path, "--password", "secret").exit_code == 2
    assert users("add", "ann", "secret", "--file", path).exit_code == 2


def test_type_tags_and_permissions_are_set(path: str) -> None:
    added(path, "ann", "--type", "console", "--tag", "administrator", "--tag", "b", "--vhost", "v", "--write", "^a")
    ann = load_users(path)["ann"]
    assert (ann.type, ann.tags) == ("console", ("administrator", "b"))
    assert ann.permissions == {"v": Permission(".*", "^a", ".*")}


def test_a_user_may_have_no_password(path: str) -> None:
    assert users("add", "ann", "--file", path, "--no-password").exit_code == 0
    assert load_users(path)["ann"].password_hash == ""


def test_a_user_that_is_there_is_not_overwritten_nor_asked_for(path: str) -> None:
    added(path)
    result = users("add", "ann", "--file", path)
    assert result.exit_code == 2
    assert "has a user 'ann' already" in result.stderr


def test_a_user_that_somebody_else_adds_meanwhile_is_not_overwritten(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hash_slowly(_: str) -> str:
        save_users(path, {"ann": User(name="ann", type="cluster")})
        return ""

    monkeypatch.setattr("openclust.cli.broker.users.hash_password", hash_slowly)
    result = users("add", "ann", "--file", path, "--password-stdin", typed="secret\n")
    assert "has a user 'ann' already" in result.stderr
    assert load_users(path)["ann"].type == "cluster"


def test_a_pattern_that_is_none_is_refused_with_its_position(path: str) -> None:
    result = users("add", "ann", "--file", path, "--read", "ab(", "--password-stdin", typed="secret\n")
    assert result.exit_code == 2
    assert "the read pattern 'ab(' is no regular expression" in result.stderr
    assert "at position 2" in result.stderr
    assert not Path(path).exists()


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 256])
def test_a_name_that_cannot_be_is_refused(path: str, name: str) -> None:
    assert "a user's name has" in users("add", name, "--file", path, "--no-password").stderr


def test_the_list_shows_users_and_permissions_but_no_hashes(path: str) -> None:
    added(path, "bob", "--tag", "administrator")
    users("add", "ann", "--file", path, "--no-password")
    users("permit", "ann", "--file", path, "--none")
    result = users("list", "--file", path)
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["name", "type", "tags", "login", "vhost", "configure", "write", "read"],
        ["ann", "normal", "certificate", "-", "-", "-", "-"],
        ["bob", "normal", "administrator", "password", "/", ".*", ".*", ".*"],
    ]
    assert "scrypt" not in result.stdout


def test_the_list_is_json_for_programs(path: str) -> None:
    added(path)
    patterns = {"configure": ".*", "write": ".*", "read": ".*"}
    assert json.loads(users("list", "--file", path, "--json").stdout) == [
        {"name": "ann", "type": "normal", "tags": [], "login": "password", "permissions": {"/": patterns}}
    ]


def test_a_password_is_changed(path: str) -> None:
    added(path)
    assert users("passwd", "ann", "--file", path, "--password-stdin", typed="other\n").exit_code == 0
    ann = load_users(path)["ann"]
    assert matches(ann.password_hash, b"other")
    assert ann.permissions == {"/": EVERYTHING}


def test_a_user_is_removed(path: str) -> None:
    added(path)
    assert users("remove", "ann", "--file", path).exit_code == 0
    assert load_users(path) == {}


def test_patterns_not_given_stay_or_grant_nothing(path: str) -> None:
    added(path)
    assert users("permit", "ann", "--file", path, "--read", "^r").exit_code == 0
    assert users("permit", "ann", "--file", path, "--vhost", "v", "--read", "^r").exit_code == 0
    assert load_users(path)["ann"].permissions == {
        "/": Permission(".*", ".*", "^r"),
        "v": Permission("^$", "^$", "^r"),
    }


def test_permissions_are_taken_away(path: str) -> None:
    added(path)
    assert users("permit", "ann", "--file", path, "--none").exit_code == 0
    assert load_users(path)["ann"].permissions == {}
    assert "has no permissions" in users("permit", "ann", "--file", path, "--none").stderr


def test_permit_wants_patterns_or_none(path: str) -> None:
    added(path)
    assert users("permit", "ann", "--file", path).exit_code == 2
    assert users("permit", "ann", "--file", path, "--none", "--read", "x").exit_code == 2


@pytest.mark.parametrize("command", [["passwd"], ["remove"], ["permit", "--read", "x"]])
def test_an_unknown_user_is_an_error_with_the_nearest(path: str, command: list[str]) -> None:
    added(path, "annabel")
    result = users(command[0], "anabel", "--file", path, *command[1:], typed="secret\n")
    assert result.exit_code == 2
    assert result.stderr == f"openclust: error: {path} has no user 'anabel'; did you mean 'annabel'?\n"


def test_the_file_may_come_from_the_configuration(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "broker.toml"
    config.write_text('[auth]\nusers_file = "users.json"\n')
    assert users("add", "ann", "--config", str(config), "--no-password").exit_code == 0
    assert list(load_users(path)) == ["ann"]
    monkeypatch.setenv("OPENCLUST_CONFIG", str(config))
    assert "ann" in users("list").stdout
    monkeypatch.delenv("OPENCLUST_CONFIG")
    monkeypatch.setenv("OPENCLUST_AUTH_USERS_FILE", path)
    assert "ann" in users("list").stdout


def test_no_file_at_all_is_an_error_with_the_ways_to_give_one(path: str, tmp_path: Path) -> None:
    result = users("list")
    assert result.exit_code == 2
    assert "which users file? no --file FILE, --config FILE or OPENCLUST_CONFIG" in result.stderr
    config = tmp_path / "broker.toml"
    config.write_text("")
    assert f"{config} has no auth.users_file" in users("list", "--config", str(config)).stderr


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    result = users("add", "ann", "--file", str(tmp_path / "x" / "users.json"), "--no-password")
    assert result.exit_code == 2
    assert "its folder cannot be opened: No such file or directory" in result.stderr


def test_a_hash_is_printed(path: str) -> None:
    result = users("hash", "--password-stdin", typed="secret\n")
    assert matches(result.stdout.strip(), b"secret")


def test_a_table_shows_names_on_one_line_and_without_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for terminal in (False, True):
        monkeypatch.setattr("sys.stdout.isatty", lambda terminal=terminal: terminal)
        term.show_table(["name"], [["[red]a\x1b[31m\nb"]])
        assert "[red]a\\x1b[31m\\nb" in capsys.readouterr().out
