"""The OpenAPI 3.1 document of the HTTP API, made from the table of its routes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from openclust import __version__
from openclust.manage.calls.call import WHOEVER_LOGS_IN, WITHOUT_LOGIN
from openclust.manage.calls.route import ApiRoute
from openclust.manage.gather.ages import AGE_S_MAX
from openclust.manage.gather.selection import COLUMNS_MAX, PAGE_MAX, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX

_WHOLE = {"type": "integer", "minimum": 1}
_FLAG = {"type": "string", "enum": ["true", "false"]}
_TEXT = {"type": "string"}

_AGES = {
    "lengths_age": "So many seconds of lengths of queues are wanted.",
    "lengths_incr": "The seconds from one length to the next.",
    "msg_rates_age": "So many seconds of counts of messages are wanted.",
    "msg_rates_incr": "The seconds from one count to the next.",
    "data_rates_age": "So many seconds of bytes of connections are wanted.",
    "data_rates_incr": "The seconds from one number of bytes to the next.",
}

QUERY: dict[str, tuple[dict[str, Any], str]] = {
    "page": ({**_WHOLE, "maximum": PAGE_MAX}, "The page, from 1 on; without it the answer is an array of all rows."),
    "page_size": ({**_WHOLE, "maximum": PAGE_SIZE_MAX, "default": PAGE_SIZE_DEFAULT}, "Rows of a page."),
    "name": (_TEXT, "Only rows whose name has this text in it."),
    "use_regex": (_FLAG, "`name` is a regular expression, in RE2's syntax."),
    "sort": (_TEXT, "The column to order by, such as `messages` or `channel_details.name`."),
    "sort_reverse": (_FLAG, "The greatest first."),
    "columns": (_TEXT, f"Only these columns: at most {COLUMNS_MAX} names with commas between them."),
    **{name: ({"type": "integer", "minimum": 0, "maximum": AGE_S_MAX}, told) for name, told in _AGES.items()},
    "if-empty": (_FLAG, "Delete only a queue without messages."),
    "if-unused": (_FLAG, "Delete only an object that nobody uses."),
    "skip_problems": (_FLAG, "Take the entries without a problem, and list the others."),
    "report": (_FLAG, "Answer with the numbers of changes, and with what was ignored."),
    "connect_to": ({"type": "string", "enum": ["root"]}, "`root`: the address of the root."),
    "tls": (_FLAG, "An address with TLS."),
    "family": (_TEXT, "A family of metrics, such as `queue_coarse_metrics`; it may come several times."),
    "vhost": (_TEXT, "Only objects of this virtual host; it may come several times."),
}
"""Parameters of query strings, each with its schema and a sentence. One that is missing here is a text."""

PATH = {
    "vhost": "The name of a virtual host; `/` is written `%2F`.",
    "exchange": "The name of an exchange; `amq.default` is the default exchange.",
    "key": "The `properties_key` of a binding.",
}
_PART = re.compile(r"{(\w+)}")

ERROR = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {
        "error": {"type": "string", "description": "One word for programs."},
        "reason": {"type": "string", "description": "One line for people."},
    },
}
PAGE = {
    "type": "object",
    "properties": {
        name: {"type": "array", "items": {"type": "object"}} if name == "items" else {"type": "integer"}
        for name in ("filtered_count", "item_count", "items", "page", "page_count", "page_size", "total_count")
    },
}
_ERRORS = {
    "400": "The call is not right; `reason` says what.",
    "401": "There is no login, or a wrong one.",
    "403": "The user has not the tag, or the token of the session is missing.",
    "404": "There is no such object.",
    "405": "The path has no such method; `Allow` lists those that it has.",
    "406": "The caller does not accept the type of the answer.",
    "413": "The body is too large.",
    "429": "Too many wrong logins came from this address; `Retry-After` says how many seconds to wait.",
    "503": "It cannot be done now; `reason` says why.",
}


def document(routes: Sequence[ApiRoute], *, prefix: str = "", cookie: str = "") -> dict[str, Any]:
    """The document. `prefix` stands before every path; `cookie` is the name of the session's cookie."""
    bodies = [route.body for route in routes if route.body is not None]
    schemas, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    schema_of = {id(body): schema for body, schema in zip(bodies, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        schema = schema_of[id(route.body)] if route.body is not None else None
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema)
    security = {
        "password": {"type": "http", "scheme": "basic", "description": "A user of the broker."},
        "session": {
            "type": "apiKey",
            "in": "cookie",
            "name": cookie or "session",
            "description": "The cookie of `POST /api/login`. Writes need the header `X-CSRF-Token` too.",
        },
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "openclust",
            "version": __version__,
            "summary": "The management API of a broker and its cluster, in the shapes of RabbitMQ's.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": prefix or "/"}],
        "security": [{"password": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": {**components, "Error": ERROR, "Page": PAGE},
            "responses": {status: _refusal(told) for status, told in _ERRORS.items()},
            "securitySchemes": security,
        },
    }


def _operation(route: ApiRoute, schema: Any) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.method.lower()}_{re.sub(r'[^A-Za-z0-9]+', '_', route.path).strip('_')}",
        "summary": route.summary,
        "tags": [route.path.removeprefix("/api").split("/")[1]],
        "parameters": [*_path_parameters(route.path), *_query_parameters(route.query)],
        "responses": _responses(route),
    }
    if schema is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    if route.tags is WITHOUT_LOGIN:
        operation["security"] = []
    else:
        operation["x-tags-needed"] = [] if route.tags is WHOEVER_LOGS_IN else sorted(route.tags)
    return operation


def _path_parameters(path: str) -> Iterable[dict[str, Any]]:
    for name in _PART.findall(path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "description": PATH.get(name, f"The {name}, URL-encoded."),
            "schema": _TEXT,
        }


def _query_parameters(names: Iterable[str]) -> Iterable[dict[str, Any]]:
    for name in names:
        schema, told = QUERY.get(name, (_TEXT, ""))
        yield {"name": name, "in": "query", "schema": schema} | ({"description": told} if told else {})


def _responses(route: ApiRoute) -> dict[str, Any]:
    found: dict[str, Any] = {"200": _answer(route)}
    if route.method in ("PUT", "POST"):
        found["201"] = {"description": "The object is new."}
    if route.method != "GET":
        found["204"] = {"description": "It is done."}
    return found | {status: {"$ref": f"#/components/responses/{status}"} for status in _ERRORS}


def _answer(route: ApiRoute) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    if route.is_list:
        rows = {"type": "array", "items": {"type": "object"}}
        schema = {"anyOf": [rows, {"$ref": "#/components/schemas/Page"}]}
    return {"description": "The answer.", "content": {route.produces: {"schema": schema}}}


def _refusal(told: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": told, "content": {"application/json": {"schema": schema}}}
