"""Tables fit the terminal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclust.cli.term import GAP, fit
from tests.support.examples import examples


def test_what_fits_is_as_wide_as_its_contents() -> None:
    assert fit(("name", "n"), (30, 5), 37) == ((30, 5), ())


def test_the_longest_texts_are_folded_first() -> None:
    assert fit(("name", "key", "n"), (40, 20, 5), 60) == ((31, 20, 5), ())
    assert fit(("name", "key", "n"), (40, 20, 5), 45) == ((18, 18, 5), ())


def test_the_last_columns_are_left_out_before_texts_become_too_narrow_to_read() -> None:
    assert fit(("name", "key", "messages"), (40, 20, 5), 30) == ((14, 14), ("messages",))
    assert fit(("name", "key"), (40, 20), 10).left_out == ("key",)


@examples(20)
@given(st.lists(st.tuples(st.text(max_size=12), st.integers(0, 200)), min_size=1, max_size=12), st.integers(12, 200))
def test_a_table_is_never_wider_than_the_terminal(columns: list[tuple[str, int]], terminal: int) -> None:
    headers, widths = [head for head, _ in columns], [width for _, width in columns]
    fitted = fit(headers, widths, terminal)
    assert sum(fitted.widths) + GAP * (len(fitted.widths) - 1) <= terminal
    assert [*headers[: len(fitted.widths)], *fitted.left_out] == headers
