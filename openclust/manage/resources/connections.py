"""Connections of applications: shown, and closed."""

from __future__ import annotations

import logging

from aiohttp import web

from openclust.manage.calls.call import ADMINISTRATOR, Call, bad_request, done
from openclust.manage.calls.gathered import act, lacking, row, rows
from openclust.manage.gather.questions import Act, Viewer

log = logging.getLogger("openclust.http")

REASON_CHARACTERS_MAX = 200
DEFAULT_REASON = "Closed via management plugin"
"""RabbitMQ's words: clients may look for them."""


async def connections(call: Call) -> web.Response:
    return await rows(call, "connections", vhost=call.vhost_name(), of=call.request.match_info.get("user", ""))


async def connection(call: Call) -> web.Response:
    name = call.part("connection")
    return await row(call, "connections", name, what=f"connection '{name}'")


async def channels_of(call: Call) -> web.Response:
    name = call.part("connection")
    response = await rows(call, "channels", of=name)
    if response.body == b"[]":
        # One without channels, or none at all: that is 404.
        await row(call, "connections", name, what=f"connection '{name}'")
    return response


async def close_connection(call: Call) -> web.Response:
    """Have the broker that has the connection close it, with the reason in the header X-Reason."""
    name = call.part("connection")
    reason = _reason(call)
    question = Act(action="close_connection", viewer=_closer(call), name=name, arguments={"reason": reason})
    await act(call, question, what=f"connection '{name}'")
    log.info("user %s closed connection %s: %s", call.user.name, name, reason)
    return done()


async def close_connections_of_user(call: Call) -> web.Response:
    """Close all connections of a user; 204 if there is none too, as in RabbitMQ."""
    name = call.part("user")
    reason = _reason(call)
    question = Act(action="close_connections_of_user", viewer=_closer(call), name=name, arguments={"reason": reason})
    found = await call.gathering.ask_all(question)
    log.info("user %s closed all connections of user %s: %s", call.user.name, name, reason)
    return lacking(done(), found.missing)


def _closer(call: Call) -> Viewer:
    """Who may close: an administrator any connection, all others their own. Those who see all may not close all."""
    return Viewer(name=call.user.name, sees_all=not ADMINISTRATOR.isdisjoint(call.user.tags))


def _reason(call: Call) -> str:
    reason = call.request.headers.get("X-Reason", DEFAULT_REASON)
    if len(reason) > REASON_CHARACTERS_MAX:
        raise bad_request(f"a reason has at most {REASON_CHARACTERS_MAX} characters")
    # A header may hold bytes that are no text.
    return reason.encode("utf-8", "replace").decode()
