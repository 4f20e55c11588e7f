"""One HTTP connection of a caller: its bounds, and the answer to what cannot be read as HTTP."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

from openclust.manage.api.answer_headers import AnswerHeaders
from openclust.manage.calls.call import answer

log = logging.getLogger("openclust.http")

KEEPALIVE_S = 60.0
HEADER_BYTES_MAX = 16_384
HEADERS_MAX = 100
UNREAD_BODY_S = 2.0
"""A caller whose body nobody reads has so long to send it, and then the connection is closed."""


class HttpConnection(web.RequestHandler):
    """aiohttp's connection; malformed requests get the same answers as all others, and no lines in the log."""

    def __init__(self, server: web.Server, headers: AnswerHeaders, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            logger=log,
            access_log=None,  # type: ignore[arg-type]  # None is documented: no log
            keepalive_timeout=KEEPALIVE_S,
            max_line_size=HEADER_BYTES_MAX,
            max_field_size=HEADER_BYTES_MAX,
            max_headers=HEADERS_MAX,
            lingering_time=UNREAD_BODY_S,
            # A body is bounded as it comes: none that is compressed is taken.
            auto_decompress=False,
        )
        self._answer_headers = headers

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to a request that aiohttp cannot read, or that failed outside of the API."""
        if request.writer.output_size > 0:
            raise ConnectionError("a part of the answer was sent already")
        if isinstance(exc, UnicodeError):
            # A header that is no UTF-8, such as Expect, which aiohttp reads before the API is called.
            status, message = 400, "a header is not UTF-8"
        if status >= 500:
            log.error("a request of %s failed", request.remote, exc_info=exc)
            response = answer({"error": "internal_error", "reason": "the request failed; the log says why"}, status)
        else:
            told = " ".join((message or "").split())[:200]
            reason = f"this cannot be read as an HTTP request{f': {told}' if told else ''}"
            response = answer({"error": "bad_request", "reason": reason}, status)
        self._answer_headers.add(request, response)
        response.force_close()
        return response


class ClosingConnection(asyncio.Protocol):
    """Closes its connection at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
