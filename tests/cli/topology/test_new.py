"""`openclust topology new`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust


def run(*arguments: object) -> Result:
    return CliRunner().invoke(openclust, [str(each) for each in arguments], prog_name="openclust")


def test_a_new_file_passes_lint_and_is_taken_by_start(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    result = run("topology", "new", "--primaries", 3, "--secondaries", 5, "--zones", "a,b,c", "-o", file)
    assert result.exit_code == 0, result.output
    assert run("lint", file, "--fail-level", "info").exit_code == 0
    started = run("start", "--config", file, "--name", "p2", "--check-config")
    assert started.exit_code == 0, started.output


def test_its_secret_is_long_its_owners_and_stays(tmp_path: Path) -> None:
    file, secret = tmp_path / "cluster.toml", tmp_path / "cluster.secret"
    run("topology", "new", "-o", file)
    first = secret.read_text()
    assert len(first) == 65
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert run("topology", "new", "-o", file, "--force").exit_code == 0
    assert secret.read_text() == first


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text("mine")
    result = run("topology", "new", "-o", file)
    assert result.exit_code == 2
    assert result.stderr == f"openclust: error: {file} is there already; --force writes over it\n"
    assert file.read_text() == "mine"


def test_without_a_file_it_goes_to_the_output(tmp_path: Path) -> None:
    result = run("topology", "new", "--primaries", 5, "--domain", "brokers.example.net", "--cluster-key", 'a "key"')
    assert 'client = "p5.brokers.example.net:5672"' in result.stdout
    assert 'cluster_key = "a \\"key\\""' in result.stdout


@pytest.mark.slow
def test_a_large_file_is_written_and_read(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    result = run("topology", "new", "--secondaries", 9_000, "--zones", "a,b,c", "-o", file)
    assert result.exit_code == 0, result.output
    assert file.stat().st_size > 1_048_576
    assert "clean (9003 brokers" in run("lint", file).stdout


def test_a_file_that_would_be_too_large_to_read_is_not_written(tmp_path: Path) -> None:
    result = run("topology", "new", "--secondaries", 100_000, "--domain", "x" * 100, "-o", tmp_path / "cluster.toml")
    assert result.exit_code == 2
    assert "more than the 16 MiB that are read" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [["--zones", "a,a"], ["--zones", "a\nb"], ["--domain", "a b"], ["--primaries", "10"], ["--cluster-key", "\x00"]],
)
def test_what_makes_no_file_is_bad_usage(arguments: list[str]) -> None:
    assert run("topology", "new", *arguments).exit_code == 2
