"""A verdict for people, and one for programs."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.torture.ledger import REPEATED, REPUBLISHED, UNEXPLAINED, Count
from tests.torture.verdict import Verdict

SHOWN = 20
SHOWN_OF_A_QUEUE = 5
HEADINGS = ("queue", "sent", "confirmed", "received", "lost", "redelivered", "republished", "unflagged", "disordered")


def document(verdict: Verdict) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(verdict)
    gaps = found["outcome"].pop("gaps")
    return {
        "is_fine": verdict.is_fine,
        "failures": verdict.failures(),
        "totals": msgspec.to_builtins(_total(verdict.counts)),
        "longest_outage_s": verdict.outcome.longest.length_s,
        "longest_outage_of_one_publisher_s": verdict.outcome.longest_of_one.length_s,
        "outages": [msgspec.to_builtins(each) for each in verdict.outages()],
        "lost_where": verdict.lost_where(),
        **found,
        "gap_count": len(gaps),
    }


def table(verdict: Verdict) -> str:
    outcome = verdict.outcome
    rows = [_row(count) for count in verdict.counts]
    rows.append(_row(_total(verdict.counts)))
    connections = sum(map(len, outcome.connections.values()))
    lines = [
        f"seed {verdict.seed}, {verdict.seconds:.0f} s, {len(verdict.happened)} faults ({', '.join(verdict.faults)})",
        "",
        *_aligned([HEADINGS, *rows]),
        "",
        f"nacks {outcome.nacks}, connections of publishers {connections}, drained in "
        f"{outcome.drained_s:.1f} s, all follow one root {verdict.whole_again_s:.1f} s after the last fault",
        f"longest time without a confirm: {outcome.longest.length_s:.2f} s (at "
        f"{max(outcome.longest.since - verdict.began, 0.0):.0f} s); of one publisher "
        f"{outcome.longest_of_one.length_s:.2f} s",
        "",
        *_aligned(
            [
                ("after", "faults", "median s", "longest s"),
                *(
                    (each.name, str(each.count), f"{each.median_s:.2f}", f"{each.longest_s:.2f}")
                    for each in verdict.outages()
                ),
            ]
        ),
        "",
    ]
    return "\n".join([*lines, *_bad(verdict)])


def _bad(verdict: Verdict) -> list[str]:
    if verdict.is_fine:
        return ["nothing lost, nothing out of order"]
    lines = [f"FAILED (seed {verdict.seed}; logs and data in {verdict.folder}):"]
    lines += [f"  {text}" for text in verdict.failures()]
    lines += [f"  lost: {text}" for text in verdict.lost_where()[:SHOWN]]
    for count in verdict.counts:
        if count.lost_count:
            lines.append(f"  {count.queue}: the broker says that {count.left} messages are left in the queue")
        lines += [f"  out of order: {verdict.arrival(each)}" for each in count.disordered[:SHOWN_OF_A_QUEUE]]
        lines += [f"  never sent to {count.queue}: {text}" for text in count.never_sent[:SHOWN_OF_A_QUEUE]]
    return lines + [f"  clients: {text}" for text in verdict.outcome.problems[:SHOWN]]


def _total(counts: list[Count]) -> Count:
    total = Count("all")
    for count in counts:
        total.sent += count.sent
        total.confirmed += count.confirmed
        total.received += count.received
        total.unconfirmed += count.unconfirmed
        total.lost_count += count.lost_count
        total.disordered_count += count.disordered_count
        for kind, number in count.duplicates.items():
            total.duplicates[kind] = total.duplicates.get(kind, 0) + number
    return total


def _row(count: Count) -> tuple[str, ...]:
    duplicates = [count.duplicates.get(kind, 0) for kind in (REPEATED, REPUBLISHED, UNEXPLAINED)]
    numbers = (count.sent, count.confirmed, count.received, count.lost_count, *duplicates, count.disordered_count)
    return (count.queue, *map(str, numbers))


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) if not number else cell.rjust(width) for number, (cell, width) in pairs).rstrip()
        for pairs in (enumerate(zip(row, widths, strict=True)) for row in rows)
    ]
