"""Reading workload files: what is wrong with one is told with its line, all of it at once, and never as a traceback."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.shell.config.schema import ConfigError
from tests.support.examples import examples
from topology.simulate.input.layout import layout_of_counts
from topology.simulate.input.workload import Publishers, Queues, Subscribers, Topics, Workload
from topology.simulate.input.workload_check import RANGES
from topology.simulate.input.workload_file import check_against, read_workload, read_workload_file

SOUND = """\
duration_s = 10
faults = [
    "kill p2 at 5s",
    "start p2 at 8s",
]

[topics.quotes]
count = 10

[[subscribers]]
name = "phones"
count = 100
topics = "quotes"
each = 2

[[publishers]]
name = "feeds"
topics = "quotes"
rate = 5
brokers = ["p1"]

[[queues]]
name = "tasks"
rate = 2
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "work.toml"


def problems(file: Path, text: str) -> list[str]:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_workload(file)
    return [each.replace(str(file), "FILE") for each in caught.value.problems]


def test_a_sound_file_is_read(file: Path) -> None:
    file.write_text(SOUND, encoding="utf-8")
    found = read_workload(file)
    assert found.name == "work" and found.duration_ms == 10_000
    assert [each.name for each in found.groups] == ["phones", "feeds", "tasks", "tasks"]
    assert found.subscribers == (Subscribers(name="phones", count=100, topics="quotes", each=2),)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("each = 2", "eech = 2", "FILE line 14: subscribers.0.eech: unknown key 'eech'; did you mean 'each'?"),
        ("count = 100", 'count = "many"', "FILE line 12: subscribers.0.count: wanted a whole number, not 'many'"),
        ("count = 100", "count = 0", "FILE line 12: subscribers.0.count: allowed is 1 to 100,000,000, not 0"),
        ("rate = 5", "rate = 0", "FILE line 19: publishers.0.rate: allowed is 0.000001 to 1,000,000, not 0.0"),
        ("rate = 5", "rate = nan", "FILE line 19: publishers.0.rate: wanted a number, not nan"),
        ("rate = 5", "", "FILE line 16: publishers.0: needs rate too"),
        ("each = 2", "each = 11", "each of them wants 11 topics, and [topics.quotes] has 10"),
        ('topics = "quotes"\neach', 'topics = "quots"\neach', "there is no [topics.quots]; did you mean 'quotes'?"),
        ("[topics.quotes]", "[topics.zzz]", "FILE line 13: subscribers.0.topics: there is no [topics.quotes]"),
        (
            "duration_s = 10",
            "duration_s = 10\nbin_ms = 300",
            "FILE line 2: bin_ms: the duration of 10 s is no mu",
        ),
        ("duration_s = 10", "duration_s = 86400\nbin_ms = 1", "86,400,000 bins are more than 1,000,000"),
        ("duration_s = 10", "duration_s = 4", "FILE line 2: faults.0: 5 s is after the end, at 4 s (duration_s)"),
        ("duration_s = 10", "duration_s = inf", "allowed is 0.001 to 86,400, not inf"),
        ("rate = 5", "rate = 1000000\ncount = 100", "1,000,000,020 publications are more than 500,000,000"),
        ("kill p2 at 5s", "kil p2 at 5s", "FILE line 2: faults.0: 'kil p2 at 5s' is no fault; write "),
        ("kill p2 at 5s", "kill p2 at " + "9" * 400 + "s", "the time is out of all bounds"),
        ("kill p2 at 5s", "partition , | p2 at 5s for 1s", "a partition has brokers on both sides"),
        ("kill p2 at 5s", "partition p1 | p2 at 5s for 0s", "a partition lasts a millisecond at least"),
        ("kill p2 at 5s", "kill p3 at 5s", 'p2 runs already: "start" is for one that was killed before'),
        ("start p2 at 8s", "kill p2 at 8s", "p2 is dead already"),
        ("start p2 at 8s", "add p2 at 8s", "p2 is added later, at 8 s"),
        ("count = 100", "count = 100\njoin_at_s = 11", "they join at 11 s, and the run ends at 10 s"),
        ('brokers = ["p1"]', 'brokers = ["p1", "p1"]', "publishers.0.brokers: 'p1' is there twice"),
        ("[[queues]]", '[[queues]]\nreplicate = "message"', "wanted one of 'messages', 'configuration'; did you mean"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(file: Path, old: str, new: str, told: str) -> None:
    assert old in SOUND
    found = problems(file, SOUND.replace(old, new, 1))
    assert any(told in each for each in found), found
    assert all(each.startswith("FILE") for each in found)


def test_all_problems_are_told_at_once(file: Path) -> None:
    text = SOUND.replace("count = 100", "count = -1").replace("rate = 5", "rate = -5").replace("kill p2", "kil p2")
    assert len(problems(file, text)) == 3


def test_two_groups_of_a_name_are_told(file: Path) -> None:
    (found,) = problems(file, SOUND + '\n[[queues]]\nname = "tasks"\nrate = 1\n')
    assert found == "FILE line 27: queues.1.name: two [[queues]] are called 'tasks'; give each a name of its own"


def test_a_workload_of_nobody_is_told(file: Path) -> None:
    assert problems(file, "duration_s = 5") == [
        "FILE: there is nobody in it: it needs [[subscribers]], [[publishers]] or [[queues]]"
    ]


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such workload file"):
        read_workload(tmp_path / "nowhere.toml")


def test_brokers_must_be_known(file: Path) -> None:
    text = SOUND.replace('["p1"]', '["p1", "p22"]').replace("kill p2", "kill q2").replace("start p2", "start q2")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        check_against(read_workload_file(file), layout_of_counts(3, 1))
    found = [each.replace(str(file), "FILE") for each in caught.value.problems]
    assert found[0] == (
        "FILE line 20: publishers.0.brokers: the group 'feeds' knows an unknown broker, 'p22'; did you mean 'p2'? "
        "(there are p1, p2, p3, s1)"
    )
    assert [each.partition("; ")[0] for each in found[1:]] == [
        "FILE line 2: faults.0: names an unknown broker, 'q2'",
        "FILE line 2: faults.1: names an unknown broker, 'q2'",
    ]


def test_a_broker_of_any_of_the_layouts_is_known(file: Path) -> None:
    file.write_text(SOUND, encoding="utf-8")
    check_against(read_workload_file(file), layout_of_counts(1, 0), layout_of_counts(3, 0))


def test_one_that_is_added_is_known_and_must_be_new(file: Path) -> None:
    file.write_text(SOUND.replace("start p2 at 8s", "add s1 at 1s").replace('["p1"]', '["s1"]'), encoding="utf-8")
    check_against(read_workload_file(file), layout_of_counts(3, 0))
    with pytest.raises(ConfigError, match="add s1: there is a broker of this name already; add one that is new"):
        check_against(read_workload_file(file), layout_of_counts(3, 1))


@pytest.mark.parametrize("struct", [Workload, Topics, Subscribers, Publishers, Queues])
def test_every_number_has_its_bounds(struct: type[msgspec.Struct]) -> None:
    numbers = {field.name for field in msgspec.structs.fields(struct) if field.type in (int, float)}
    assert numbers == RANGES[struct].keys()
    assert all(math.isfinite(high) for _, high in RANGES[struct].values())


_VALUES = st.recursive(
    st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f'"k{i}" = {_toml(each)}' for i, each in enumerate(value.values())) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str) or value is None:
        return msgspec.json.encode(str(value)).decode()
    return str(value)


@given(st.integers(0, SOUND.count("\n") - 1), _VALUES)
@examples(50)
def test_whatever_a_key_is_set_to_is_taken_or_told(line: int, value: object) -> None:
    lines = SOUND.splitlines()
    if " = " in lines[line]:
        lines[line] = f"{lines[line].partition(' = ')[0]} = {_toml(value)}"
    _read_or_refuse("\n".join(lines).encode())


@given(st.integers(0, len(SOUND)), st.integers(0, 20), st.binary(max_size=6))
@examples(50)
def test_whatever_is_cut_out_or_put_in_is_taken_or_told(start: int, length: int, added: bytes) -> None:
    _read_or_refuse(SOUND[:start].encode() + added + SOUND[start + length :].encode())


def _read_or_refuse(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "work.toml")
        path.write_bytes(data)
        try:
            check_against(read_workload_file(path), layout_of_counts(3, 1))
        except ConfigError as error:
            assert error.problems and all("\n" not in each and str(path) in each for each in error.problems)
