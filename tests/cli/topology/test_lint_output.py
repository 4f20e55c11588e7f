"""`openclust lint`: formats, where they go, and what the cluster survives."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from openclust.cli.topology.lint_output import FORMATS
from tests.support.paths import ROOT
from tests.support.topology.files import FIFTH, FOURTH, SOUND
from topology.output.formats import FORMATS as WRITERS

TEXTS = {0: SOUND, 1: (SOUND + FOURTH).replace("secret_file", "#"), 2: "nonsense"}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(openclust, ["lint", *map(str, arguments)], prog_name="openclust")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(SOUND)
    return path


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("code", TEXTS)
def test_the_exit_code_is_the_same_in_every_format(file: Path, format_: str, code: int) -> None:
    file.write_text(TEXTS[code])
    result = run(file, "--format", format_)
    assert (result.exit_code, result.stderr) == (code, "")
    assert run(file, "--format", format_, "--survive", 1).exit_code == code


@pytest.mark.parametrize("format_", FORMATS)
def test_a_file_that_is_not_there_is_a_finding_in_every_format(tmp_path: Path, format_: str) -> None:
    result = run(tmp_path / "none.toml", "--format", format_)
    assert (result.exit_code, result.stderr) == (2, "")
    assert "no such" in result.stdout


def test_every_format_has_a_writer() -> None:
    assert set(FORMATS) == set(WRITERS)


def test_several_outputs_are_written_in_one_run(file: Path, tmp_path: Path) -> None:
    sarif, junit = tmp_path / "out.sarif", tmp_path / "junit.xml"
    result = run(file, "-o", f"sarif:{sarif}", "--output", f"junit:{junit}")
    assert "clean" in result.stdout
    assert json.loads(sarif.read_text())["version"] == "2.1.0"
    assert ET.parse(junit).getroot().tag == "testsuites"


def test_a_file_without_a_format_takes_the_place_of_standard_output(file: Path, tmp_path: Path) -> None:
    result = run(file, "--format", "json", "-o", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads((tmp_path / "out").read_text())["exit_code"] == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "xml:out.xml"], "there is no format 'xml'"),
        (["-o", "one.json", "-o", "two.json"], "say which format"),
        (["-o", "json:"], "wanted FORMAT:FILE"),
        (["--survive", "0"], "--survive"),
        (["--survive", "1", "--survive-kinds", "broker,moon"], "there is no such kind"),
    ],
)
def test_wrong_options_are_bad_usage(file: Path, options: list[str], said: str) -> None:
    result = run(file, *options)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_file_that_cannot_be_written_is_one_line_after_all_else_was(file: Path, tmp_path: Path) -> None:
    result = run(file, "-o", f"json:{tmp_path}/none/out.json", "-o", f"markdown:{tmp_path}/out.md")
    assert result.exit_code == 2
    assert result.stderr == f"openclust: error: {tmp_path}/none/out.json: No such file or directory\n"
    assert "clean" in result.stdout
    assert (tmp_path / "out.md").exists()


def test_what_is_survived_is_a_table_and_the_fewest_that_end_the_quorum(file: Path) -> None:
    result = run(file, "--survive", 2, "--survive-kinds", "broker")
    assert "No root is left with 2 failures, and with no fewer" in result.stdout
    assert "broker + broker" in result.stdout
    assert result.stdout.endswith("rules)\n"), "the summary line comes last"


@pytest.mark.parametrize("format_", FORMATS)
def test_what_is_required_to_be_survived_is_an_exit_code_and_said_in_every_format(file: Path, format_: str) -> None:
    options = ("--survive-kinds", "zone,broker", "--format", format_)
    held = run(file, "--require-survive", 1, *options)
    assert (held.exit_code, held.stderr) == (0, "")
    missed = run(file, "--require-survive", 2, *options)
    assert (missed.exit_code, missed.stderr) == (1, "")
    said = "no root can be elected after broker p1 + broker p2"
    assert said in missed.stdout.replace(r"\u002b", "+") and said not in held.stdout
    if format_ == "junit":
        suite = ET.fromstring(missed.stdout)[0]
        assert (suite.get("failures"), suite.get("tests")) == ("1", str(len(suite.findall("testcase"))))


def test_what_was_not_all_looked_at_is_not_vouched_for(file: Path) -> None:
    lines = [f'[topology.secondaries.x{i}]\nclient = "10.9.0.{i}:5672"\nzone = "a"\n' for i in range(1, 60)]
    file.write_text(f'{SOUND}{FOURTH}{FIFTH}\n[[topology.links]]\nbetween = ["p1", "p2"]\n{"".join(lines)}')
    result = run(file, "--require-survive", 2, "--survive-max", 1_000, "--survive-kinds", "broker")
    assert result.exit_code == 1
    assert "not every combination was looked at: raise --survive-max" in result.stdout


def test_combinations_drawn_at_random_are_said_to_be_with_their_seed(file: Path) -> None:
    lines = [f'[topology.secondaries.x{i}]\nclient = "10.9.0.{i}:5672"\nzone = "a"\n' for i in range(1, 60)]
    file.write_text(f"{SOUND}\n{''.join(lines)}")
    result = run(file, "--survive", 3, "--survive-max", 2_500, "--seed", 4711)
    assert "drawn at random (seed 4711)" in result.stdout
    assert "Every combination" not in result.stdout


def test_the_table_in_the_docs_is_what_its_command_says(monkeypatch: pytest.MonkeyPatch) -> None:
    root = ROOT
    monkeypatch.chdir(root)
    example = (root / "docs" / "topology.md").read_text().partition("$ openclust lint --survive")[2].partition("```")[0]
    command, _, shown = example.partition("\n")
    said = run("--survive", *command.split()).stdout
    assert shown.strip() in "\n".join(line.rstrip() for line in said.splitlines())
