from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.topology.files import FOURTH, SOUND
from topology.lint.baseline import read, seen_from, text_of, without_old
from topology.lint.check import check
from topology.rules.finding import FileReport


def report_of(path: Path) -> FileReport:
    return check(str(path))[0]


def test_what_is_old_is_ignored_and_what_is_new_is_told(tmp_path: Path) -> None:
    file, baseline = tmp_path / "cluster.toml", str(tmp_path / "old.json")
    file.write_text(SOUND + FOURTH)
    Path(baseline).write_text(text_of([report_of(file)], baseline))
    # Lines move and a quantity changes; then something new is wrong.
    file.write_text(("# a comment\n" * 9 + SOUND + FOURTH).replace("secret_file", "#"))
    left, mended = without_old(report_of(file), read(baseline), baseline)
    assert [each.code for each in left.findings] == ["OC701"]
    assert [(each.code, each.is_old) for each in left.ignored] == [("OC402", True)]
    assert mended == 0


def test_what_was_mended_is_counted(tmp_path: Path) -> None:
    file, baseline = tmp_path / "cluster.toml", str(tmp_path / "old.json")
    file.write_text(SOUND + FOURTH)
    Path(baseline).write_text(text_of([report_of(file)], baseline))
    file.write_text(SOUND)
    left, mended = without_old(report_of(file), read(baseline), baseline)
    assert (left.findings, left.ignored, mended) == ((), (), 1)


def test_a_baseline_holds_wherever_the_command_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "cluster.toml").write_text(SOUND + FOURTH)
    monkeypatch.chdir(tmp_path)
    Path("old.json").write_text(text_of([report_of(Path("conf/cluster.toml"))], "old.json"))
    monkeypatch.chdir(folder)
    left, _ = without_old(report_of(Path("cluster.toml")), read("../old.json"), "../old.json")
    assert left.findings == ()
    assert seen_from("../old.json", "cluster.toml") == "conf/cluster.toml"


def test_what_is_worse_in_another_file_is_not_old(tmp_path: Path) -> None:
    file, other = tmp_path / "a.toml", tmp_path / "b.toml"
    for each in (file, other):
        each.write_text(SOUND + FOURTH)
    baseline = str(tmp_path / "old.json")
    Path(baseline).write_text(text_of([report_of(file)], baseline))
    left, _ = without_old(report_of(other), read(baseline), baseline)
    assert [each.code for each in left.findings] == ["OC402"]


@pytest.mark.parametrize(
    ("text", "said"), [("[", "no baseline"), ('{"version": 2, "findings": []}', "version 2"), ("\udcff", "no baseline")]
)
def test_what_is_no_baseline_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "old.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=said):
        read(str(path))
