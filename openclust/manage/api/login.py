"""Logging in and out with a session, and what RabbitMQ's own pages ask before."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec
from aiohttp import web

from openclust.manage.calls.call import ANYBODY, Call, Refused, answer, bad_request, done
from openclust.manage.calls.http_logins import HTTP_LOGINS, TOKEN_HEADER, check_origin
from openclust.wire.sasl import Credentials

LOGIN_BYTES_MAX = 8_192


class LoginBody(msgspec.Struct):
    username: str
    password: str


async def login(call: Call) -> web.Response:
    """Begin a session. The body is a form, as RabbitMQ takes it, or JSON."""
    check_origin(call.request)
    given = await _read(call)
    logins = call.request.app[HTTP_LOGINS]
    user = await logins.check(call.request, Credentials(given.username, given.password.encode()))
    if ANYBODY.isdisjoint(user.tags):
        raise Refused(403, "not_authorized", f"user '{user.name}' has no tag that opens the HTTP API")
    response = answer("ok")
    logins.begin_session(user, response)
    return response


async def _read(call: Call) -> LoginBody:
    data = await call.body(LOGIN_BYTES_MAX)
    try:
        if call.request.content_type == "application/json":
            return msgspec.json.decode(data, type=LoginBody)
        form = dict(parse_qsl(data.decode(), keep_blank_values=True, max_num_fields=10))
        return msgspec.convert(form, LoginBody)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise bad_request(f"the body is not right: {error}") from None


async def logout(call: Call) -> web.Response:
    """End the session of this call, if it has one."""
    response = done()
    call.request.app[HTTP_LOGINS].end_session(call.request, response)
    return response


async def whoami(call: Call) -> web.Response:
    """The user, and for a session the token that its writes need: a page that is loaded again has lost it."""
    response = answer({"name": call.user.name, "tags": list(call.user.tags)})
    if token := call.request.app[HTTP_LOGINS].write_token(call.request):
        response.headers[TOKEN_HEADER] = token
    return response


async def auth(call: Call) -> web.Response:
    """No login by OAuth is offered here."""
    return answer({"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""})


async def extensions(call: Call) -> web.Response:
    """The one extension that every RabbitMQ lists: its management pages."""
    return answer([{"javascript": "dispatcher.js"}])
