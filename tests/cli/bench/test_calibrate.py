"""`openclust bench --calibrate FILE`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from openclust.cli.bench.bench import bench
from topology.simulate.input.calibration import read_calibration


def test_a_file_that_cannot_be_written_is_known_at_once(tmp_path: Path) -> None:
    result = CliRunner().invoke(bench, ["--calibrate", str(tmp_path / "nowhere" / "out.json")])
    assert result.exit_code == 2
    assert "out.json: No such file or directory" in result.output


def test_without_a_file_it_says_that_it_wants_one() -> None:
    result = CliRunner().invoke(bench, ["--calibrate"])
    assert result.exit_code == 2
    assert "Missing argument 'FILE'" in result.output


@pytest.mark.sockets
def test_a_simulation_reads_what_a_calibration_has_written(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    command = [sys.executable, "-m", "openclust", "bench", f"--calibrate={out}", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found, said = read_calibration(out), json.loads(done.stdout)
    assert said["calibration"] == json.loads(out.read_bytes())
    assert {row["name"] for row in said["rows"]} >= {"fan-out of 16 x 100 bytes to 20", "durable, 1 at a time"}
    assert {"wait_us_per_ms", "company_wait_us_per_ms"} <= said["calibration"].keys()
    # Orders of magnitude: how busy the machine is moves all of these.
    assert 5 < found.turn_us < 2_000
    assert 0.5 < found.write_us < 100
    assert 20 < found.attach_us < 5_000
    assert 30 < found.attach_per_s < 50_000
    assert 10e6 < found.broker_bytes < 1e9
    assert 20 < found.election_ms < 10_000
    assert 20 < found.persist_batch_us < 20_000
