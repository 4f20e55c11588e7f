"""`openclust lint`: exit codes, what is chosen, and a running cluster beside its file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from openclust.cli.main import openclust
from tests.support.manage.fake_member import put_member
from tests.support.manage.running_api import running_api
from tests.support.paths import ROOT
from tests.support.topology.files import FOURTH, SOUND
from topology.rules.rule import UNMATCHED, all_rules

EXAMPLE = ROOT / "conf" / "cluster.toml"
RULES_ASKED = sum(
    1 for each in all_rules() if (each.check is not None or each.code == UNMATCHED) and each.needs == "file"
)
EVEN = SOUND + FOURTH  # a warning
WITHOUT_SECRET = EVEN.replace("secret_file", "#")  # and an error


def run(*arguments: object) -> Result:
    return CliRunner().invoke(openclust, ["lint", *map(str, arguments)], prog_name="openclust")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(SOUND)
    return path


def test_a_sound_file_is_clean(file: Path) -> None:
    result = run(file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{file}: clean (5 brokers, {RULES_ASKED} rules)\n"


@pytest.mark.parametrize(
    ("text", "level", "code"),
    [
        (SOUND, "info", 0),
        (EVEN, "error", 0),
        (EVEN, "warning", 1),
        (EVEN, "info", 1),
        (WITHOUT_SECRET, "error", 1),
        ("nonsense", "error", 2),
        ("nonsense = 1", "info", 2),
    ],
)
def test_the_exit_code_hangs_on_the_level(file: Path, text: str, level: str, code: int) -> None:
    file.write_text(text)
    assert run(file, "--fail-level", level).exit_code == code


def test_findings_are_grouped_with_their_line_and_what_to_do(file: Path) -> None:
    file.write_text(WITHOUT_SECRET)
    lines = run(file).stdout.splitlines()
    assert lines[0] == str(file)
    assert lines[1] == "  quorum and failure domains"
    assert lines[2].startswith("    warning  OC402 4 primaries survive the loss of 1, as 3 do;")
    assert lines[2].endswith("(line 7)")
    assert lines[3] == "             Take one out, or add one."
    assert lines[4] == "  security"
    assert lines[-1] == (
        f"{file}: 1 error, 1 warning, 1 can be mended with --fix --unsafe-fixes (6 brokers, {RULES_ASKED} rules)"
    )


def test_rules_are_chosen_by_id_or_its_beginning(file: Path) -> None:
    file.write_text(WITHOUT_SECRET)
    assert run(file, "--select", "OC4").exit_code == 0
    assert run(file, "--select", "oc4,OC701").exit_code == 1
    assert run(file, "--ignore", "OC7").exit_code == 0
    assert run(file, "--select", "OC7", "--ignore", "OC701").exit_code == 0


@pytest.mark.parametrize(
    "arguments", [["--select", "OC9"], ["--ignore", "x"], ["--explain", "OC999"], [], ["--fail-level", "x"]]
)
def test_what_there_is_not_is_bad_usage(file: Path, arguments: list[str]) -> None:
    result = run(*arguments) if "--explain" in arguments or not arguments else run(file, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("openclust: error: ")


def test_what_the_file_ignores_with_a_reason_is_counted(file: Path) -> None:
    file.write_text(f'{EVEN}\n[[topology.ignore]]\nrule = "OC402"\nreason = "p4 goes next week"\n')
    result = run(file, "--fail-level", "warning")
    assert (result.exit_code, result.stdout) == (0, f"{file}: clean, 1 ignored (6 brokers, {RULES_ASKED} rules)\n")


def test_without_a_reason_nothing_is_ignored(file: Path) -> None:
    file.write_text(f'{EVEN}\n[[topology.ignore]]\nrule = "OC402"\n')
    result = run(file)
    assert result.exit_code == 1
    assert "OC402" in result.stdout and "OC106" in result.stdout


def test_only_the_brokers_named_are_ignored(file: Path) -> None:
    text = WITHOUT_SECRET.replace("10.0.2.1:5672", "0.0.0.0:5672").replace("10.0.3.1:5672", "0.0.0.0:5673")
    file.write_text(f'{text}\n[[topology.ignore]]\nrule = "OC204"\nreason = "behind a proxy"\nbrokers = ["p2"]\n')
    shown = run(file, "--select", "OC204").stdout
    assert "p3: nobody can dial" in shown and "p2: nobody can dial" not in shown


def test_one_of_several_files_decides(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[")
    result = run(file, other, tmp_path / "none.toml")
    assert result.exit_code == 2
    assert result.stdout.endswith(
        f"{file}: clean (5 brokers, {RULES_ASKED} rules)\n{other}: cannot be used, 1 problem\n"
        f"{tmp_path}/none.toml: cannot be used, 1 problem\n"
    )


def test_names_cannot_steer_a_terminal(file: Path) -> None:
    file.write_text(SOUND.replace("primaries.p1]", 'primaries."p1\\u202e[red]"]').replace("10.0.2.1", "10.0.1.1"))
    result = run(file)
    assert "\u202e" not in result.stdout
    assert "[red]" in result.stdout


def test_a_rule_is_explained() -> None:
    result = run("--explain", "oc403")
    assert result.exit_code == 0
    assert result.stdout.startswith("OC403  Half of the primaries or more in one failure domain\nerror, quorum and")
    assert "What to do\nSpread the primaries" in result.stdout


@pytest.mark.sockets
def test_a_running_cluster_is_held_against_its_file(file: Path) -> None:
    with running_api() as api:
        put_member(api)
        result = run("--live", api.url, EXAMPLE)
        assert result.exit_code == 1
        assert "OC803 p3 of 3 primaries cannot be heard by p1" in result.stdout
        assert "OC801" not in result.stdout and "OC806" not in result.stdout, "the rest is as the file has it"
        assert "OC801 p1 is of the cluster 'demo', the file of 'orders-eu'" in run("--live", api.url, file).stdout
        assert run("--live", api.url, file, EXAMPLE).exit_code == 2


@pytest.mark.sockets
def test_a_running_cluster_is_judged_by_itself_without_a_file() -> None:
    with running_api() as api:
        put_member(api)
        result = run("--live", api.url)
        assert result.exit_code == 1
        assert "OC803" in result.stdout
        assert "OC701" not in result.stdout, "it does not tell of its secret"


@pytest.mark.sockets
def test_a_cluster_that_does_not_answer_is_bad_input(file: Path) -> None:
    result = run("--live", "http://guest:guest@127.0.0.1:9", file)
    assert result.exit_code == 2
    assert "no answer from the HTTP API" in result.stderr


def test_a_file_comes_from_standard_input(file: Path) -> None:
    def piped(text: bytes, *arguments: object) -> Result:
        return CliRunner().invoke(openclust, ["lint", *map(str, arguments), "-"], input=text, prog_name="openclust")

    assert piped(SOUND.encode()).stdout.startswith("-: clean (5 brokers")
    assert "OC101 not UTF-8 text (line 2)" in piped(b"# a\nname = \xe4").stdout
    assert piped(SOUND.replace("10.0.", "10.9.").encode(), file).stdout.count("OC704") == 2


def test_a_blank_file_is_not_clean(file: Path) -> None:
    file.write_text("\n# primaries: to do\n")
    result = run(file)
    assert result.exit_code == 1
    assert "OC107 the file says nothing: no key, and no broker" in result.stdout
    file.write_text('cluster_key = "alone"\n[listen]\nport = 5672\n')
    assert run(file).exit_code == 0, "settings of a broker alone"


def test_rules_that_leave_none_to_ask_are_bad_usage(file: Path) -> None:
    result = run(file, "--select", "OC4", "--ignore", "OC4")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--select OC4 --ignore OC4: leaves no rule to ask" in result.stderr
    assert "--ignore OC: leaves no rule to ask" in run(file, "--ignore", "OC").stderr
    assert run(file, "--select", "OC4", "--ignore", "OC403").exit_code == 0
    assert "--select OC8: leaves no rule to ask without --live URL" in run(file, "--select", "OC8").stderr
    assert "--select OC704: leaves no rule to ask without several files" in run(file, "--select", "OC704").stderr
    assert "--select OC212: leaves no rule to ask without --resolve" in run(file, "--select", "OC212").stderr


def test_a_group_is_explained_by_its_rules() -> None:
    result = run("--explain", "oc4")
    lines = result.stdout.splitlines()
    assert (result.exit_code, lines[0]) == (0, "quorum and failure domains")
    assert lines[3] == "  OC403 error   Half of the primaries or more in one failure domain"
    assert len(lines) == 1 + sum(1 for each in all_rules() if each.code.startswith("OC4"))
    assert run("--explain", "OC").stdout.count("\nOC") == 0 and "security" in run("--explain", "OC").stdout


# -- comforts


def test_fix_writes_the_file_and_tells_what_is_left(file: Path) -> None:
    text = file.read_text()
    file.write_text(text.replace("heartbeat_ms", "Heartbeat_ms"))
    before = run(file)
    assert before.exit_code == 2 and "1 can be mended with --fix" in before.stdout
    result = run(file, "--fix")
    assert result.exit_code == 0
    assert "fixed OC102 Heartbeat_ms is heartbeat_ms now (line " in result.stdout
    assert file.read_text() == text


def test_diff_shows_what_would_change_and_writes_nothing(file: Path) -> None:
    wrong = file.read_text().replace("heartbeat_ms", "Heartbeat_ms")
    file.write_text(wrong)
    result = run(file, "--diff")
    assert result.exit_code == 1
    assert "\n-Heartbeat_ms = 100\n+heartbeat_ms = 100\n" in result.stdout
    assert file.read_text() == wrong
    file.write_text(SOUND)
    assert (run(file, "--diff").exit_code, run(file, "--diff").stdout) == (0, "")


def test_old_findings_are_only_counted(file: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "old.json"
    file.write_text((SOUND + FOURTH).replace("secret_file", "#"))
    assert "there is no such file" in run(file, "--baseline", baseline).stderr
    written = run(file, "--baseline", baseline, "--write-baseline")
    assert (written.exit_code, written.stdout) == (0, f"{baseline}: written, with 2 findings\n")
    result = run(file, "--baseline", baseline)
    assert (result.exit_code, result.stdout) == (0, f"{file}: clean, 2 old (6 brokers, {RULES_ASKED} rules)\n")
    file.write_text(SOUND + FOURTH)
    assert "1 old, 1 of the baseline mended (write it anew)" in run(file, "--baseline", baseline).stdout


def test_statistics_count_findings_by_their_rules(file: Path) -> None:
    file.write_text(SOUND + FOURTH + FOURTH.replace("p4", "p5") + FOURTH.replace("p4", "p6"))
    result = run(file, "--statistics")
    assert re.search(r"^\d+ error +OC201 \[ \] One address twice$", result.stdout, re.MULTILINE)
    assert "p5: its" not in result.stdout
    counted = json.loads(run(file, "--statistics", "--format", "json").stdout)["statistics"]
    assert counted[0]["count"] >= counted[-1]["count"] >= 1


def test_a_directory_stands_for_the_cluster_files_in_it(file: Path) -> None:
    (file.parent / "sub").mkdir()
    (file.parent / "sub" / "no.toml").write_text("[tool.x]\n")
    result = run(file.parent)
    assert (result.exit_code, result.stdout) == (0, f"{file}: clean (5 brokers, {RULES_ASKED} rules)\n")
    nothing = run(file.parent / "sub")
    assert nothing.exit_code == 2 and "no cluster file in this directory" in nothing.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--write-baseline"], "say where to, with --baseline FILE"),
        (["--unsafe-fixes"], "goes with --fix or --diff"),
        (["-", "--fix"], "not standard input"),
        (["--statistics", "--format", "sarif"], "text or json"),
    ],
)
def test_comforts_that_do_not_go_together_are_bad_usage(file: Path, options: list[str], said: str) -> None:
    result = run(file, *options)
    assert result.exit_code == 2
    assert said in result.stderr
