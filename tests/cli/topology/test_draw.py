"""`openclust draw`: formats by name, and what cannot be drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.topology.files import FOURTH, SOUND


def run(*arguments: object) -> Result:
    return CliRunner().invoke(openclust, ["draw", *map(str, arguments)], prog_name="openclust")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(SOUND)
    return path


@pytest.mark.parametrize(
    ("name", "begins"),
    [("out.svg", "<svg "), ("out.dot", 'graph "'), ("out.mmd", "flowchart TB"), ("out.gv", "graph ")],
)
def test_the_name_of_the_output_tells_the_format(file: Path, tmp_path: Path, name: str, begins: str) -> None:
    result = run(file, "-o", tmp_path / name)
    assert (result.exit_code, result.output) == (0, "")
    assert (tmp_path / name).read_text().startswith(begins)


def test_a_picture_goes_to_standard_output_where_a_format_is_chosen(file: Path) -> None:
    result = run(file, "--format", "svg")
    assert result.exit_code == 0
    assert result.stdout.startswith("<svg ") and result.stdout.endswith("</svg>\n")


@pytest.mark.parametrize("options", [[], ["-o", "out.jpeg"]])
def test_an_unknown_format_is_bad_usage_with_the_way_out(file: Path, options: list[str]) -> None:
    result = run(file, *options)
    assert result.exit_code == 2
    assert "-o out.svg" in result.stderr


def test_findings_are_drawn_unless_they_are_left_out(file: Path) -> None:
    file.write_text((SOUND + FOURTH).replace("secret_file", "#"))
    assert "OC701" in run(file, "--format", "svg").stdout
    assert "OC701" not in run(file, "--format", "svg", "--no-findings").stdout


def test_a_file_that_cannot_be_used_is_not_drawn(file: Path, tmp_path: Path) -> None:
    file.write_text("nonsense")
    result = run(file, "-o", tmp_path / "out.svg")
    assert result.exit_code == 2
    assert "OC101" in result.stderr
    assert not (tmp_path / "out.svg").exists()


def test_png_without_matplotlib_is_one_line_that_says_what_to_install(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclust.cli.topology.draw.find_spec", lambda _: None)
    result = run(file, "-o", tmp_path / "out.png")
    assert result.exit_code == 2
    assert result.stderr == (
        "openclust: error: matplotlib is needed for PNG: pip install 'openclust[plot]'; SVG needs nothing more\n"
    )


@pytest.mark.parametrize("text", ["", "# later\n", 'cluster_key = "k"\n'])
def test_a_file_without_a_broker_makes_no_picture(file: Path, tmp_path: Path, text: str) -> None:
    file.write_text(text)
    result = run(file, "-o", tmp_path / "out.svg")
    assert (result.exit_code, result.stderr) == (
        2,
        f"openclust: error: {file}: names no broker, so that there is nothing to draw\n",
    )
    assert not (tmp_path / "out.svg").exists()


def test_a_file_comes_from_standard_input_too() -> None:
    result = CliRunner().invoke(openclust, ["draw", "-", "--format", "dot"], input=SOUND, prog_name="openclust")
    assert (result.exit_code, result.stdout[:7]) == (0, 'graph "'), result.output
