"""What one JVM leaves of Spark's classes for the next: who makes it, who takes it, and what is thrown away.

Files stand for Java, Spark and what a JVM writes; `test_session` has the real ones.
"""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

import pytest

from topology.simulate.spark import class_archive
from topology.simulate.spark.class_archive import KEPT, WRITING_S, ClassArchive, cache_folder

WHOLE, HALF = b"\xa8\xba\x0b\xf0 and more", bytes(4)


class Place:
    def __init__(self, tmp_path: Path) -> None:
        self.cache = tmp_path / "my cache"
        self.java = tmp_path / "java"
        self.java.write_bytes(b"17")
        self.jars = tmp_path / "jars"
        self.jars.mkdir()
        (self.jars / "spark.jar").write_bytes(b"4.2")

    def archive(self) -> ClassArchive:
        return ClassArchive(self.cache, self.java, self.jars)

    def leave(self, content: bytes = WHOLE) -> Path:
        """As the JVM does that was started with the options of now."""
        archive = self.archive()
        assert archive.is_left
        option = next(each for each in shlex.split(archive.options) if each.startswith("-XX:ArchiveClassesAtExit="))
        file = Path(option.partition("=")[2])
        file.write_bytes(content)
        return file

    def taken(self) -> Path | None:
        words = shlex.split(self.archive().options)
        found = [each.partition("=")[2] for each in words if each.startswith("-XX:SharedArchiveFile=")]
        return Path(found[0]) if found else None

    def files(self) -> list[Path]:
        return sorted(self.cache.iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_the_first_leaves_it_and_the_next_takes_it(place: Place) -> None:
    left = place.leave()
    taken = place.taken()
    assert taken is not None and taken.read_bytes() == WHOLE
    assert left.parent == taken.parent == place.cache
    assert place.files() == [taken]
    assert not place.archive().is_left


def test_two_that_start_at_once_leave_files_of_their_own_of_which_one_stays(place: Place) -> None:
    first = place.archive().options
    assert first != place.archive().options
    one, other = place.leave(HALF), place.leave(HALF)
    one.write_bytes(WHOLE)
    other.write_bytes(WHOLE)
    taken = place.taken()
    assert taken is not None and place.files() == [taken]


def test_half_of_it_is_not_taken_and_thrown_away_when_nobody_can_still_be_writing(place: Place) -> None:
    half = place.leave(HALF)
    assert place.taken() is None and half.exists()
    long_ago = time.time() - WRITING_S - 1
    os.utime(half, (long_ago, long_ago))
    assert place.taken() is None and place.files() == []


def test_another_java_or_another_spark_has_another(place: Place) -> None:
    place.leave()
    first = place.taken()
    place.java.write_bytes(b"21")
    os.utime(place.java, (1, 1))
    assert place.taken() is None
    place.leave()
    second = place.taken()
    assert second is not None and second != first
    (place.jars / "more.jar").write_bytes(b"")
    assert place.taken() is None


def test_what_was_left_for_one_that_is_gone_counts_too(place: Place) -> None:
    whole, half = place.leave(HALF), place.leave(HALF)
    whole.write_bytes(WHOLE)
    long_ago = time.time() - WRITING_S - 1
    os.utime(half, (long_ago, long_ago))
    (place.jars / "more.jar").write_bytes(b"")
    assert place.taken() is None
    assert place.files() == [whole.with_suffix(".jsa")]


def test_those_used_last_are_kept(place: Place) -> None:
    made = []
    for number in range(KEPT + 2):
        (place.jars / f"{number}.jar").write_bytes(b"")
        place.leave()
        taken = place.taken()
        assert taken is not None
        os.utime(taken, (number, number))
        made.append(taken)
    place.archive()
    # The last is of now, as it was just asked for.
    assert place.files() == sorted(made[-KEPT:])


def test_without_room_or_a_folder_there_is_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(class_archive, "FREE_MB_MIN", 2**60)
        assert place.archive().options == "" and not place.archive().is_left
    place.cache.rmdir()
    place.cache.write_bytes(b"in the way")
    assert place.archive().options == "" and not place.archive().is_left


def test_the_cache_is_where_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({}) == tmp_path / ".cache" / "openclust"
    assert cache_folder({"XDG_CACHE_HOME": "/elsewhere"}) == Path("/elsewhere/openclust")
    # The specification has it ignored where it is not absolute.
    assert cache_folder({"XDG_CACHE_HOME": "here"}) == tmp_path / ".cache" / "openclust"
