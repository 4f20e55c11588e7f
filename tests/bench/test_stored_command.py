"""`openclust bench cold` and `backlog`, as far as they go without a broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from openclust.cli.bench.bench import bench


@pytest.mark.parametrize("command", ["cold", "backlog"])
@pytest.mark.parametrize("amount", ["0", "5x", "-1", "k", "101m"])
def test_an_amount_that_is_none_shows_how_to_write_one(command: str, amount: str) -> None:
    result = CliRunner().invoke(bench, [command, f"--messages={amount}"])
    assert result.exit_code == 2
    assert "500k and 5m may be written" in result.output


@pytest.mark.sockets
def test_a_backlog_is_weighed_and_comes_out_again() -> None:
    result = CliRunner().invoke(bench, ["backlog", "--messages", "2k", "--size", "100"])
    assert result.exit_code == 0
    assert "memory with 2,000 messages of 100 bytes" in result.output
    assert "emptied at" in result.output
    assert "data in" in result.output


@pytest.mark.sockets
def test_a_cold_start_finds_every_message_that_was_confirmed(tmp_path: Path) -> None:
    args = ["cold", "--messages", "1k", "--rounds", "2", "--data-in", str(tmp_path), "--json"]
    result = CliRunner().invoke(bench, args)
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.output)["rows"]
    assert len(row["figures"]["served_s"]) == 2
    assert row["figures"]["stored_bytes"] > 1_000 * 100
    assert str(tmp_path) in row["notes"][0]
    assert not list(tmp_path.iterdir())
