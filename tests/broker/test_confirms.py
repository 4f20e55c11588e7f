"""Confirms tell every publish exactly once, in runs as long as may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openclust.broker.confirms import Confirms
from openclust.wire.methods import BasicAck

Told = tuple[int, bool, bool]


def _take(confirms: Confirms) -> list[Told]:
    return [(each.delivery_tag, each.multiple, isinstance(each, BasicAck)) for each in confirms.take()]


def test_one_publish_is_told_alone() -> None:
    confirms = Confirms()
    assert confirms.settle(True) is True
    assert _take(confirms) == [(1, False, True)]
    assert _take(confirms) == []


def test_a_run_of_equal_verdicts_is_told_at_once() -> None:
    confirms = Confirms()
    assert [confirms.settle(each) for each in (True, True, True, False, True)] == [True, False, False, False, False]
    assert _take(confirms) == [(3, True, True), (4, False, False), (5, False, True)]


@given(st.lists(st.one_of(st.booleans(), st.none()), max_size=60))
def test_every_publish_is_told_once_and_rightly(verdicts: list[bool | None]) -> None:
    """None is where what there is to tell is told."""
    confirms = Confirms()
    expected: list[bool] = []
    heard: list[bool] = []
    for verdict in [*verdicts, None]:
        if verdict is not None:
            confirms.settle(verdict)
            expected.append(verdict)
            continue
        for tag, multiple, accepted in _take(confirms):
            assert multiple or tag == len(heard) + 1
            heard += [accepted] * (tag - len(heard))
        assert heard == expected
