"""Which files make a trace, and what is said of those that make none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openclust.shell.config.schema import ConfigError
from tests.support.simulate.traces import Line, begin, deliver, line, publish, status, write
from topology.simulate.trace.files import bad_lines, find_files
from topology.simulate.trace.trace_schemas import EVENTS


def problem(*given: object) -> str:
    with pytest.raises(ConfigError) as caught:
        find_files(str(each) for each in given)
    return str(caught.value)


def test_a_file_a_folder_and_a_pattern_name_the_same(tmp_path: Path) -> None:
    one = write(tmp_path / "p1.jsonl", [begin()])
    other = write(tmp_path / "p2.jsonl", [begin("p2")])
    (tmp_path / "notes.txt").write_text("not a trace, and not taken from a folder")
    assert find_files([str(one), str(other)]).json == (one, other)
    assert find_files([str(tmp_path)]).json == (one, other)
    assert find_files([str(tmp_path / "*.jsonl"), str(one)]).json == (one, other), "each once"


def test_what_is_not_there_is_told_with_the_way_out(tmp_path: Path) -> None:
    assert problem(tmp_path / "gone") == (
        f"{tmp_path}/gone: no such file, and no folder with *.jsonl or *.parquet in it; "
        "`openclust start --trace FILE` writes one"
    )
    assert "no such file, and no folder" in problem(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is empty"),
        ("hello\n", "is no trace of a broker"),
        ("\x00\xff" * 100, "is no trace of a broker"),
        ('{"event": "begin"}\n', "is no trace of a broker"),
        ("[1, 2]\n", "is no trace of a broker"),
    ],
)
def test_a_foreign_file_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(text, encoding="latin-1")
    assert told in problem(path)
    assert str(path) in problem(path)


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    empty = write(tmp_path / "a.jsonl", [])
    foreign = write(tmp_path / "b.jsonl", ["x"])
    assert problem(empty, foreign).count("\n") == 1


def test_a_trace_must_begin_with_its_beginning(tmp_path: Path) -> None:
    path = write(tmp_path / "t", [publish("1", 0), begin()])
    assert f"{path}:1: is no whole trace" in problem(path)


def test_a_later_format_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t", [{**begin(), "format": 2}])
    assert "was written by a later openclust (format 2; this one knows 1)" in problem(path)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not a file" in problem(pipe)


def test_what_only_calls_itself_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("x")
    assert f"{path}: is no Parquet file that can be read" in problem(path)
    (tmp_path / "empty.parquet").mkdir()
    assert "is no Parquet file" in problem(tmp_path / "empty.parquet")


def test_parquet_of_something_else_is_refused(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "t.parquet"
    write_table(pyarrow.table({"event": ["x"], "at_us": [1], "id": [""], "sample": [1]}), path)  # type: ignore
    assert problem(path) == f"{path}: is no trace: it has no column 'broker'"


def test_bad_lines_are_named_by_their_numbers(tmp_path: Path) -> None:
    lines: list[Line | str] = [
        begin(),
        publish("1", 1),
        "{",
        status("p1", 2),
        '{"event": "publish"}',
        "",
        "5",
        deliver("1", 3),
    ]
    path = write(tmp_path / "t", [*lines, line("publish", 4), line("strange", 5), '{"event":"pub'])
    assert bad_lines(path, 10) == [f"{path}:{number}" for number in (3, 5, 7, 9, 10, 11)]
    assert len(bad_lines(path, 2)) == 2


def test_every_event_of_a_broker_is_known() -> None:
    from openclust.broker.amqp import trace as tracing
    from openclust.shell.tracing import trace_lines

    told = {getattr(tracing, name) for name in ("PUBLISH", "RELAY", "RELAYED_IN", "DROP", "ENQUEUE", "DELIVER")}
    kinds = (trace_lines.BeginLine, trace_lines.StatusLine, trace_lines.LostLine, trace_lines.EndLine)
    assert {*told, *(str(kind.__struct_config__.tag) for kind in kinds)} == set(EVENTS)
