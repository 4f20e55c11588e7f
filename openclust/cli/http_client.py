"""A small client of the management API, for commands. Every failure is one line that names the broker's URL.

The client takes the URLs of several brokers: if one does not answer, it asks the next one.
"""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlsplit

import click
import msgspec

READ_WAIT_S = 10.0
WRITE_WAIT_S = 60.0
"""A change may wait for a root, and a message for its publisher's turn."""
IMPORT_WAIT_S = 120.0
CONNECT_WAIT_S = 3.0
BODY_BYTES_MAX = 1 << 30
PORT_DEFAULT = 15_672

MISSING_HEADER = "X-Openclust-Missing"


class ApiUrl(NamedTuple):
    """The HTTP API of one broker, and the login that its URL holds."""

    scheme: str
    host: str
    port: int
    path: str
    user: str | None
    password: str | None

    @property
    def base(self) -> str:
        """The URL without a login, fit to be shown."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"

    def with_login(self, login: str) -> str:
        """The URL with this login in place of its own."""
        return self.base.replace("://", f"://{login}@", 1)


def parse_api_url(text: str) -> ApiUrl:
    """click's usage error if it is no URL of an API. The text may hold a password, so the error does not repeat it."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), -1
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
        raise click.UsageError("--url wants http://USER@HOST:PORT")
    return ApiUrl(
        parts.scheme,
        parts.hostname,
        port or PORT_DEFAULT,
        parts.path.rstrip("/"),
        None if parts.username is None else unquote(parts.username),
        None if parts.password is None else unquote(parts.password),
    )


class HttpAnswer(NamedTuple):
    """The answer of a broker. `missing` are brokers that did not answer it, so that their objects are left out."""

    status: int
    document: Any
    missing: tuple[str, ...]


