"""What a caller accepts, and which methods a path has."""

from __future__ import annotations

import pytest

from openclust.manage.api.answer_headers import accepts, allowed


@pytest.mark.parametrize(
    ("header", "is_taken"),
    [
        ("", True),
        ("*/*", True),
        ("application/json", True),
        ("application/json; charset=utf-8", True),
        ("application/*", True),
        ("text/html, */*;q=0.1", True),
        ("*", True),
        ("text/html", False),
        ("application/json;q=0, */*", False),
        ("*/*;q=0", False),
        ("application/json;q=nonsense", False),
    ],
)
def test_a_caller_says_what_it_accepts(header: str, is_taken: bool) -> None:
    assert accepts(header, "application/json") is is_taken


def test_a_path_that_has_get_has_head_too_and_every_path_options() -> None:
    assert allowed(["GET"]) == "HEAD, GET, OPTIONS"
    assert allowed({"DELETE", "PUT"}) == "PUT, DELETE, OPTIONS"
