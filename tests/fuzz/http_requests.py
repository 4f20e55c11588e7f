"""Mutated HTTP requests to a running broker: each is answered without a 5xx, or its connection is closed.

python -m tests.fuzz.http_requests --requests 10000 --seed 1
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import logging
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence

import msgspec
import psutil

from openclust.broker.model.access import Permission, User
from openclust.manage.api.routes import ROUTES
from openclust.manage.calls.route import ApiRoute
from openclust.shell.config.schema import HttpSection
from openclust.shell.server import Server
from openclust.shell.users.passwords import hash_password
from tests.support.manage.running_api import RunningApi, running_api

WORKERS = 16
ANSWER_WAIT_S = 1.0
"""A request whose length was mutated may wait for bytes that never come."""
ANSWER_BYTES_MAX = 1_048_576
SECTION = HttpSection(port=0, wrong_logins_max=0)
LOGIN = base64.b64encode(b"fuzz:fuzz").decode()
NAMES = (
    *("%2F", "fuzz-a", "fuzz-b", "amq.topic", "amq.default", "~", "a%2Fb", ".."),
    *("%00", "%0a", "%", "%ff%fe", "%C3%A9", "%ed%a0%80", "%F4%8D%A5%8F", "x" * 300),
)
VALUES = ("1", "0", "-1", "true", "", "name", "(", "^a", "99999999999999999999", "%00", "%ff", "a,b", "a.b.c", "[]")
HEADERS = (
    "Accept: text/html",
    "Accept: */*;q=x",
    "Accept-Encoding: gzip",
    "Content-Encoding: gzip",
    "Content-Type: application/x-www-form-urlencoded",
    "Cookie: openclust_session_1=x; =; ;;",
    "Expect: 100-continue",
    "Expect: nonsense",
    "Origin: null",
    "Range: bytes=0-1",
    "Transfer-Encoding: chunked",
    "Upgrade: websocket\r\nConnection: Upgrade",
    "X-Reason: \xff\xfe",
    "X-HTTP-Method-Override: DELETE",
    "Authorization: Basic !!",
    "Authorization: Bearer \x01",
)
BODIES = (
    b"",
    b"{}",
    b"[]",
    b"null",
    b'{"tags":"","password":"x"}',
    b'{"pattern":".*","definition":{"max-length":1},"apply-to":"queues"}',
    b'{"configure":"(","write":"","read":""}',
    b'{"durable":true,"auto_delete":false,"arguments":{"x-max-length":1e400}}',
    b'{"type":"topic","arguments":{"a":[[[[1]]]]}}',
    b'{"routing_key":"k","payload":"aGk=","payload_encoding":"base64","properties":{"headers":{"a":null}}}',
    b'{"count":1,"ackmode":"ack_requeue_true","encoding":"auto"}',
    b'{"value":-1}',
    b'{"queues":[{"name":"q","vhost":"/"}],"users":[{}]}',
    b"username=fuzz&password=fuzz",
    b'{"a":' + b"[" * 3_000,
    b'"\xff"',
    b"\x00" * 100,
)
METHODS = ("GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "BREW", "get", "CONNECT")


class Findings(msgspec.Struct):
    """What came back. `wrong` are requests that were answered with a 5xx that says no reason."""

    statuses: Counter[int]
    wrong: list[bytes]
    closed: int = 0


def request(chance: random.Random, routes: Sequence[ApiRoute] = ROUTES) -> bytes:
    """A request for one of the routes, mutated or not."""
    route = chance.choice(routes)
    path = re.sub(r"{\w+}", lambda _: chance.choice(NAMES), route.path)
    query = "&".join(f"{name}={chance.choice(VALUES)}" for name in route.query if chance.random() < 0.3)
    method = route.method if chance.random() < 0.8 else chance.choice(METHODS)
    body = chance.choice(BODIES) if method not in ("GET", "HEAD") or chance.random() < 0.1 else b""
    if chance.random() < 0.3:
        body = mutated(body, chance)
    head = [f"{method} {path}{'?' if query else ''}{query} HTTP/1.1", "Host: x", f"Authorization: Basic {LOGIN}"]
    head += chance.sample(HEADERS, chance.choice((0, 0, 0, 1, 2)))
    if chance.random() < 0.1:
        head.append("Transfer-Encoding: chunked")
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        body = mutated(body, chance) if chance.random() < 0.5 else body
    else:
        head.append(f"Content-Length: {len(body)}")
    data = "\r\n".join(head).encode("latin-1") + b"\r\n\r\n"
    return (mutated(data, chance) if chance.random() < 0.3 else data) + body


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The bytes with some of them changed, left out, doubled or put in."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found) + 1)
        match chance.randrange(4):
            case 0:
                found[at:at] = chance.randbytes(chance.choice((1, 1, 4, 200)))
            case 1:
                del found[at : at + chance.choice((1, 2, 10))]
            case 2:
                found[at:at] = found[at : at + chance.choice((2, 20, 200))]
            case _:
                found[at : at + 1] = chance.choice((b"\x00", b"\r", b"\n", b"\xff", b"%", b" ", b":", b"\x7f"))
    return bytes(found)


async def run(port: int, seed: int, count: int) -> Findings:
    """Send so many requests, several at a time, each on a connection of its own."""
    chance = random.Random(seed)
    waiting = [request(chance) for _ in range(count)]
    findings = Findings(Counter(), [])

    async def worker() -> None:
        while waiting:
            data = waiting.pop()
            await send(port, data, findings)

    await asyncio.gather(*(worker() for _ in range(WORKERS)))
    return findings


async def send(port: int, data: bytes, findings: Findings) -> None:
    answer = b""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        async with asyncio.timeout(ANSWER_WAIT_S):
            head = await reader.readuntil(b"\r\n\r\n")
            while head.startswith(b"HTTP/1.1 100 "):
                head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            left = int(length[1]) if length is not None and not data.startswith(b"HEAD") else 0
            answer = head + await reader.readexactly(min(left, ANSWER_BYTES_MAX))
    except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
    status = re.match(rb"HTTP/1\.[01] (\d\d\d)", answer)
    if status is None:
        findings.closed += 1
        return
    findings.statuses[int(status[1])] += 1
    is_told = status[1] == b"503" and (b'"reason"' in answer or data.startswith(b"HEAD"))
    if int(status[1]) >= 500 and not is_told:
        findings.wrong.append(data[:500] + b"\n--> " + answer[-500:])


def add_fuzz_user(api: RunningApi) -> None:
    """The user that the requests come from. They may delete it: `guest` stays."""
    everything = Permission(".*", ".*", ".*")
    user = User(
        name="fuzz", password_hash=hash_password("fuzz"), tags=("administrator",), permissions={"/": everything}
    )

    def add(server: Server) -> None:
        server.broker.put_user(user)

    api.on_loop(add)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz.http_requests")
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.ERROR)
    process = psutil.Process()
    with running_api(http=SECTION) as api:
        add_fuzz_user(api)
        memory, began, sent = [], time.monotonic(), 0
        parts = 5
        total = Findings(Counter(), [])
        for part in range(parts):
            add_fuzz_user(api)
            found = asyncio.run(run(api.port, given.seed * 1_000 + part, given.requests // parts))
            total.statuses += found.statuses
            total.wrong += found.wrong
            total.closed += found.closed
            sent += given.requests // parts
            memory.append(round(process.memory_info().rss / 1_048_576, 1))
            print(f"{sent} requests, {time.monotonic() - began:.0f} s, {memory[-1]} MiB")
    print(f"statuses {dict(sorted(total.statuses.items()))}, closed without an answer {total.closed}")
    for each in total.wrong[:20]:
        print(each)
    return 1 if total.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
