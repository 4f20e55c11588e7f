"""What is added to all answers: headers that keep browsers safe, the origins that may read them, compression."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterable

from aiohttp import web

from openclust.manage.calls.gathered import MISSING, NOTE
from openclust.shell.config.schema import HttpSection

COMPRESSED_BYTES_MIN = 1_024
COMPRESSED_ASIDE_BYTES_MIN = 32_768
"""Longer answers are compressed in a thread: the broker serves its clients meanwhile."""
_GZIP_LEVEL = 1
_HSTS_S = 31_536_000
_PREFLIGHT_S = 600

METHODS = ("HEAD", "GET", "PUT", "POST", "DELETE", "OPTIONS")


class AnswerHeaders:
    """The headers of one API's answers."""

    def __init__(self, config: HttpSection) -> None:
        self._origins = frozenset(config.cors_origins)
        self._always = {
            "Server": "openclust",
            "Cache-Control": "no-store",
            "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Vary": "Accept-Encoding, Origin",
        }
        if config.tls_cert is not None:
            self._always["Strict-Transport-Security"] = f"max-age={_HSTS_S}"

    async def prepare(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        self.add(request, response)

    def add(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Add all headers that the answer does not have already."""
        headers = response.headers
        # aiohttp has set its own name before this.
        headers["Server"] = self._always["Server"]
        for name, text in self._always.items():
            headers.setdefault(name, text)
        origin = self._allowed(request.headers.get("Origin", ""))
        if origin:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = ", ".join((MISSING, NOTE, "Location", "Retry-After"))

    def options(self, request: web.Request, methods: Iterable[str]) -> web.Response:
        """The answer to OPTIONS, also where a browser asks whether a page of another origin may make a call."""
        response = web.Response(headers={"Allow": allowed(methods)})
        wanted = request.headers.get("Access-Control-Request-Method")
        if wanted is not None and self._allowed(request.headers.get("Origin", "")):
            # The session's cookie is for the broker's own pages: no credentials are allowed, and no token's header.
            response.headers["Access-Control-Allow-Methods"] = allowed(methods)
            response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, X-Reason"
            response.headers["Access-Control-Max-Age"] = str(_PREFLIGHT_S)
        return response

    def _allowed(self, origin: str) -> str:
        if not origin:
            return ""
        return "*" if "*" in self._origins else origin if origin in self._origins else ""


def allowed(methods: Iterable[str]) -> str:
    """The header `Allow`: GET is answered without a body for HEAD, and OPTIONS always."""
    there = set(methods) | {"OPTIONS"}
    return ", ".join(method for method in METHODS if method in there or (method == "HEAD" and "GET" in there))


async def compress(request: web.Request, response: web.StreamResponse) -> None:
    """Compress a long answer for a caller that asks for gzip."""
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        return
    body = response.body
    if len(body) < COMPRESSED_BYTES_MIN or "Content-Encoding" in response.headers or not wants_gzip(request):
        return
    aside = len(body) >= COMPRESSED_ASIDE_BYTES_MIN
    response.body = await asyncio.to_thread(_compressed, body) if aside else _compressed(body)
    response.headers["Content-Encoding"] = "gzip"


def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, _GZIP_LEVEL)


def wants_gzip(request: web.BaseRequest) -> bool:
    return _accepts(request.headers.get("Accept-Encoding", ""), ("gzip",))


def accepts(header: str, type: str) -> bool:
    """Whether the header `Accept` takes answers of a type; one that is missing takes all."""
    family = type.partition("/")[0]
    return not header.strip() or _accepts(header, (type, f"{family}/*", "*/*", "*"))


def _accepts(header: str, names: tuple[str, ...]) -> bool:
    # RFC 9110 12.4.2: a weight of 0 is "not this one"; what names it most closely holds.
    found = {name: _weight(parameters) for name, *parameters in _items(header)}
    return next((found[name] > 0 for name in names if name in found), False)


def _items(header: str) -> Iterable[list[str]]:
    for item in header.split(","):
        yield [part.strip().lower() for part in item.split(";")]


def _weight(parameters: Iterable[str]) -> float:
    for each in parameters:
        name, _, value = each.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
