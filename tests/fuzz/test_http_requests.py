"""Mutated HTTP requests: no 5xx without a reason, no error in the log, no memory that grows, nothing left open."""

from __future__ import annotations

import asyncio
import random

import psutil
import pytest

from tests.fuzz.http_requests import SECTION, add_fuzz_user, main, mutated, request, run
from tests.support.manage.running_api import running_api

pytestmark = pytest.mark.sockets

REQUESTS = 1_500
GROWTH_BYTES_MAX = 120_000_000
"""The hash of a password takes 16 MiB, and each thread that made one keeps them; the threads are bounded."""


def test_what_is_sent_over_http_ends_in_an_answer_or_a_closed_connection(caplog: pytest.LogCaptureFixture) -> None:
    with running_api(http=SECTION) as api:
        add_fuzz_user(api)
        asyncio.run(run(api.port, 1, REQUESTS // 3))
        before = psutil.Process().memory_info().rss
        add_fuzz_user(api)
        found = asyncio.run(run(api.port, 2, REQUESTS))
        assert found.wrong == []
        assert {200, 400, 404, 405} <= found.statuses.keys(), "the requests reach the handlers too"
        assert found.closed < REQUESTS / 5
        assert psutil.Process().memory_info().rss - before < GROWTH_BYTES_MAX
        assert [record.getMessage() for record in caplog.records if record.exc_info] == []
        assert api.call("GET", "/api/whoami").status == 200


def test_a_seed_gives_the_same_requests() -> None:
    assert [request(random.Random(3)) for _ in range(2)] == [request(random.Random(3))] * 2
    assert mutated(b"GET / HTTP/1.1", random.Random(1)) == mutated(b"GET / HTTP/1.1", random.Random(1))


def test_the_command_says_what_came_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--requests", "50"]) == 0
    assert "50 requests" in capsys.readouterr().out
