"""`openclust analyze`: what it refuses before Spark is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.simulate.traces import begin, write


def analyze(*arguments: object) -> Result:
    return CliRunner().invoke(openclust, ["analyze", *(str(each) for each in arguments)], prog_name="openclust")


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started for nothing")

    monkeypatch.setattr("topology.simulate.spark.session.spark_session", start)


def test_a_trace_must_be_named() -> None:
    result = analyze()
    assert result.exit_code == 2
    assert "missing argument 'TRACE...'" in result.stderr


@pytest.mark.parametrize(("text", "told"), [("", "is empty"), ("hello\n", "is no trace of a broker")])
def test_an_empty_or_foreign_file_is_one_clear_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    result = analyze(path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"openclust: error: {path}")
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_results_are_not_put_over_what_is_analyzed(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [begin()])
    result = analyze(path, "--out", tmp_path)
    assert result.exit_code == 2
    assert f"{path} is in the folder of the results; let --out name another" in result.stderr
    assert path.exists()


def test_a_folder_that_holds_other_things_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [begin()])
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    result = analyze(path, "--out", out)
    assert result.exit_code == 2
    assert "'thesis.tex'" in result.stderr


def test_what_spark_cannot_be_given_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    result = analyze(write(tmp_path / "t.jsonl", [begin()]), "--out", tmp_path / "out", "--memory", "nothing")
    assert result.exit_code == 2
    assert "--memory 'nothing'" in result.stderr
