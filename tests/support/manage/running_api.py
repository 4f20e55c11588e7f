"""A broker with its HTTP API in a thread of the test's own process, so that a test can look at both sides."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

import msgspec

from openclust.broker.model.limits import Limits
from openclust.manage.api.http_api import HttpApi
from openclust.manage.management import Management
from openclust.shell.config.schema import AuthSection, Config, HttpSection, ListenSection, TlsSection
from openclust.shell.server import Server

WAIT_S = 20.0
NO_TLS = TlsSection()
PLAIN_HTTP = HttpSection(port=0)

T = TypeVar("T")


class Answer(msgspec.Struct):
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class RunningApi:
    """`call` it as a user; look at `server` inside `on_loop` only."""

    def __init__(self, server: Server, management: Management, loop: asyncio.AbstractEventLoop, port: int) -> None:
        self.server = server
        self.management = management
        self.loop = loop
        self.port = port
        self.tls: ssl.SSLContext | None = None
        """What a caller trusts, where the API speaks TLS."""

    @property
    def url(self) -> str:
        return f"http://guest:guest@127.0.0.1:{self.port}"

    def call(
        self, method: str, path: str, body: Any = None, *, login: str | None = "guest:guest", **headers: str
    ) -> Answer:
        connection: http.client.HTTPConnection
        if self.tls is not None:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=WAIT_S, context=self.tls)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        headers = {name.replace("_", "-"): text for name, text in headers.items()}
        with contextlib.closing(connection):
            if login is not None:
                headers.setdefault("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
            headers.setdefault("Content-Type", "application/json")
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())

    def get(self, path: str, login: str | None = "guest:guest") -> Any:
        answer = self.call("GET", path, login=login)
        assert answer.status == 200, answer.data
        return answer.json

    def on_loop(self, function: Callable[[Server], T]) -> T:
        """Call `function` in the broker's own thread."""

        async def called() -> T:
            return function(self.server)

        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(WAIT_S)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the broker's own thread."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(WAIT_S)


@contextlib.contextmanager
def running_api(
    users_file: str | None = None, tls: TlsSection = NO_TLS, http: HttpSection = PLAIN_HTTP, **limits: Any
) -> Iterator[RunningApi]:
    config = Config(
        cluster_key="test",
        name="one",
        listen=ListenSection(port=0),
        tls=tls,
        http=http,
        auth=AuthSection(users_file=users_file),
        limits=Limits(**limits),
    )
    started: list[RunningApi] = []
    ready = threading.Event()
    end: list[Callable[[], object]] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = Server(config, loop)
        management = Management()
        api = HttpApi(config.http, management)
        ending = asyncio.Event()
        end.append(lambda: loop.call_soon_threadsafe(ending.set))
        await server.start()
        await management.start(server)
        await api.start(server)
        started.append(RunningApi(server, management, loop, api.port))
        ready.set()
        await ending.wait()
        await api.stop()
        await management.stop()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(WAIT_S), "the API did not start"
    try:
        yield started[0]
    finally:
        end[0]()
        thread.join(WAIT_S)
        assert not thread.is_alive(), "the API did not stop"
