"""Three real processes: one root, another when it dies, none without a quorum."""

from __future__ import annotations

import os
import signal
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import RunningCluster, run_command, running_cluster

pytestmark = pytest.mark.sockets

NEW_ROOT_WITHIN_S = 1.5
NEW_ROOT_AT_WORST_S = 10.0
"""Where the machine itself stood still for a moment."""
KILLS = int(os.environ.get("OPENCLUST_TEST_KILLS", "3"))
STOPPED_S = 2.0
WATCHED_S = 1.5


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    with running_cluster(tmp_path) as running:
        yield running


def time_kills(cluster: RunningCluster, kills: int) -> list[float]:
    """Kill the root so many times, and start it again: the seconds until another says that it is root."""
    times = []
    for _ in range(kills):
        root = cluster.wait_until_settled()
        epoch = cluster.epoch()
        others = cluster.others(root)
        began = time.monotonic()
        root.kill()
        new, took_s = cluster.wait_for_root_among(others, began, NEW_ROOT_AT_WORST_S)
        times.append(took_s)
        seen = new.ask()
        assert seen is not None and seen["epoch"] > epoch
        root.start()
        cluster.wait_until_settled()
        assert cluster.roots() == [new.name], "who comes back takes nothing from a sitting root"
    return times


def report(times: list[float]) -> str:
    ms = sorted(round(each * 1_000) for each in times)
    return f"{len(ms)} kills of the root: another after {statistics.median(ms):.0f} ms (median), {ms[-1]} ms (worst)"


def test_three_processes_elect_one_root_and_agree_on_it(cluster: RunningCluster) -> None:
    root = cluster.root()
    views = [seen for each in cluster.primaries.values() if (seen := each.ask())]
    assert {view["root"] for view in views} == {root.name}
    assert len({view["epoch"] for view in views}) == 1
    assert sorted(view["role"] for view in views) == ["backup", "backup", "root"]
    for view in views:
        assert view["votes"] == {"given": 3, "following": 3, "electorate": 3, "defined": 3}
        assert sorted((each["name"], each["role"], each["online"]) for each in view["brokers"]) == sorted(
            (name, "root" if name == root.name else "backup", True) for name in cluster.primaries
        )


def test_another_serves_soon_after_the_root_is_killed(
    cluster: RunningCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    times = time_kills(cluster, KILLS)
    with capsys.disabled():
        print(f"\n{report(times)}")
    assert statistics.median(times) < NEW_ROOT_WITHIN_S, report(times)


def test_a_root_that_was_stopped_for_a_while_comes_back_as_a_backup(cluster: RunningCluster) -> None:
    old = cluster.root()
    began = time.monotonic()
    old.send(signal.SIGSTOP)
    new, _ = cluster.wait_for_root_among(cluster.others(old), began, STOPPED_S)
    time.sleep(max(0.0, began + STOPPED_S - time.monotonic()))
    assert old.question(), "it waits for it to go on"
    old.send(signal.SIGCONT)
    first = old.answer()
    assert first is not None and first["role"] != "root", "it looks at the clock before it says what it was"
    end = time.monotonic() + WATCHED_S
    while time.monotonic() < end:
        assert cluster.roots() == [new.name], cluster.logs()
    assert cluster.wait_until_settled() is new
    seen = old.ask()
    assert seen is not None and seen["role"] == "backup"


def test_a_backup_that_was_stopped_for_a_while_changes_nothing(cluster: RunningCluster) -> None:
    root, epoch = cluster.root(), cluster.epoch()
    backup = cluster.others(root)[0]
    backup.send(signal.SIGSTOP)
    end = time.monotonic() + STOPPED_S
    while time.monotonic() < end:
        seen = root.ask()
        assert seen is not None and seen["role"] == "root"
    backup.send(signal.SIGCONT)
    assert cluster.wait_until_settled() is root
    assert cluster.epoch() == epoch


def test_epochs_go_on_where_they_were_when_all_were_killed(cluster: RunningCluster) -> None:
    epoch = cluster.epoch()
    for each in cluster.primaries.values():
        each.kill()
    for each in cluster.primaries.values():
        each.start()
    cluster.wait_until_settled()
    assert cluster.epoch() > epoch, "votes are on disk: no epoch is held twice"


def test_without_a_quorum_there_is_no_root_and_it_says_who_is_missing(cluster: RunningCluster) -> None:
    first = cluster.root()
    last = cluster.others(first)[0]
    killed = cluster.others(last)
    for each in killed:
        each.kill()
    eventually(lambda: (seen := last.ask()) is not None and seen["root"] is None)
    eventually(lambda: all(_is_offline_reason(last.ask(), each.name) for each in killed))
    done = run_command("why-no-root", "--url", last.place.http_url)
    assert done.returncode == 1
    assert all(f"{each.name} is offline" in done.stdout.splitlines() for each in killed), done.stdout
    killed[0].start()
    cluster.wait_until_settled()
    assert run_command("why-no-root", "--url", last.place.http_url).returncode == 0


def _is_offline_reason(seen: dict[str, object] | None, name: str) -> bool:
    reasons = seen["why_no_root"] if seen else []
    return isinstance(reasons, list) and {"peer": name, "reason": "is offline"} in reasons


def test_a_root_that_steps_down_is_followed_by_another(cluster: RunningCluster) -> None:
    old = cluster.root()
    epoch = cluster.epoch()
    done = run_command("step-down", "--url", old.place.http_url, "--reason", "a test")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    new = cluster.wait_until_settled()
    assert new is not old
    assert cluster.epoch() > epoch
    done = run_command("step-down", "--url", old.place.http_url)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{old.name} is not the root, {new.name} is (http://127.0.0.1:")


def test_status_shows_the_cluster_from_any_broker(cluster: RunningCluster) -> None:
    root, epoch = cluster.root(), cluster.epoch()
    for each in cluster.primaries.values():
        text = run_command("status", "--url", each.place.http_url).stdout
        assert f"root {root.name} since epoch {epoch}, log up to {epoch}." in text
        assert "followed by 3 of 3 primaries (3 voted for it)" in text
