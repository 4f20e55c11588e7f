"""Numbers of several brokers, added up."""

from __future__ import annotations

from openclust.manage.gather.totals import summed


def test_equal_names_are_added_at_any_depth() -> None:
    one = {"messages": 1, "stats": {"publish": 2, "publish_details": {"rate": 0.5}}, "listeners": ["a"]}
    other = {"messages": 10, "stats": {"publish": 20, "publish_details": {"rate": 1.5}}, "listeners": ["b"]}
    assert summed([one, other]) == {
        "messages": 11,
        "stats": {"publish": 22, "publish_details": {"rate": 2.0}},
        "listeners": ["a", "b"],
    }


def test_what_only_one_broker_tells_is_kept() -> None:
    assert summed([{"a": 1}, {"b": {"c": 2}}]) == {"a": 1, "b": {"c": 2}}


def test_the_parts_stay_as_they_are() -> None:
    part = {"a": {"b": 1}}
    assert summed([part, part, part]) == {"a": {"b": 3}}
    assert part == {"a": {"b": 1}}


def test_no_brokers_make_no_numbers() -> None:
    assert summed([]) == {}
