"""The OpenAPI document: it is valid, and names every route with its parameters, its body and the tags it needs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from openclust.manage.api.openapi import QUERY, document
from openclust.manage.api.routes import ROUTES
from openclust.manage.api.table import table
from openclust.manage.calls.call import WITHOUT_LOGIN


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return document(ROUTES, prefix="/mq", cookie="a_cookie")


def operation(made: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = made["paths"][path][method.lower()]
    return found


def test_it_is_a_valid_openapi_document(made: dict[str, Any]) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator

    assert list(OpenAPIV31SpecValidator(made).iter_errors()) == []  # type: ignore[arg-type]


def test_it_has_every_route_and_no_other(made: dict[str, Any]) -> None:
    told = {(method.upper(), path) for path, operations in made["paths"].items() for method in operations}
    assert told == {(route.method, route.path) for route in ROUTES}
    assert len(told) == len(ROUTES), "two rows of the table are of one method and path"


def test_each_operation_has_an_id_and_a_summary_of_its_own(made: dict[str, Any]) -> None:
    operations = [each for path in made["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations)
    assert all(each["summary"] and not each["summary"].endswith(".") for each in operations)


def test_it_names_the_parts_of_a_path_and_the_parameters_of_a_query(made: dict[str, Any]) -> None:
    parameters = operation(made, "GET", "/api/queues/{vhost}")["parameters"]
    assert [(each["in"], each["name"]) for each in parameters][:2] == [("path", "vhost"), ("query", "page")]
    for route in ROUTES:
        named = {each["name"] for each in operation(made, route.method, route.path)["parameters"]}
        assert named == {*re.findall(r"{(\w+)}", route.path), *route.query}, route.path


def test_every_parameter_has_a_sentence() -> None:
    assert {name for route in ROUTES for name in route.query} - QUERY.keys() == set()


def test_a_body_has_the_schema_of_its_type(made: dict[str, Any]) -> None:
    body = operation(made, "PUT", "/api/users/{user}")["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/UserBody"}
    assert made["components"]["schemas"]["UserBody"]["required"] == ["tags"]


def test_it_says_who_may_call(made: dict[str, Any]) -> None:
    assert operation(made, "GET", "/api/users")["x-tags-needed"] == ["administrator"]
    assert operation(made, "GET", "/api/target")["x-tags-needed"] == []
    assert operation(made, "GET", "/api/health")["security"] == []
    assert made["components"]["securitySchemes"]["session"]["name"] == "a_cookie"
    assert made["servers"] == [{"url": "/mq"}]


def test_the_table_of_the_page_says_who_may_call() -> None:
    rows = table(ROUTES).splitlines()
    assert "| `GET /api/health` | (no login) | Whether the process runs |" in rows
    assert any(row.startswith("| `GET /api/target` | (none) | ") for row in rows)
    assert any(row.startswith("| `PUT /api/policies/VHOST/NAME` | policymaker | ") for row in rows)
    assert any(row.startswith("| `GET /api/queues` | any | ") and "(#lists-and-pages)" in row for row in rows)


def test_only_these_calls_need_no_login() -> None:
    assert {route.path for route in ROUTES if route.tags is WITHOUT_LOGIN} == {
        "/api/auth",
        "/api/health",
        "/api/login",
        "/api/logout",
        "/api/ready",
        "/api/openapi.json",
    }
