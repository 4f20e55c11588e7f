"""A small client of the management API, for commands. Whatever fails is one line that names the broker's URL."""

from __future__ import annotations

import base64
import http.client
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import unquote, urlsplit

import click
import msgspec

WAIT_S = 120.0
BODY_BYTES_MAX = 1 << 30


class HttpClient:
    """Calls the API behind `url`, which holds user and password."""

    def __init__(self, url: str, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise click.UsageError("--url wants http://USER:PASSWORD@HOST:PORT")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.base = f"{parts.scheme}://{host}:{port or 15_672}{parts.path.rstrip('/')}"
        """The URL without its password, fit to be shown."""
        self.user = unquote(parts.username or "guest")
        login = f"{self.user}:{unquote(parts.password or ('guest' if parts.username is None else ''))}"
        self._authorization = f"Basic {base64.b64encode(login.encode()).decode('ascii')}"
        # A proxy of the environment is for the web, not for a broker.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """Status and JSON of the answer, also where it is an error. click's errors where there is none."""
        request = urllib.request.Request(f"{self.base}{path}", data=body, method=method)
        request.add_header("Authorization", self._authorization)
        request.add_header("Content-Type", "application/json")
        try:
            with self._opener.open(request, timeout=self._wait_s) as response:
                return response.status, self._decoded(response.read(BODY_BYTES_MAX))
        except urllib.error.HTTPError as error:
            with error:
                return error.code, self._decoded(error.read(BODY_BYTES_MAX))
        except urllib.error.URLError as error:
            raise click.ClickException(self._unreachable(error.reason)) from None
        except OSError as error:
            raise click.ClickException(self._unreachable(error)) from None
        except http.client.HTTPException:
            raise click.ClickException(self._unreachable("what listens there does not speak HTTP")) from None

    def refusal(self, status: int, answer: Any) -> str:
        """Why a call was refused, and the way out."""
        reason = answer.get("reason") if isinstance(answer, dict) else None
        text = f"{self.base} refused this: {reason or f'status {status}'}"
        if status == 401:
            text += "; give a user in --url http://USER:PASSWORD@HOST:PORT"
        elif status == 403:
            text += "; openclust users list shows the tags of a users file"
        return text

    def _unreachable(self, reason: object) -> str:
        told = getattr(reason, "strerror", None) or reason or "nothing came back"
        return (
            f"no answer from the HTTP API at {self.base}: {told}; is a broker running there, "
            "with [http] enabled and this port (openclust start --http-port PORT)?"
        )

    def _decoded(self, data: bytes) -> Any:
        try:
            return msgspec.json.decode(data) if data else None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise click.ClickException(f"what answers at {self.base} is not the HTTP API of a broker") from None
