"""The middle of several rounds in which a workload was played."""

from __future__ import annotations

from openclust.bench.live.cost import middle
from tests.support.live import live_found


def test_of_each_figure_the_median_of_the_rounds_counts() -> None:
    rounds = ((0.3, 250, 20), (0.9, 190, 22), (0.4, 220, 27))
    one = middle([live_found(latency_ms={"p50": p50}, no_root_ms=ms, lost=lost) for p50, ms, lost in rounds])
    assert one.latency_ms == {"p50": 0.4}
    assert (one.no_root_ms, one.lost) == (220, 22)
    assert one.relayed == live_found().relayed


def test_rounds_without_a_figure_do_not_count_for_it() -> None:
    assert middle([live_found(no_root_ms=ms) for ms in (None, 190, None)]).no_root_ms == 190
    assert middle([live_found(no_root_ms=None), live_found(no_root_ms=None)]).no_root_ms is None


def test_what_is_to_be_said_of_rounds_is_said_once() -> None:
    assert middle([live_found(notes=["late"]), live_found(notes=["late", "lost"])]).notes == ["late", "lost"]
