"""Files of definitions: read with clear errors, imported before a broker serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openclust.broker.model.access import Permission, User
from openclust.broker.model.limits import Limits
from openclust.broker.server.broker import Broker
from openclust.shell import definitions_file
from openclust.shell.config.schema import ConfigError
from openclust.shell.definitions_file import check_definitions, import_at_start, load_definitions_file
from openclust.shell.users.users_file import load_users, save_users
from tests.support.paths import RABBITMQ_DEFINITIONS

RABBIT = RABBITMQ_DEFINITIONS


@pytest.fixture
def broker() -> Broker:
    return Broker(Limits(), random_name=lambda: "random")


def write(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "definitions.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"queues": [}', "line 1, column 13: Expecting value"),
        ("", "line 1, column 1: Expecting value"),
        ("[]", "wanted a JSON object of definitions"),
        (b"\xff{}", "not JSON in UTF-8"),
        ("[" * 100_000, "not JSON in UTF-8"),
    ],
)
def test_a_file_that_is_no_document_is_told_with_its_place(tmp_path: Path, text: str | bytes, reason: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_definitions_file(path)
    assert caught.value.problems[0].startswith(f"{path}: {reason}")


def test_a_file_that_is_not_there_is_told_with_the_way_to_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such definitions file; .* openclust definitions export"):
        load_definitions_file(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_definitions_file(str(tmp_path))


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions_file, "FILE_BYTES_MAX", 10)
    with pytest.raises(ConfigError, match="at most 10 bytes"):
        load_definitions_file(write(tmp_path, '{"queues": []}'))


def test_a_broker_has_what_the_file_says(broker: Broker) -> None:
    import_at_start(broker, str(RABBIT), None)
    assert "orders" in broker.vhosts["sales"].queues


def test_imported_users_are_saved_beside_those_of_the_users_file(broker: Broker, tmp_path: Path) -> None:
    users_file = str(tmp_path / "users.json")
    save_users(users_file, {"olga": User(name="olga")})
    broker.replace_users(load_users(users_file).values())
    import_at_start(broker, str(RABBIT), users_file)
    saved = load_users(users_file)
    assert sorted(saved) == ["anna", "guest", "nopw", "olga"]
    assert saved["anna"].permissions == {"sales": Permission("^a", ".*", ".*")}


def test_a_second_start_writes_no_users(broker: Broker, tmp_path: Path) -> None:
    users_file = tmp_path / "users.json"
    import_at_start(broker, str(RABBIT), str(users_file))
    written = users_file.stat().st_mtime_ns, users_file.stat().st_ino
    other = Broker(Limits(), random_name=lambda: "random")
    other.replace_users(load_users(str(users_file)).values())
    import_at_start(other, str(RABBIT), str(users_file))
    assert (users_file.stat().st_mtime_ns, users_file.stat().st_ino) == written


def test_problems_stop_the_start_with_a_line_each(broker: Broker, tmp_path: Path) -> None:
    path = write(tmp_path, json.dumps({"queues": [{}, {"name": "a\nb", "vhost": "none"}]}))
    with pytest.raises(ConfigError) as caught:
        import_at_start(broker, path, None)
    first, second = caught.value.problems
    assert first == f"{path}: queues[0]: object missing required field `name`"
    assert second.startswith(f"{path}: queues[1] 'a?b' in vhost 'none': no vhost 'none'")


def test_what_is_ignored_is_logged_and_bounded(
    broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, json.dumps({"vhosts": [{"name": "/", "colour": "red"}] * 50}))
    with caplog.at_level("INFO", "openclust.definitions"):
        import_at_start(broker, path, None)
    assert len([record for record in caplog.records if "'colour' is unknown" in record.getMessage()]) == 20
    assert f"{path}: ignored: 30 more" in caplog.messages


def test_a_check_knows_the_users_that_will_be_there() -> None:
    document = {"permissions": [{"user": "anna", "vhost": "/", "configure": "", "write": "", "read": ""}]}
    assert len(check_definitions(document).problems) == 1
    user = User(name="anna", permissions={})
    assert check_definitions(document, [user]).problems == []
    assert user.permissions == {}
