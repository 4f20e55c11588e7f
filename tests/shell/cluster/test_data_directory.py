"""Whose data directory it is, and what must not be missing in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from openclust.cluster.protocol.status import Reign
from openclust.shell.cluster.cluster_uuid_file import ClusterUuidFile
from openclust.shell.cluster.last_primaries import look_at_primaries
from openclust.shell.cluster.votes import Votes
from openclust.shell.config.load import Given, load
from openclust.shell.config.schema import Config, ConfigError
from openclust.shell.store_driver import new_store

THREE = ("p1", "p2", "p3")


def config(folder: Path, name: str, primaries: tuple[str, ...] = THREE, **cluster: Any) -> Config:
    keys: dict[str, Any] = {"cluster_key": "k", "name": name, "cluster.data_dir": str(folder)}
    keys |= {f"cluster.{key}": value for key, value in cluster.items()}
    if primaries:
        keys["cluster.primaries"] = {
            each: {"client": f"10.0.0.{each[1]}:1", "peer": f"10.0.0.{each[1]}:2"} for each in primaries
        }
    return load(None, environ={}, flags={key: Given(value, key) for key, value in keys.items()}).config


def run(given: Config, epoch: int = 3) -> None:
    """A broker opens its store, votes, and is stopped."""
    directory = given.cluster.data_dir
    assert directory is not None
    new_store(given).close()
    if given.cluster.primaries:
        look_at_primaries(directory, sorted(given.cluster.primaries))
    if epoch and not given.cluster.join:
        Votes(directory).save(Reign(epoch, "p1"))


def refusal(given: Config) -> str:
    with pytest.raises(ConfigError) as refused:
        new_store(given)
    return str(refused.value)


@pytest.mark.parametrize("primaries", [THREE, ()])
@pytest.mark.parametrize("lost", ["gone", "empty"])
def test_a_lost_store_beside_a_vote_is_refused_with_the_way_out(
    tmp_path: Path, lost: str, primaries: tuple[str, ...]
) -> None:
    given = config(tmp_path, "p1", primaries)
    run(given)
    (tmp_path / "store.sqlite").unlink()
    if lost == "empty":
        (tmp_path / "store.sqlite").touch()
    for _ in range(2):
        text = refusal(given)
        assert "store.sqlite is gone or empty, but vote.json holds a vote in epoch 3" in text
        assert (
            "put store.sqlite back from a copy, or in a cluster, while the other primaries run and have a root" in text
        )


def test_a_lost_store_of_a_broker_that_was_in_a_cluster_is_refused_without_a_vote_too(tmp_path: Path) -> None:
    given = config(tmp_path, "p1")
    run(given, epoch=0)
    ClusterUuidFile(str(tmp_path)).save("uuid")
    (tmp_path / "store.sqlite").unlink()
    assert "cluster-uuid says that this broker was in a cluster" in refusal(given)


def test_a_lost_vote_beside_a_store_of_one_that_has_voted_is_refused(tmp_path: Path) -> None:
    given = config(tmp_path, "p1")
    run(given)
    run(given)
    (tmp_path / "vote.json").unlink()
    assert "vote.json is gone, and without it this broker could vote twice" in refusal(given)


def test_who_never_voted_needs_no_vote(tmp_path: Path) -> None:
    given = config(tmp_path, "p1")
    run(given, epoch=0)
    run(given, epoch=0)


def test_a_primary_does_not_start_on_the_directory_of_another(tmp_path: Path) -> None:
    run(config(tmp_path, "p1"))
    text = refusal(config(tmp_path, "p2"))
    assert "is the directory of the primary 'p1', with its vote and its log, and this broker is 'p2'" in text
    assert "start it with --name p1, or give 'p2' a directory of its own" in text
    run(config(tmp_path, "p1"))


def test_nor_does_a_secondary(tmp_path: Path) -> None:
    run(config(tmp_path, "p1"))
    assert "primary 'p1'" in refusal(config(tmp_path, "s1", (), join=["127.0.0.1:2"]))


def test_a_primary_that_is_renamed_in_the_list_keeps_its_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(config(tmp_path, "p1"))
    run(config(tmp_path, "p4", ("p2", "p3", "p4")))
    assert "was the directory of the primary p1" in caplog.text


def test_a_broker_of_one_may_take_another_name_and_become_a_primary(tmp_path: Path) -> None:
    run(config(tmp_path, "host-5672", ()))
    run(config(tmp_path, "host-5673", ()))
    run(config(tmp_path, "p1"))
