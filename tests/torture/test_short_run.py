"""A torture run of seconds: that it runs, that nothing confirmed is lost in it, and that nothing is left of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.clients.deadline import eventually
from tests.support.cluster.cut_network import check_tools
from tests.torture.leftovers import clear_leftovers, disk_source

pytestmark = pytest.mark.sockets

SEED = 2578
"""In it a root steps down, and there are a ring, a kill, a cut and a full disk."""
SECONDS = 16
RUN_WAIT_S = 120.0
COMMAND = [sys.executable, "-m", "tests.torture"]


@pytest.fixture(autouse=True)
def tools() -> None:
    check_tools()


def namespaces(pid: int) -> list[str]:
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line.startswith(f"{disk_source(pid)}-")]


def disks(pid: int) -> list[str]:
    return [line for line in Path("/proc/mounts").read_text().splitlines() if line.startswith(f"{disk_source(pid)} ")]


def running_in(folder: Path) -> list[str]:
    """The processes that were told of this folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = each.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def test_nothing_confirmed_is_lost_in_some_seconds_of_torture(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = [*("--seconds", str(SECONDS), "--seed", str(SEED)), *("--drain-seconds", "10", "--folder", str(folder))]
    run = subprocess.Popen([*COMMAND, *options, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, err = run.communicate(timeout=RUN_WAIT_S)
    finally:
        run.kill()
    assert out, err
    told = json.loads(out)
    assert told["failures"] == [], f"{told['lost_where']}\n{err}"
    assert run.returncode == 0
    assert len(told["happened"]) >= 2
    assert told["totals"]["confirmed"] == told["totals"]["sent"] == told["totals"]["received"] > 1_000
    assert not namespaces(run.pid) and not disks(run.pid) and not running_in(folder)


def test_a_run_that_is_killed_leaves_no_process_and_the_next_one_removes_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = subprocess.Popen([*COMMAND, "--seconds", "60", "--folder", str(folder)], stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: len(running_in(folder)) > 5, within_s=20.0)
    finally:
        run.kill()
        run.wait()
    eventually(lambda: not running_in(folder), within_s=5.0)
    assert namespaces(run.pid) and disks(run.pid)
    cleared = clear_leftovers()
    assert any(disk_source(run.pid) in each for each in cleared)
    assert not namespaces(run.pid) and not disks(run.pid)


def test_a_run_that_is_interrupted_removes_all_it_made(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run = subprocess.Popen([*COMMAND, "--seconds", "60", "--folder", str(folder)], stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: len(running_in(folder)) > 5, within_s=20.0)
        began = time.monotonic()
        run.terminate()
        assert run.wait(20.0) == 130
    finally:
        run.kill()
        run.wait()
    assert time.monotonic() - began < 20.0
    assert not namespaces(run.pid) and not disks(run.pid) and not running_in(folder)
