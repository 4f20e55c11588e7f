"""Requests that schemathesis makes of the OpenAPI document, for every route: none is answered with a 5xx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from openclust.manage.api.openapi import document
from openclust.manage.api.routes import ROUTES
from openclust.shell.config.schema import HttpSection
from tests.fuzz.http_requests import add_fuzz_user
from tests.support.examples import examples
from tests.support.manage.running_api import RunningApi, running_api

pytestmark = [pytest.mark.sockets, pytest.mark.slow]

EXAMPLES = 5
"""Of each route: as many as find a missing check, in some seconds for all."""


@pytest.fixture(scope="module")
def tried() -> Iterator[RunningApi]:
    with running_api(http=HttpSection(port=0, wrong_logins_max=0)) as api:
        yield api


@pytest.fixture(scope="module")
def operations() -> dict[tuple[str, str], Any]:
    import schemathesis

    schema = schemathesis.openapi.from_dict(document(ROUTES))
    found = [each.ok() for each in schema.get_all_operations()]
    return {(each.method.upper(), each.path): each for each in found}


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_no_request_is_answered_with_a_mistake_of_the_broker(
    tried: RunningApi, operations: dict[tuple[str, str], Any], caplog: pytest.LogCaptureFixture, route: Any
) -> None:
    add_fuzz_user(tried)  # a call may have deleted it
    operation = operations[route.method, route.path]

    @settings(
        examples(EXAMPLES, suppress=list(HealthCheck)),
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        answer = case.call(base_url=f"http://127.0.0.1:{tried.port}", auth=("fuzz", "fuzz"), timeout=20)
        is_told = answer.status_code == 503 and "reason" in answer.json()
        assert answer.status_code < 500 or is_told, f"{case.as_curl_command()}: {answer.text}"

    ask()
    assert "Traceback" not in caplog.text
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
