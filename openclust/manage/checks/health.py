"""RabbitMQ's health checks: each answers one question with 200, or with 503 and the reason."""

from __future__ import annotations

import time
from typing import Any

import msgspec
from aiohttp import web

from openclust.cluster.election.quorum import is_critical
from openclust.manage.calls.acting import acting
from openclust.manage.calls.call import Call, Refused, answer, bad_request
from openclust.manage.calls.gathered import lacking
from openclust.manage.gather.questions import CountTotals, FindRow, ListRows, ReplyRows, ReplyValue, Viewer
from openclust.manage.gather.selection import Row, Selection
from openclust.manage.resources.nodes import node_name
from openclust.shell.tls.certificates import DAY_S, OurCertificate, stamp
from openclust.wire.methods import BasicAck, QueueDeclare, QueueDeclareOk
from openclust.wire.properties import Properties

ALIVENESS_QUEUE = "aliveness-test"
NODE_ALARMS = ("name", "mem_alarm", "disk_free_alarm")

PROTOCOL_NAMES = {"amqp091": "amqp", "amqp0-9-1": "amqp", "amqps": "amqp/ssl", "amqp-tls": "amqp/ssl"}
"""Other names of the protocols of listeners."""

UNIT_DAYS = {"days": 1, "weeks": 7, "months": 30, "years": 365}
WITHIN_MAX = 10_000

_NO_QUESTION_IS_ANSWERED = frozenset({"primaries", "root", "link", "definitions"})
"""Obstacles that keep this broker from using shared queues."""


def passed(**more: Any) -> web.Response:
    return answer({"status": "ok", **more})


def failed(reason: str, **more: Any) -> web.Response:
    return answer({"status": "failed", "reason": reason, **more}, 503)


# -- alarms


async def alarms(call: Call) -> web.Response:
    """Whether publishers have to wait anywhere. A broker that does not answer is named in a header."""
    question = ListRows(kind="nodes", viewer=call.viewer(), selection=Selection(columns=NODE_ALARMS))
    found = await call.gathering.ask_all(question)
    rows = [row for reply in found.replies.values() if isinstance(reply, ReplyRows) for _, row in reply.rows]
    raised = [each for row in rows for each in _alarms_of(msgspec.json.decode(row))]
    response = failed("There are alarms in effect in the cluster", alarms=raised) if raised else passed()
    return lacking(response, found.missing)


async def local_alarms(call: Call) -> web.Response:
    raised = _alarms_of(await _node_row(call, call.broker.name) or {})
    return failed("There are alarms in effect on the node", alarms=raised) if raised else passed()


def _alarms_of(row: Row) -> list[dict[str, str]]:
    resources = {"mem_alarm": "memory", "disk_free_alarm": "disk"}
    return [{"node": row["name"], "resource": each} for column, each in resources.items() if row.get(column)]


async def _node_row(call: Call, name: str) -> Row | None:
    """The row of a broker; None if it does not answer."""
    found = await call.gathering.ask([name], FindRow(kind="nodes", viewer=call.viewer(), name=name))
    reply = found.replies.get(name)
    if not isinstance(reply, ReplyValue) or not reply.value:
        return None
    row: Row = msgspec.json.decode(reply.value)
    return row


async def node(call: Call) -> web.Response:
    """RabbitMQ's older check of one broker: 200 in both cases, and the status says which."""
    name = node_name(call) if "node" in call.request.match_info else call.broker.name
    row = await _node_row(call, name)
    if row is None:
        return answer({"status": "failed", "reason": f"{name} does not answer"})
    raised = ", ".join(each["resource"] for each in _alarms_of(row))
    return answer({"status": "failed", "reason": f"alarms in effect: {raised}"}) if raised else passed()


# -- listeners


async def port_listener(call: Call) -> web.Response:
    text = call.part("port")
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise bad_request("Invalid port")
    port = int(text)
    ports = sorted({each["port"] for each in await _listeners(call)})
    return passed(port=port) if port in ports else failed("No active listener", missing=port, ports=ports)


async def protocol_listener(call: Call) -> web.Response:
    name = call.part("protocol")
    protocols = sorted({each["protocol"] for each in await _listeners(call)})
    if PROTOCOL_NAMES.get(name, name) in protocols:
        return passed(protocol=name)
    return failed("No active listener", missing=name, protocols=protocols)


