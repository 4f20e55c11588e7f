from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.topology.files import SOUND
from topology.lint.cluster_files import expanded


def test_in_place_of_a_folder_stand_its_cluster_files_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".git").mkdir()
    for name, text in {
        "b.toml": SOUND,
        "sub/a.toml": '[topology.nodes.sw]\nkind = "switch"\n',
        "sub/broken.toml": "[cluster.primaries.p1]\nclient = ",
        ".git/hidden.toml": SOUND,
        "pyproject.toml": "[tool.ruff]\nline-length = 120\n",
        "one.toml": 'cluster_key = "a broker of its own"\n[cluster]\n[topology]\n#links = []\n',
        "other.toml": "[[[",
        "notes.txt": SOUND,
    }.items():
        (tmp_path / name).write_text(text)
    found = [str(Path(each).relative_to(tmp_path)) for each in expanded([str(tmp_path)])]
    assert found == ["b.toml", "sub/a.toml", "sub/broken.toml"]


def test_a_file_that_is_named_is_looked_at_whatever_it_is_and_once(tmp_path: Path) -> None:
    (tmp_path / "b.toml").write_text(SOUND)
    named = str(tmp_path / "b.toml")
    assert expanded([named, "none.toml", str(tmp_path), "-"]) == [named, "none.toml", "-"]


def test_a_folder_without_any_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no cluster file"):
        expanded([str(tmp_path)])
