"""The calls about the cluster: how it stands as this broker sees it, and an end to this broker's reign."""

from __future__ import annotations

import msgspec
from aiohttp import web

from openclust.manage.call import Call, Refused, answer, bad_request

REASON_CHARACTERS_MAX = 200


class StepDownBody(msgspec.Struct):
    reason: str = ""


async def cluster(call: Call) -> web.Response:
    return answer(call.server.member.snapshot())


async def step_down(call: Call) -> web.Response:
    """Only the root has a reign to end: anybody else answers 409 and names it."""
    body = await call.read(StepDownBody)
    if len(body.reason) > REASON_CHARACTERS_MAX:
        raise bad_request(f"a reason has at most {REASON_CHARACTERS_MAX} characters")
    member = call.server.member
    seen = member.snapshot()
    if not member.step_down(body.reason or f"user '{call.user.name}' said so"):
        root = seen["root"]
        there = next((f" ({each['http']})" for each in seen["brokers"] if each["name"] == root and each["http"]), "")
        who = f"{root} is{there}" if root else "there is none"
        raise Refused(409, "not_root", f"{seen['name']} is not the root, {who}")
    return answer({"stepped_down": seen["name"], "epoch": seen["epoch"]})
