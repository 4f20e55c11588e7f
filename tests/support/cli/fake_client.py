"""A client of the HTTP API for the tests of commands: it has answers, and remembers what it was asked."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from openclust.cli.http_client import HttpAnswer, HttpClient


class FakeClient(HttpClient):
    """Gives its answers in their order, and the last one for ever."""

    def __init__(self, *answers: HttpAnswer | Any) -> None:
        super().__init__("http://127.0.0.1:1")
        self._answers = [each if isinstance(each, HttpAnswer) else HttpAnswer(200, each, ()) for each in answers]
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        self.headers: list[dict[str, str]] = []

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> HttpAnswer:
        self.asked.append((method, path))
        self.bodies.append(None if body is None else msgspec.json.decode(body))
        self.headers.append(headers or {})
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def use(monkeypatch: pytest.MonkeyPatch, client: FakeClient) -> FakeClient:
    """Have all commands ask this client."""
    monkeypatch.setattr("openclust.cli.access.options.client_for", lambda *_: client)
    return client
