"""`openclust bench cluster`, with clusters of real processes and small numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from openclust.cli.bench.cluster_targets import cluster

ROOT = Path(__file__).parents[3]

SMALL = (
    *("--rounds", "1", "--seconds", "0.2", "--warm-up", "0.1"),
    *("--subscribers", "9", "--bindings", "300", "--crowd", "24", "--per-connection", "2", "--messages", "2"),
)


def test_an_unknown_row_lists_the_rows() -> None:
    result = CliRunner().invoke(cluster, ["--only", "fanin"])
    assert result.exit_code == 2
    assert "no row 'fanin'; there are start, fanout, fanout-secondary, shared, bindings, crowd" in result.output


@pytest.mark.sockets
def test_rows_are_measured_with_clusters_of_their_own() -> None:
    command = [
        sys.executable,
        "-m",
        "openclust",
        "bench",
        "cluster",
        "--only",
        "fanout-secondary,shared,bindings,crowd,root-killed",
    ]
    done = subprocess.run([*command, *SMALL, "--json"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    rows: dict[str, dict[str, Any]] = {row["key"]: row for row in json.loads(done.stdout)["rows"]}
    assert list(rows) == ["fanout-secondary", "shared", "bindings", "crowd", "root-killed"]
    for key, each in (("fanout-secondary", 9), ("shared", 1)):
        for side in ("cluster", "one_broker"):
            (found,) = rows[key]["figures"][side]["rounds"]
            assert found["deliveries"] == found["messages"] * each > 0
    assert rows["bindings"]["figures"]["bindings"] == 300
    assert rows["bindings"]["figures"]["effective_s"] >= rows["bindings"]["figures"]["root_s"] > 0
    crowd = rows["crowd"]
    assert (crowd["value"], crowd["figures"]["connections"], crowd["met"]) == (24, 12, False)
    bereaved = rows["root-killed"]["figures"]
    assert bereaved["subscribers"] == 24 and bereaved["elections"] >= 1 and bereaved["without_root_s"] > 0


@pytest.mark.sockets
def test_a_cluster_of_another_source_tree_is_measured_beside_ours() -> None:
    command = [sys.executable, "-m", "openclust", "bench", "cluster", "--only", "replicated", *SMALL, "--json"]
    done = subprocess.run([*command, "--compare-checkout", str(ROOT)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    rows = json.loads(done.stdout)["rows"]
    assert [row["key"] for row in rows] == ["replicated", "replicated-cpu"]
    assert [(each["starts"], len(each["rounds"])) for each in rows[0]["figures"].values()] == [(1, 1), (1, 1)]
    assert rows[0]["value"] > 0


def test_a_checkout_without_an_openclust_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(cluster, ["--only", "shared", "--compare-checkout", str(tmp_path)])
    assert result.exit_code == 2
    assert f"--compare-checkout {tmp_path}: there is no openclust" in result.output
