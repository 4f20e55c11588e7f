"""One list out of the lists of several brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from openclust.manage.gather.answering import Answering
from openclust.manage.gather.gathering import ClusterQuery, GatheredRows, page_of
from openclust.manage.gather.questions import FindRow, ListRows, Viewer, decode_question, encode
from openclust.manage.gather.selection import Row, Selection

ADMIN = Viewer(name="admin", sees_all=True)


class Numbers:
    """ReplyRows with a name and a size."""

    values: Mapping[str, Callable[[Any], Any]] = {"size": lambda it: it[1]}

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes

    def objects(self, question: ListRows) -> list[tuple[str, int]]:
        return list(self._sizes.items())

    def find(self, question: FindRow) -> tuple[str, int] | None:
        name = question.name
        return (name, self._sizes[name]) if name in self._sizes else None

    def place(self, it: tuple[str, int]) -> tuple[str, str]:
        return "/", it[0]

    def row(self, it: tuple[str, int]) -> Row:
        return {"name": it[0], "size": it[1], "half": it[1] / 2}

    def details(self, it: tuple[str, int]) -> Row:
        return self.row(it)


class Brokers:
    """Broker `a` asks; the others are asked by bytes, and those of no sizes say nothing."""

    name = "a"

    def __init__(self, sizes: Mapping[str, Mapping[str, int] | None]) -> None:
        self._answering = {
            name: None if each is None else Answering({"numbers": Numbers(each)}, {}) for name, each in sizes.items()
        }
        own = self._answering["a"]
        assert own is not None
        self.gathering = ClusterQuery(own, self)

    def others(self) -> list[str]:
        return [name for name in self._answering if name != "a"]

    async def ask(self, peer: str, body: bytes, wait_ms: int) -> bytes | None:
        answering = self._answering[peer]
        return None if answering is None else encode(await answering.answer(decode_question(body)))

    def rows(self, selection: Selection) -> GatheredRows:
        return asyncio.run(self.gathering.rows(ListRows(kind="numbers", viewer=ADMIN, selection=selection)))


SIZES = {"a": {"one": 1, "six": 6}, "b": {"four": 4, "two": 2, "nine": 9}, "c": {"three": 3}}


def names_of(gathered: GatheredRows) -> list[str]:
    return [msgspec.json.decode(row)["name"] for row in gathered.rows]


def test_the_rows_of_all_brokers_are_in_one_order() -> None:
    assert names_of(Brokers(SIZES).rows(Selection())) == ["four", "nine", "one", "six", "three", "two"]
    by_size = ["one", "two", "three", "four", "six", "nine"]
    assert names_of(Brokers(SIZES).rows(Selection(sort="size"))) == by_size
    assert names_of(Brokers(SIZES).rows(Selection(sort="half"))) == by_size
    assert names_of(Brokers(SIZES).rows(Selection(sort="size", sort_reverse=True))) == by_size[::-1]


def test_pages_follow_each_other_and_count_what_the_filter_lets_pass() -> None:
    brokers = Brokers(SIZES)
    pages = [names_of(brokers.rows(Selection(page=page, page_size=2, sort="size"))) for page in (1, 2, 3, 4)]
    assert pages == [["one", "two"], ["three", "four"], ["six", "nine"], []]
    selection = Selection(page=1, page_size=2, name="i", columns=("name",))
    found = brokers.rows(selection)
    assert msgspec.json.decode(page_of(found, selection)) == {
        "filtered_count": 2,
        "item_count": 2,
        "items": [{"name": "nine"}, {"name": "six"}],
        "page": 1,
        "page_count": 1,
        "page_size": 2,
        "total_count": 6,
    }


def test_a_broker_that_says_nothing_is_named_and_its_rows_are_left_out() -> None:
    found = Brokers({**SIZES, "d": None}).rows(Selection())
    assert found.missing == ["d"]
    assert found.total == 6
