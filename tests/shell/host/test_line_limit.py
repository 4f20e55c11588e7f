"""Clients that try again and again: the first lines of a minute are logged, then one with the number of the others."""

from __future__ import annotations

import logging

import pytest

from openclust.shell.host.line_limit import COUNTS_MAX, INTERVAL_MS, LINES_MAX, LineLimit

EVENT = "login refused"


def admitted(limit: LineLimit, times: int, host: str = "10.0.0.1", event: str = EVENT, now_ms: int = 0) -> int:
    return sum(limit.admits(host, event, now_ms) for _ in range(times))


@pytest.fixture
def limit() -> LineLimit:
    return LineLimit(logging.getLogger("openclust.server"))


def test_one_address_has_so_many_lines_of_an_event(limit: LineLimit) -> None:
    assert admitted(limit, 100) == LINES_MAX


def test_another_address_and_another_event_have_lines_of_their_own(limit: LineLimit) -> None:
    admitted(limit, 100)
    assert admitted(limit, 1, host="10.0.0.2") == 1
    assert admitted(limit, 1, event="handshake timed out") == 1


def test_after_a_minute_one_line_says_how_many_were_left_out(
    limit: LineLimit, caplog: pytest.LogCaptureFixture
) -> None:
    admitted(limit, LINES_MAX + 32)
    limit.look(INTERVAL_MS - 1)
    assert not caplog.records
    limit.look(INTERVAL_MS)
    limit.look(INTERVAL_MS + 1)
    (record,) = caplog.records
    assert record.message == "login refused: 32 more in the last minute"
    assert record.fields == {"peer": "10.0.0.1"}  # type: ignore[attr-defined]
    assert admitted(limit, 100, now_ms=INTERVAL_MS + 1) == LINES_MAX, "a new minute"


def test_nothing_is_said_where_no_line_was_left_out(limit: LineLimit, caplog: pytest.LogCaptureFixture) -> None:
    admitted(limit, LINES_MAX)
    limit.look(INTERVAL_MS)
    assert not caplog.records


def test_very_many_addresses_share_the_lines_of_one(limit: LineLimit, caplog: pytest.LogCaptureFixture) -> None:
    assert sum(admitted(limit, 1, host=f"host {number}") for number in range(3 * COUNTS_MAX)) == COUNTS_MAX + LINES_MAX
    limit.look(INTERVAL_MS)
    assert [record.message for record in caplog.records] == [
        f"other clients: {2 * COUNTS_MAX - LINES_MAX} more in the last minute"
    ]
