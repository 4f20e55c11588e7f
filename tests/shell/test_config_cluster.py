"""The `[cluster]` section."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclust.shell.config import Config, ConfigError
from openclust.shell.config_cluster import split_address
from openclust.shell.config_file import load

TEXT = """
cluster_key = "k"
[cluster]
{extra}
[cluster.primaries.p1]
client = "127.0.0.1:5001"
peer = "127.0.0.1:5101"
[cluster.primaries.p2]
client = "127.0.0.1:5002"
peer = "127.0.0.1:5102"
http = "127.0.0.1:5202"
"""


def loaded(tmp_path: Path, name: str = "p1", extra: str = "", text: str = TEXT) -> Config:
    file = tmp_path / "cluster.toml"
    file.write_text(text.format(extra=extra))
    return load(file, environ={"OPENCLUST_NAME": name}).config


def test_a_primary_listens_where_its_entry_says(tmp_path: Path) -> None:
    config = loaded(tmp_path, "p2")
    assert (config.listen.host, config.listen.port) == ("127.0.0.1", 5002)
    assert (config.http.enabled, config.http.port) == (True, 5202)
    assert not loaded(tmp_path, "p1").http.enabled, "its entry has no address for it"


def test_a_name_that_is_not_on_the_list_is_refused_with_the_list(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'p9': not among cluster.primaries \(p1, p2\); choose with --name"):
        loaded(tmp_path, "p9")


@pytest.mark.parametrize("wrong", ["127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:x", ":5"])
def test_an_address_without_host_or_port_is_named(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster.primaries.p1.peer = .*wanted HOST:PORT"):
        loaded(tmp_path, text=TEXT.replace("127.0.0.1:5101", wrong))


def test_two_listeners_with_one_address_are_found_before_they_clash(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"p2.peer = '127.0.0.1:5001': cluster.primaries.p1.client has this"):
        loaded(tmp_path, text=TEXT.replace("127.0.0.1:5102", "127.0.0.1:5001"))


def test_an_unknown_key_of_a_primary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cluster"):
        loaded(tmp_path, text=TEXT + 'pear = "127.0.0.1:1"\n')


def test_a_secret_comes_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("long and random\n")
    assert loaded(tmp_path, extra='secret_file = "secret"').cluster.secret == "long and random"


def test_a_secret_file_that_is_empty_or_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"secret_file = .*No such file"):
        loaded(tmp_path, extra='secret_file = "secret"')
    (tmp_path / "secret").write_text("\n")
    with pytest.raises(ConfigError, match="is empty"):
        loaded(tmp_path, extra='secret_file = "secret"')


def test_a_secret_twice_is_once_too_often(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with pytest.raises(ConfigError, match="given too"):
        loaded(tmp_path, extra='secret_file = "secret"\nsecret = "y"')


def test_an_ipv6_host_stands_in_brackets() -> None:
    assert split_address("[::1]:5672") == ("::1", 5672)