async def _listeners(call: Call) -> list[Row]:
    """The listeners of this broker; all users of the API may know of these."""
    viewer = Viewer(name=call.user.name, sees_all=True)
    name = call.broker.name
    found = await call.gathering.ask([name], CountTotals(of="listeners", viewer=viewer))
    reply = found.replies[name]
    assert isinstance(reply, ReplyValue), "every broker knows where it listens"
    listeners: list[Row] = msgspec.json.decode(reply.value)["listeners"]
    return listeners


async def certificate_expiration(call: Call) -> web.Response:
    """Whether all certificates that this broker uses are valid for so long."""
    text, unit = call.part("within"), call.part("unit")
    if unit not in UNIT_DAYS:
        raise bad_request("Time unit not recognised. Supported units: days, weeks, months, years.")
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= WITHIN_MAX):
        raise bad_request(f"Invalid expiration duration: give a number up to {WITHIN_MAX}")
    end_s = int(time.time()) + int(text) * UNIT_DAYS[unit] * DAY_S
    server = call.server
    files = (each.ours for each in (server.client_tls, server.peer_tls, server.http_tls) if each is not None)
    expired = [_expiring(call, each) for ours in files for each in ours if each.certificate.expires_s <= end_s]
    return failed("Certificates expiring", expired=expired) if expired else passed()


def _expiring(call: Call, ours: OurCertificate) -> dict[str, str]:
    certificate = ours.certificate
    return {
        "node": call.broker.name,
        "key": ours.key,
        "certfile": ours.path,
        "certificate": certificate.subject,
        "cert_expires_on": stamp(certificate.expires_s),
    }


# -- the cluster


async def virtual_hosts(call: Call) -> web.Response:
    """All virtual hosts are served once the definitions have come."""
    return _without(call, {"definitions", "primaries"})


async def ready_to_serve_clients(call: Call) -> web.Response:
    """The question of /api/ready, in the form of a health check."""
    return _without(call, None)


async def is_in_service(call: Call) -> web.Response:
    """Whether nobody is about to take this broker away."""
    return _without(call, {"stopping", "draining"})


def _without(call: Call, checks: set[str] | None) -> web.Response:
    """200 if none of these obstacles stands in the way; None for any."""
    found = call.server.member.membership.readiness.obstacles()
    reasons = [each.reason for each in found if checks is None or each.check in checks]
    return failed("; ".join(reasons)) if reasons else passed()


async def quorum_critical(call: Call) -> web.Response:
    """Whether the cluster would lose its root with this broker, or could not elect one."""
    membership = call.server.member.membership
    if membership.is_alone:
        return passed(reason="single node cluster")
    if membership.is_primary and is_critical(membership.election):
        primaries = ", ".join(membership.primaries)
        return failed(f"without {membership.name} too few of the primaries {primaries} would be left for a root")
    return passed()


async def mirror_sync_critical(call: Call) -> web.Response:
    """Whether this broker is the root, and no other primary holds a copy of its log."""
    membership = call.server.member.membership
    if membership.is_alone:
        return passed(reason="single node cluster")
    others = [name for name in membership.primaries if name != membership.name and membership.is_there(name)]
    if membership.is_root and all(membership.role.lag(name) is None for name in others):
        return failed(f"no other primary has a copy of the messages of {membership.name}")
    return passed()


async def aliveness(call: Call) -> web.Response:
    """Declare a queue, publish a message to it and get it back, as the caller's own client would."""
    vhost = call.vhost()
    for obstacle in call.server.member.membership.readiness.obstacles():
        if obstacle.check in _NO_QUESTION_IS_ANSWERED:
            raise Refused(503, "not_available", obstacle.reason)
    async with acting(call, vhost) as client:
        await client.call(QueueDeclare(queue=ALIVENESS_QUEUE), QueueDeclareOk)
        is_routed, is_taken = await client.publish("", ALIVENESS_QUEUE, Properties(), b"test_message")
        fetched = await client.get(ALIVENESS_QUEUE) if is_routed and is_taken else None
        if fetched is None:
            return failed(f"a message published to '{ALIVENESS_QUEUE}' did not come back")
        client.tell(BasicAck(delivery_tag=fetched.method.delivery_tag))
    return passed()
