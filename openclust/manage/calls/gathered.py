"""Answers for the whole cluster, as HTTP answers."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from aiohttp import web

from openclust.manage.calls.call import Call, Refused, bad_request, not_found
from openclust.manage.gather.ages import Ages, ages_of
from openclust.manage.gather.gathering import GatheredRows, page_of
from openclust.manage.gather.questions import Act, FindRow, ListRows, ReplyFailure, ReplyValue
from openclust.manage.gather.selection import BadSelection, Row, Selection, selection_of

NOTE = "X-Openclust-Note"
MISSING = "X-Openclust-Missing"
"""The header that names the brokers that did not answer: what they have is not in the answer."""


def selection(call: Call) -> Selection:
    """The filter, order, page and columns that the query string asks for; 400 if a parameter is wrong."""
    try:
        return selection_of(call.request.query)
    except BadSelection as error:
        raise bad_request(str(error)) from None


def wanted_ages(call: Call) -> Ages:
    """How far back the query string asks to see."""
    try:
        return ages_of(call.request.query)
    except BadSelection as error:
        raise bad_request(str(error)) from None


async def rows(
    call: Call, kind: str, *, vhost: str | None = None, of: str = "", where: dict[str, str] | None = None
) -> web.Response:
    """The wanted rows of one kind of object, from all brokers."""
    wanted = selection(call)
    question = ListRows(
        kind=kind,
        viewer=call.viewer(),
        selection=wanted,
        vhost=vhost,
        of=of,
        where={} if where is None else where,
        ages=wanted_ages(call),
    )
    return list_response(await call.gathering.rows(question), wanted)


def list_response(found: GatheredRows, wanted: Selection) -> web.Response:
    """The wanted rows. Headers say how many were left out, and which brokers did not answer."""
    response = json_response(_page(found, wanted), found.missing)
    if not wanted.page and found.filtered > len(found.rows):
        response.headers[NOTE] = f"the first {len(found.rows)} of {found.filtered} rows; ask for pages with ?page=1"
    return response


def _page(found: GatheredRows, wanted: Selection) -> bytes:
    """The wanted page as JSON. As in RabbitMQ, a page past the last one is an error."""
    if wanted.page > 1 and wanted.start >= found.filtered:
        last = found.page_count(wanted)
        raise Refused(400, "page_out_of_range", f"page {wanted.page} is past the last one, {last}")
    return page_of(found, wanted)


async def row(call: Call, kind: str, name: str, *, vhost: str = "", what: str) -> web.Response:
    """One object, wherever it is, as an answer."""
    return json_response(await _found(call, kind, name, vhost, what), [])


async def find_row(call: Call, kind: str, name: str, *, vhost: str = "", what: str) -> Row:
    """One object, wherever it is, for more to be said of it."""
    shown: Row = msgspec.json.decode(await _found(call, kind, name, vhost, what))
    return shown


async def _found(call: Call, kind: str, name: str, vhost: str, what: str) -> bytes:
    """One object as JSON; 404 if no broker has it, 503 if one that may have it did not answer."""
    found = await call.gathering.ask_all(
        FindRow(kind=kind, viewer=call.viewer(), name=name, vhost=vhost, ages=wanted_ages(call))
    )
    for reply in found.replies.values():
        if isinstance(reply, ReplyValue) and reply.value:
            return reply.value
    raise nowhere(what, found.missing)


async def act(call: Call, question: Act, *, what: str) -> bytes:
    """Have the broker that has an object act on it. Returns that broker's answer, as JSON."""
    found = await call.gathering.ask_all(question)
    for reply in found.replies.values():
        if isinstance(reply, ReplyValue) and reply.value:
            return reply.value
        if isinstance(reply, ReplyFailure) and reply.status != 404:
            raise Refused(reply.status, reply.error, reply.reason)
    raise nowhere(what, found.missing)


def nowhere(what: str, missing: Iterable[str]) -> Refused:
    """The error for an object that no broker has shown."""
    names = ", ".join(missing)
    if names:
        return Refused(503, "missing_brokers", f"{what} is at none of the brokers that answer; no answer from {names}")
    return not_found(f"there is no {what}")


def json_response(body: bytes, missing: Iterable[str]) -> web.Response:
    return lacking(web.Response(body=body, content_type="application/json"), missing)


def lacking(response: web.Response, missing: Iterable[str]) -> web.Response:
    """The answer, with the names of the brokers whose part it lacks."""
    names = ",".join(missing)
    if names:
        response.headers[MISSING] = names
    return response
