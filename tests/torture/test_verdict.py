"""What a torture run is judged by, and what it tells of a failure."""

from __future__ import annotations

from pathlib import Path

from tests.torture.gaps import Gap
from tests.torture.ledger import Arrival, Count, Lost
from tests.torture.report import document, table
from tests.torture.traffic import Connected, Outcome
from tests.torture.verdict import Happened, Verdict, traces

BEGAN = 1_000.0


def verdict(*counts: Count, gaps: list[Gap] | None = None, problems: list[str] | None = None) -> Verdict:
    """Of a run with a kill at 10 s and a cut at 20 s."""
    gaps = gaps or []
    outcome = Outcome(
        counts=list(counts),
        gaps=gaps,
        longest=max(gaps, key=lambda gap: gap.length_s, default=Gap(BEGAN, BEGAN)),
        longest_of_one=Gap(BEGAN, BEGAN),
        nacks=0,
        returns=0,
        connections={"orders/0": [Connected(BEGAN, "10.77.0.1")]},
        found_by_new_consumers=0,
        drained_s=1.0,
        problems=[],
    )
    return Verdict(
        seed=1,
        seconds=30.0,
        faults=["kill", "cut"],
        began=BEGAN,
        wall_clock_offset_s=0.0,
        happened=[
            Happened("kill", "kill root (p1)", BEGAN + 10, BEGAN + 12),
            Happened("cut", "cut off backup (p2, 1.0 s)", BEGAN + 20, BEGAN + 21),
        ],
        outcome=outcome,
        problems=problems or [],
        whole_again_s=0.1,
        disk_bytes={},
        folder="/somewhere",
    )


def lost(number: int, at_s: float) -> Lost:
    return Lost(f"orders/0/{number}", "orders", BEGAN + at_s - 1, BEGAN + at_s, 1)


def test_a_run_without_losses_is_fine() -> None:
    told = verdict(Count("orders", sent=3, confirmed=3, received=3, duplicates={"redelivered": 2}))
    assert told.is_fine
    assert "nothing lost" in table(told)


def test_each_thing_that_must_not_be_is_a_failure() -> None:
    for count in (
        Count("orders", lost_count=1),
        Count("orders", disordered_count=1),
        Count("orders", never_sent=["orders/0/9"]),
        Count("orders", damaged=["orders/0/9"]),
        Count("orders", unconfirmed=1),
    ):
        assert len(verdict(count).failures()) == 1
    assert verdict(problems=["p1 ended by itself"]).failures() == ["p1 ended by itself"]


def test_lost_messages_are_told_with_the_faults_around_their_confirms() -> None:
    told = verdict(Count("orders", lost_count=3, lost=[lost(1, 9.0), lost(2, 15.0), lost(3, 16.0)]))
    first, second = told.lost_where()
    assert first.startswith("1 of orders, orders/0/1 (9.00 s)")
    assert first.endswith("confirmed before kill root (p1) at 10.0 s")
    assert second == (
        "2 of orders, orders/0/2 (15.00 s) to orders/0/3 (16.00 s), confirmed after kill root (p1) at 10.0 s "
        "and before cut off backup (p2, 1.0 s) at 20.0 s"
    )
    assert "orders/0/2" in table(told)
    assert document(told)["lost_where"] == [first, second]


def test_a_message_out_of_order_is_told_with_its_times() -> None:
    seen = Arrival("orders/0/1", 2, BEGAN + 9, "10.77.0.1", BEGAN + 7, BEGAN + 8, BEGAN + 9)
    told = "orders/0/1 after 2, from 10.77.0.1: sent at 7.00 s, confirmed at 8.00 s, received at 9.00 s"
    assert told in table(verdict(Count("orders", disordered_count=1, disordered=[seen])))


def test_an_outage_belongs_to_the_fault_it_followed() -> None:
    gaps = [Gap(BEGAN + 9.98, BEGAN + 10.4), Gap(BEGAN + 19.99, BEGAN + 22.0)]
    seen = {each.name: round(each.longest_s, 2) for each in verdict(gaps=gaps).outages()}
    assert seen == {"kill root": 0.42, "cut off backup": 2.01}


def test_a_traceback_in_the_log_of_a_broker_is_found(tmp_path: Path) -> None:
    (tmp_path / "p1.log").write_text("fine\nTraceback (most recent call last):\n  File x\nValueError: no\nfine\n")
    (tmp_path / "clients.log").write_text("Traceback (most recent call last):\n")
    (told,) = traces(tmp_path, ["p1", "p2"])
    assert told == "1 x in the logs of p1: Traceback (most recent call last):\n  File x\nValueError: no"


def test_tracebacks_in_one_line_are_told_once_each(tmp_path: Path) -> None:
    line = (
        "2026-11-18T15:42:27.556Z ERROR asyncio: Exception in callback Server.turn()\\nhandle: <Handle {}> "
        'error="AssertionError: epoch (node.py:104 turn > log.py:52 append)"\n'
    )
    (tmp_path / "p1.log").write_text(line.format(1) + line.format(2))
    (tmp_path / "s1.log").write_text(line.format(3) + "2026-11-18T15:42:27.556Z ERROR server: a message was refused\n")
    (told,) = traces(tmp_path, ["p1", "s1"])
    assert told == '3 x in the logs of p1, s1: AssertionError: epoch (node.py:104 turn > log.py:52 append)"'
