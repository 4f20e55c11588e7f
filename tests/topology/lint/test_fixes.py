from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.topology.files import SOUND
from topology.lint.check import check_all
from topology.lint.fix_files import Change, fix_all, with_fixable

CLUSTER = "[cluster]\n"


def mended(path: Path, *, unsafe: bool = False) -> tuple[str, tuple[str, ...]]:
    """What stands in the file after it, and what was done."""
    file = str(path)
    ((report, _),), changes = fix_all([file], lambda contents: check_all([file], contents=contents), unsafe=unsafe)
    return (changes[0].after if changes else path.read_bytes().decode()), report.fixed


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "cluster.toml"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("heartbeat_ms", "Heartbeat-MS"),
        ('zone = "a"', 'Zone = "a"'),
        ('client = "10.0.1.1:5672"', 'client = "10.0.1.1"'),
        ('peer = "10.0.1.1:5682"', 'peer = "10.0.1.1"'),
    ],
)
def test_what_a_file_can_only_have_meant_is_mended(file: Path, right: str, wrong: str) -> None:
    file.write_text(SOUND.replace(right, wrong, 1))
    text, fixed = mended(file)
    assert text == SOUND
    assert len(fixed) == 1


def test_places_in_several_spellings_get_the_most_used_one(file: Path) -> None:
    text = SOUND.replace('rack = "a1"\nzone = "a"', 'rack = "a1"\nzone = "EU-1A"')
    file.write_text(
        text.replace('zone = "EU-1A"', "zone = 'eu-1a '  # here", 1) + '[topology.nodes.n]\nzone = "EU-1A"\n'
    )
    after, fixed = mended(file)
    assert after.count('zone = "EU-1A"') == 3 and 'zone = "EU-1A"  # here' in after
    assert fixed == ("OC208 zone = 'eu-1a ' is zone = \"EU-1A\" now (line 11)",)


def test_names_in_other_capitals_are_those_of_the_brokers(file: Path) -> None:
    more = '\n[topology]\nlinks = [\n    { between = ["P1", "p2"] },\n    { between = ["P1", "p3"] },\n]\n'
    more += '[topology.settings.S1]\nlimits.connections_max = 9\n[[topology.ignore]]\nrule = "oc302"\nreason = "so"\n'
    file.write_text(SOUND + more)
    after, fixed = mended(file)
    assert after == SOUND + more.replace("P1", "p1").replace("S1", "s1").replace("oc302", "OC302")
    assert len(fixed) == 4


def test_a_word_of_few_is_written_as_it_must_be(file: Path) -> None:
    file.write_text(f'{SOUND}[topology.nodes.sw]\nkind = "Switch" # a switch\n')
    assert mended(file)[0] == f'{SOUND}[topology.nodes.sw]\nkind = "switch" # a switch\n'


def test_what_takes_a_guess_is_mended_only_when_that_is_asked_for(file: Path) -> None:
    wrong = SOUND.replace("heartbeat_ms", "hartbeat_ms").replace('secret_file = "cluster.secret"\n', "")
    file.write_text(wrong)
    assert mended(file) == (wrong, ())
    after, fixed = mended(file, unsafe=True)
    assert "\nheartbeat_ms = 100\n" in after and f'{CLUSTER}secret_file = "cluster.secret"\n' in after
    assert len(fixed) == 2


def test_a_key_that_is_there_already_is_not_written_twice(file: Path) -> None:
    wrong = SOUND.replace('zone = "a"', 'Zone = "b"\nzone = "a"', 1).replace("heartbeat_ms", "HEARTBEAT_MS")
    file.write_text(wrong)
    after, fixed = mended(file)
    assert after == wrong.replace("HEARTBEAT_MS", "heartbeat_ms")
    assert len(fixed) == 1


def test_all_else_of_a_file_stays_as_it_is(file: Path) -> None:
    text = SOUND.replace("\n", "\r\n").replace("heartbeat_ms = 100", "heartbeat_ms = 100\t# ünchanged  ")
    file.write_bytes(text.replace("heartbeat_ms", "Heartbeat_ms").encode())
    assert mended(file)[0] == text


def test_a_file_is_written_whole_and_keeps_its_rights(file: Path) -> None:
    file.write_text("before")
    file.chmod(0o640)
    Change(str(file), "before", "after\r\n").write()
    assert file.read_bytes() == b"after\r\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in file.parent.iterdir()] == ["cluster.toml"]


def test_what_could_be_mended_is_counted(file: Path) -> None:
    file.write_text(SOUND.replace("heartbeat_ms", "Heartbeat_ms").replace("secret_file", "secret_fil"))
    ((report, _),) = with_fixable(check_all([str(file)]))
    assert (report.fixable, report.fixable_unsafe, report.fixable_codes) == (1, 1, ("OC102",))


@given(st.text(max_size=12), st.sampled_from(["zone", "rack", "client", "heartbeat_ms", "p1", '"a"', "5672"]))
@examples(20, suppress=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_mending_never_makes_a_file_worse(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(SOUND.replace(place, text, 1).encode("utf-8", "backslashreplace"))
    before, _ = check_all([str(path)])[0]
    after, _ = mended(path, unsafe=True)
    path.write_bytes(after.encode())
    again, _ = check_all([str(path)])[0]
    assert before.is_bad_input or not again.is_bad_input
    assert mended(path, unsafe=True)[0] == after
