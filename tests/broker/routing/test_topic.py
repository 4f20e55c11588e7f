"""The topic trie against the definition of a pattern, written as a recursion."""

from __future__ import annotations

import timeit
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.routing.topic import TopicTable, _step


@cache
def matches(pattern: tuple[str, ...], words: tuple[str, ...]) -> bool:
    if not pattern:
        return not words
    if pattern[0] == "#":
        return matches(pattern[1:], words) or (bool(words) and matches(pattern, words[1:]))
    return bool(words) and pattern[0] in ("*", words[0]) and matches(pattern[1:], words[1:])


def split(text: str) -> tuple[str, ...]:
    return tuple(text.split(".")) if text else ()


PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#"]), max_size=6).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "", "c"]), max_size=6).map(".".join)


@given(
    added=st.lists(st.tuples(PATTERNS, st.integers(0, 5)), max_size=30),
    removed=st.lists(st.integers(0, 29), max_size=30, unique=True),
    keys=st.lists(KEYS, min_size=1, max_size=10),
)
def test_a_key_finds_just_the_targets_whose_patterns_it_matches(
    added: list[tuple[str, int]], removed: list[int], keys: list[str]
) -> None:
    table: TopicTable[int] = TopicTable()
    for pattern, target in added:
        table.add(pattern, target)
    gone = {index for index in removed if index < len(added)}
    for index in sorted(gone):
        table.remove(*added[index])
    left = [binding for index, binding in enumerate(added) if index not in gone]
    for key in keys:
        found = table.match(key)
        assert len(found) == len(set(found))
        assert set(found) == {target for pattern, target in left if matches(split(pattern), split(key))}


@given(added=st.lists(st.tuples(PATTERNS, st.integers(0, 5)), max_size=30))
def test_a_table_whose_bindings_are_all_gone_is_empty_again(added: list[tuple[str, int]]) -> None:
    table: TopicTable[int] = TopicTable()
    for pattern, target in added:
        table.add(pattern, target)
    for pattern, target in reversed(added):
        table.remove(pattern, target)
    assert table._root.is_bare() and not table._exact


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("#", "", True),
        ("*", "", False),
        ("", "", True),
        ("*", ".", False),
        ("*.*", ".", True),
        ("a.#", "a", True),
        ("#.a", "a", True),
        ("#.a", "b.a.a", True),
        ("#.a.#", "x.a.y.z", True),
        ("a.*.#", "a", False),
        ("a.*", "a.", True),
        ("a*", "ab", False),
        ("stock.*.nyse", "stock.usd.nyse", True),
        ("*.#.*", "a", False),
    ],
)
def test_words_and_wildcards_mean_what_the_specification_says(pattern: str, key: str, expected: bool) -> None:
    table: TopicTable[str] = TopicTable()
    table.add(pattern, "q")
    assert table.match(key) == (["q"] if expected else [])


def test_a_target_bound_twice_stays_until_it_is_removed_twice() -> None:
    table: TopicTable[str] = TopicTable()
    for pattern in ("a.*", "a.b"):
        table.add(pattern, "q")
        table.add(pattern, "q")
        table.remove(pattern, "q")
    assert table.match("a.b") == ["q"]
    table.remove("a.*", "q")
    assert table.match("a.b") == ["q"]
    table.remove("a.b", "q")
    assert table.match("a.b") == []


@pytest.mark.parametrize("pattern", ["a.b", "a.*", "#.b", "a.*.c"])
def test_removing_what_was_never_added_is_an_error(pattern: str) -> None:
    table: TopicTable[str] = TopicTable()
    table.add("a.*.c.d", "q")
    with pytest.raises(KeyError):
        table.remove(pattern, "q")


@pytest.mark.parametrize("pattern", ["#.#.#.#.a", "#.a.#.a.#.a.#.a.#.b", "#.*.#.*.#.*.#.*.a", "#.a.#.#.a.*.#.a.*.#"])
def test_many_hashes_cost_no_more_than_a_visit_to_every_node_for_every_word(pattern: str) -> None:
    table: TopicTable[str] = TopicTable()
    table.add(pattern, "q")
    nodes = len(pattern.split(".")) + 1
    frontier = [table._root] + ([table._root.hash] if table._root.hash else [])
    for word in ["a"] * 127:
        frontier = _step(frontier, word)
        assert len(frontier) == len(set(map(id, frontier))) <= nodes


def test_a_key_of_255_bytes_against_ten_thousand_wildcard_bindings_takes_microseconds() -> None:
    table: TopicTable[int] = TopicTable()
    for number in range(10_000):
        table.add([f"site.{number}.*.temp", f"*.{number}.#", f"#.n{number}", f"a.*.n{number}.#"][number % 4], number)
    assert table.match("site.4.x.temp") == [4]
    key = ".".join(["a"] * 128)
    best = min(timeit.repeat(lambda: table.match("site.4.x.temp"), number=100, repeat=5)) / 100
    assert best < 200e-6
    assert min(timeit.repeat(lambda: table.match(key), number=10, repeat=5)) / 10 < 5e-3


def test_thousands_of_hashes_active_at_once_cost_linear_time() -> None:
    table: TopicTable[int] = TopicTable()
    for number, words in enumerate(product("a*", repeat=12)):
        table.add(".".join([*words, "#"]), number)
        table.add(".".join([*words, "#", "a", "#"]), number)
    key = ".".join(["a"] * 40)
    assert len(table.match(key)) == 4_096
    assert min(timeit.repeat(lambda: table.match(key), number=1, repeat=3)) < 0.5
