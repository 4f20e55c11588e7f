"""For load balancers and supervisors: whether the process runs, and whether this broker can serve clients."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.calls.call import Call, answer
from openclust.shell.cluster.cluster_snapshot import readiness_snapshot


async def health(call: Call) -> web.Response:
    return answer({"status": "ok"})


async def ready(call: Call) -> web.Response:
    """200, or 503 with the reasons why this broker is not ready."""
    membership = call.server.member.membership
    shown = readiness_snapshot(membership)
    shown |= {"name": membership.name, "peers": membership.peer_address}
    return answer(shown, 200 if shown["is_ready"] else 503)
