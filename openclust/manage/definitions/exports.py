"""Export and import of definitions."""

from __future__ import annotations

import asyncio

from aiohttp import web

from openclust.broker.definitions.import_export import Import, export_definitions, export_vhost
from openclust.manage.calls import call as calls
from openclust.manage.calls.call import Call, Refused, answer, bad_request, done
from openclust.manage.definitions.users_file import save_users
from openclust.shell.definitions_file import FILE_BYTES_MAX, parse_definitions

ENTRIES_A_TURN = 500
BACKED_UP_S = 0.005

_one_import = asyncio.Lock()


async def definitions(call: Call) -> web.Response:
    headers = {"Content-Disposition": 'attachment; filename="openclust-definitions.json"'}
    return answer(export_definitions(call.broker), headers=headers)


async def definitions_of_vhost(call: Call) -> web.Response:
    return answer(export_vhost(call.vhost(), call.broker))


async def import_definitions(call: Call) -> web.Response:
    """One import at a time, by parts: the broker serves in between.

    Nothing is changed where an entry has a problem; with `?skip_problems=true` all others are taken. As in RabbitMQ the
    answer is empty, unless problems are skipped or a `?report=true` is asked for.
    """
    vhost = call.vhost_name()
    skip_problems, tells = _flag(call, "skip_problems"), _flag(call, "report")
    if call.request.content_type not in ("application/json", "application/octet-stream"):
        # A form on another site's page can send other types with the browser's login: it must not change anything.
        raise Refused(415, "unsupported_media_type", "send definitions with Content-Type: application/json")
    if _one_import.locked():
        raise Refused(503, "busy", "another import is under way; try again when it is done")
    async with _one_import:
        try:
            document = parse_definitions(await call.body(FILE_BYTES_MAX))
        except ValueError as error:
            raise bad_request(str(error)) from None
        one = Import(call.broker, document, skip_problems=skip_problems, vhost=vhost)
        try:
            await _run(call, one)
        finally:
            await save_users(call, sorted(one.users))
    report = one.report()
    body = {"changed": report.changed, "unchanged": report.unchanged, "ignored": report.ignored}
    if skip_problems:
        return answer({**body, "problems": report.problems})
    if report.problems:
        reason = report.problems[0]
        if len(report.problems) > 1:
            reason += f" (and {len(report.problems) - 1} more, see problems)"
        raise bad_request(reason, problems=report.problems, **body)
    return answer(body) if tells else done()


def _flag(call: Call, name: str) -> bool:
    told = call.request.query.get(name, "false")
    if told not in ("true", "false"):
        raise bad_request(f"{name} is true or false")
    return told == "true"


async def _run(call: Call, one: Import) -> None:
    finished = asyncio.Event()
    one.on_finished = finished.set
    more = True
    while more:
        call.broker.now_ms = call.server.now_ms()
        more = not one.run(ENTRIES_A_TURN)
        call.server.turn_soon()
        await asyncio.sleep(0)
        while one.is_backed_up:
            await asyncio.sleep(BACKED_UP_S)
    try:
        await asyncio.wait_for(finished.wait(), calls.ANSWER_WAIT_S)
    except TimeoutError:
        raise Refused(503, "timeout", f"not all changes were ordered within {calls.ANSWER_WAIT_S:g} s") from None
