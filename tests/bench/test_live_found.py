"""The middle of several rounds in which a workload was played."""

from __future__ import annotations

from openclust.bench.live_found import LiveFound, middle


def found(p50: float, no_root_ms: float | None, lost: int, *notes: str) -> LiveFound:
    return LiveFound(
        window_s=4,
        deliveries_per_s=200,
        consumed_per_s=20,
        relayed={"p1": 10},
        cpu={"p1": 0.1},
        latency_ms={"p50": p50},
        worked_ms={},
        no_root_ms=no_root_ms,
        killed_at_ms=None,
        lost=lost,
        back_p50_ms=None,
        back_all_ms=None,
        machine_busy=0.5,
        generators_cpu=0.2,
        client_us=30,
        late_ms=0.1,
        published=100,
        unsent=0,
        attached=40,
        redirected=0,
        moved=0,
        at_brokers={"p1": lost},
        notes=list(notes),
    )


def test_of_each_figure_the_median_of_the_rounds_counts() -> None:
    one = middle([found(0.3, 250, 20), found(0.9, 190, 22), found(0.4, 220, 27)])
    assert one.latency_ms == {"p50": 0.4}
    assert one.no_root_ms == 220
    assert (one.lost, one.at_brokers) == (22, {"p1": 22})


def test_rounds_without_a_figure_do_not_count_for_it() -> None:
    assert middle([found(0.3, None, 1), found(0.3, 190, 1), found(0.3, None, 1)]).no_root_ms == 190
    assert middle([found(0.3, None, 1), found(0.3, None, 1)]).no_root_ms is None


def test_what_is_to_be_said_of_rounds_is_said_once() -> None:
    assert middle([found(1, 1, 1, "late"), found(1, 1, 1, "late", "lost")]).notes == ["late", "lost"]
