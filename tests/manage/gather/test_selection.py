"""What a query string selects of a list."""

from __future__ import annotations

import pytest

from openclust.manage.gather.selection import (
    BadSelection,
    NameFilter,
    Selection,
    selection_of,
    value_at,
    with_columns,
)

ROW = {"name": "q", "message_stats": {"publish": 3, "publish_details": {"rate": 0.5}}, "arguments": {}}


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"page": "0"}, "page is a number of 1 to"),
        ({"page": "x"}, "page is a number of 1 to"),
        ({"page": "1", "page_size": "501"}, "page_size is a number of 1 to 500"),
        ({"page": "1000", "page_size": "500"}, "page 1000 ends after row 10000"),
        ({"use_regex": "yes"}, "use_regex is true or false"),
        ({"sort_reverse": "1"}, "sort_reverse is true or false"),
        ({"name": "(", "use_regex": "true"}, "name is no regular expression"),
        ({"name": "a" * 1_001, "use_regex": "true"}, "name has at most 1000 characters"),
        ({"name": "(a{1000}){1000}", "use_regex": "true"}, "name is no regular expression"),
        ({"columns": ",".join(f"c{n}" for n in range(101))}, "columns names at most 100 columns"),
    ],
)
def test_a_wrong_parameter_is_named(query: dict[str, str], text: str) -> None:
    with pytest.raises(BadSelection, match=text.replace("(", r"\(")):
        selection_of(query)


def test_a_query_without_parameters_wants_all_in_the_order_of_names() -> None:
    assert selection_of({}) == Selection()
    assert selection_of({"page": "3", "page_size": "10"}).start == 20


@pytest.mark.parametrize(
    ("name", "use_regex", "matching"),
    [("", False, "anything"), ("der", False, "orders"), ("ORD", False, "orders"), ("^o.*s$", True, "orders")],
)
def test_a_name_is_wanted_if_it_has_the_text_or_matches_the_pattern(name: str, use_regex: bool, matching: str) -> None:
    is_wanted = NameFilter(Selection(name=name, use_regex=use_regex))
    assert is_wanted(matching)
    assert not name or not is_wanted("invoices.new")


def test_a_pattern_that_makes_others_backtrack_takes_no_time() -> None:
    is_wanted = NameFilter(Selection(name="(a+)+$", use_regex=True))
    assert not is_wanted("a" * 10_000 + "b")


def test_columns_are_paths_and_what_a_row_has_not_is_left_out() -> None:
    assert with_columns(ROW, ("name", "message_stats.publish_details.rate", "nothing", "name.deeper")) == {
        "name": "q",
        "message_stats": {"publish_details": {"rate": 0.5}},
    }
    assert with_columns(ROW, ()) == ROW
    assert with_columns(ROW, ("message_stats", "message_stats.publish")) == {"message_stats": ROW["message_stats"]}
    assert value_at(ROW, "message_stats.publish") == 3
    assert value_at(ROW, "name.deeper") is None