class _NoAnswer(Exception):
    """The reason why a broker gave no answer. `was_sent`: the broker may have performed the call all the same."""

    def __init__(self, base: str, reason: str, way_out: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.base = base
        self.reason = reason
        self.way_out = way_out
        self.was_sent = was_sent


class HttpClient:
    """Calls the API at one of `urls`: at the one that answered last, or else at the next."""

    def __init__(
        self,
        urls: str | Sequence[str],
        wait_s: float | None = None,
        *,
        password: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        given = (urls,) if isinstance(urls, str) else urls
        self._urls = [parse_api_url(each) for each in given]
        self._wait_s = wait_s
        self._password = password
        self._ca_file = ca_file
        self._at = 0
        self._connection: http.client.HTTPConnection | None = None
        self._connected_to = -1

    @property
    def base(self) -> str:
        """The URL of the broker that is asked, without its password."""
        return self._urls[self._at].base

    @property
    def user(self) -> str:
        return self._urls[self._at].user or "guest"

    @property
    def password(self) -> str:
        """The password that was given for all brokers, or the one in the URL. The one of guest is well known."""
        if self._password is not None:
            return self._password
        given = self._urls[self._at]
        if given.password is not None:
            return given.password
        return "guest" if self.user == "guest" else ""

    @property
    def host(self) -> str:
        return self._urls[self._at].host

    def at(self, url: str) -> HttpClient:
        """A client of another broker of the same cluster, with the same login."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return HttpClient(parse_api_url(url).with_login(login), self._wait_s, ca_file=self._ca_file)

    def call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """Returns status and JSON of the answer, also of an error. Raises click's errors if no broker answers."""
        answer = self.ask(method, path, body)
        return answer.status, answer.document

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> HttpAnswer:
        """As `call`, with the brokers that are missing in the answer.

        If a broker cannot be reached, the next is asked. If a broker got the call and does not answer, the next is
        asked only if the call reads: the broker may have made a change.
        """
        failures: list[_NoAnswer] = []
        first = self._at
        for _ in self._urls:
            try:
                return self._ask_one(method, path, body, headers or {})
            except _NoAnswer as failure:
                failures.append(failure)
                if failure.was_sent and method != "GET":
                    raise click.ClickException(_unknown_outcome(failure)) from None
                self._at = (self._at + 1) % len(self._urls)
        self._at = first
        raise click.ClickException(_unreachable(failures))

    def refusal(self, status: int, answer: Any) -> str:
        """Why a call was refused, and the way out."""
        reason = answer.get("reason") if isinstance(answer, dict) else None
        if isinstance(reason, list):
            reason = " ".join(map(str, reason))
        text = f"{self.base} refused this: {reason or f'status {status}'}"
        if status == 401:
            text += (
                "; give a user in --url http://USER@HOST:PORT, and its password by --password-file, "
                "OPENCLUST_PASSWORD or at the prompt"
            )
        elif status == 403:
            text += "; openclust users list shows the tags of a users file"
        return text

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- one broker

    def _ask_one(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> HttpAnswer:
        url = self._urls[self._at]
        is_reused = self._connection is not None and self._connected_to == self._at
        connection = self._connected(method)
        try:
            response, data = self._exchange(connection, method, f"{url.path}{path}", body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            is_idle_end = isinstance(error, ConnectionResetError | BrokenPipeError | http.client.RemoteDisconnected)
            if is_reused and is_idle_end and method != "POST":
                # The server has closed a connection that was idle for long. All methods but POST may be repeated.
                return self._ask_one(method, path, body, headers)
            raise self._silence(error, was_sent=True) from None
        if response.will_close:
            self.close()
        missing = tuple(name for name in (response.headers.get(MISSING_HEADER) or "").split(",") if name)
        return HttpAnswer(response.status, self._decoded(data), missing)

    def _connected(self, method: str) -> http.client.HTTPConnection:
        wait_s = self._wait_s or (READ_WAIT_S if method == "GET" else WRITE_WAIT_S)
        if self._connection is not None and self._connected_to != self._at:
            self.close()
        if self._connection is None:
            url = self._urls[self._at]
            # A machine that is gone must not delay the call to the next broker for long.
            connect_s = wait_s if len(self._urls) == 1 else min(wait_s, CONNECT_WAIT_S)
            if url.scheme == "https":
                context = self._tls()
                connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                    url.host, url.port, timeout=connect_s, context=context
                )
            else:
                connection = http.client.HTTPConnection(url.host, url.port, timeout=connect_s)
            try:
                connection.connect()
            except (OSError, UnicodeError) as error:
                connection.close()
                raise self._silence(error, was_sent=False) from None
            self._connection, self._connected_to = connection, self._at
        if self._connection.sock is not None:
            self._connection.sock.settimeout(wait_s)
        return self._connection

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
    ) -> tuple[http.client.HTTPResponse, bytes]:
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
        told = {"Authorization": f"Basic {login}", "Content-Type": "application/json", **headers}
        connection.request(method, path, body, told)
        response = connection.getresponse()
        return response, response.read(BODY_BYTES_MAX)

    def _tls(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except OSError as error:
            raise click.ClickException(
                f"{self._ca_file}: no certificates can be read from it: {error.strerror or error}"
            ) from None

    def _silence(self, error: Exception, *, was_sent: bool) -> _NoAnswer:
        reason, way_out = _reason_of(error)
        return _NoAnswer(self.base, reason, way_out, was_sent=was_sent)

    def _decoded(self, data: bytes) -> Any:
        try:
            return msgspec.json.decode(data) if data else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise click.ClickException(f"what answers at {self.base} is not the HTTP API of a broker") from None


_IS_IT_THERE = "is a broker running there, with [http] enabled and this port (openclust start --http-port PORT)?"


def _reason_of(error: Exception) -> tuple[str, str]:
    """The reason of a failed call, and the way out."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}", "--ca-file names the authority to trust"
    if isinstance(error, ssl.SSLError):
        return f"no TLS: {error.reason or error}", "http:// in place of https:// is for a port without TLS"
    if isinstance(error, TimeoutError):
        return "it took too long", _IS_IT_THERE
    if isinstance(error, http.client.RemoteDisconnected):
        return "it closed the connection without a word", _IS_IT_THERE
    if isinstance(error, http.client.HTTPException):
        return "what listens there does not speak HTTP", _IS_IT_THERE
    if isinstance(error, UnicodeError):
        return "this is no name of a host", _IS_IT_THERE
    return str(getattr(error, "strerror", None) or error or "nothing came back"), _IS_IT_THERE


def _unreachable(failures: list[_NoAnswer]) -> str:
    if len(failures) == 1:
        only = failures[0]
        return f"no answer from the HTTP API at {only.base}: {only.reason}; {only.way_out}"
    told = ", ".join(f"{each.base} ({each.reason})" for each in failures)
    return f"no answer from any HTTP API: {told}; {failures[-1].way_out}"


def _unknown_outcome(failure: _NoAnswer) -> str:
    return (
        f"{failure.base} got the call, but no answer came: {failure.reason}; "
        "it may have been done: look before you try again"
    )
