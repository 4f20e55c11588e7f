"""The calls about the cluster: its state, the broker for a new client, step-down, force-root and drain."""

from __future__ import annotations

import logging

import msgspec
from aiohttp import web

from openclust.cluster.membership.draining import obstacle
from openclust.cluster.placing.placing import Newcomer
from openclust.cluster.protocol.roster import BrokerInfo
from openclust.manage.calls.call import Call, Refused, answer, bad_request
from openclust.shell.config.addresses import split_address

log = logging.getLogger("openclust.http")

REASON_CHARACTERS_MAX = 200


class StepDownBody(msgspec.Struct):
    reason: str = ""


class ForceRootBody(msgspec.Struct):
    accept_data_loss: bool = False


class DrainBody(msgspec.Struct):
    name: str
    force: bool = False
    undo: bool = False


async def cluster(call: Call) -> web.Response:
    return answer(call.server.member.snapshot())


async def step_down(call: Call) -> web.Response:
    """Have the root resign. All other brokers answer 409 with the root's name."""
    body = await call.read(StepDownBody)
    if len(body.reason) > REASON_CHARACTERS_MAX:
        raise bad_request(f"a reason has at most {REASON_CHARACTERS_MAX} characters")
    member = call.server.member
    seen = member.snapshot()
    if not member.step_down(_asked(call, body.reason)):
        root = seen["root"]
        there = next((f" ({each['http']})" for each in seen["brokers"] if each["name"] == root and each["http"]), "")
        who = f"{root} is{there}" if root else "there is none"
        raise Refused(409, "not_root", f"{seen['name']} is not the root, {who}")
    return answer({"stepped_down": seen["name"], "epoch": seen["epoch"]})


def _asked(call: Call, reason: str) -> str:
    """A reason with the user who gave it: the other brokers log it."""
    return f"{reason} (asked by user '{call.user.name}')" if reason else f"asked by user '{call.user.name}'"


async def force_root(call: Call) -> web.Response:
    """Make this primary root without an election. Refused (409) if there is a root, or this broker is no primary."""
    body = await call.read(ForceRootBody)
    member = call.server.member
    seen = member.snapshot()
    if not body.accept_data_loss:
        raise bad_request('say {"accept_data_loss": true}: what only the missing primaries hold is given up')
    if seen["root"]:
        raise Refused(409, "has_root", f"{seen['root']} is root; nothing has to be forced")
    if not member.force_root():
        raise Refused(
            409, "cannot", f"{seen['name']} is {seen['role']}: only a primary that is an elector can be forced"
        )
    now = member.snapshot()
    log.warning("user %s made %s root of epoch %d by force", call.user.name, now["name"], now["epoch"])
    return answer({"root": now["name"], "epoch": now["epoch"]})


async def drain(call: Call) -> web.Response:
    """Send this broker's clients away, or stop doing so. Refused (409) if no root could be elected without it."""
    body = await call.read(DrainBody)
    member = call.server.member
    membership = member.membership
    own = membership.hello.name
    if body.name != own:
        raise Refused(409, "wrong_broker", f"this is {own}; ask {body.name} itself")
    if body.undo:
        membership.is_draining = False
        log.warning("drain: %s takes clients again, user %s said so", own, call.user.name)
        return answer({"name": own, "draining": False, "clients": membership.client_count()})
    problem = "" if body.force else obstacle(own, membership.primaries, membership.is_there, membership.roster)
    if problem:
        raise Refused(409, "quorum", problem)
    membership.is_draining = True
    log.warning("drain: %s sends its clients away, user %s said so", own, call.user.name)
    stepped_down = member.step_down(_asked(call, f"{own} is drained"))
    clients, per_s = membership.client_count(), membership.placing.settings.drain_per_s
    shown = {"name": own, "draining": True, "clients": clients, "per_s": per_s, "stepped_down": stepped_down}
    return answer(shown)


async def target(call: Call) -> web.Response:
    """The best broker for a client: `?connect_to=root` asks for the root, `?tls=true` for an address with TLS."""
    query = call.request.query
    is_tls = query.get("tls") == "true"
    membership = call.server.member.membership
    placing = membership.placing
    placing.heard(membership.roster, call.server.now_ms())
    client = Newcomer(wants_root=query.get("connect_to") == "root", is_tls=is_tls)
    found = placing.choose(client, membership.client_count(), is_draining=membership.is_draining)
    if found is not None:
        placing.sent(found)
    name, address = membership.hello.name, _own_address(call, is_tls)
    if found is not None:
        name, address = found.name, found.tls if is_tls else found.client
    if not address:
        raise Refused(404, "not_found", f"{name} does not serve TLS")
    host, port = split_address(address)
    return answer({"name": name, "host": host, "port": port, "known_hosts": placing.known_hosts(is_tls)})


def _own_address(call: Call, is_tls: bool) -> str:
    """The address of this broker for clients: the advertised one, or the one where it listens if none is known yet."""
    membership = call.server.member.membership
    own: BrokerInfo | None = membership.roster.find(membership.hello.name)
    if own is not None and (is_tls or own.client):
        return own.tls if is_tls else own.client
    host, port = call.server.listeners[0].address
    return "" if is_tls else f"{host}:{port}"
