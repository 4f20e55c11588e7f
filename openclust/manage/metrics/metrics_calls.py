"""Metrics for Prometheus, on the port of the HTTP API: with a login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from openclust.manage.calls.call import Call
from openclust.manage.metrics.exposition import Scraped
from openclust.manage.metrics.scrapes import aggregated, detailed, per_object

if TYPE_CHECKING:
    from openclust.shell.server import Server


async def metrics(call: Call) -> web.Response:
    return scrape_response(await aggregated(call.server, *accepted(call.request)))


async def metrics_per_object(call: Call) -> web.Response:
    return scrape_response(await per_object(call.server, *accepted(call.request)))


async def metrics_detailed(call: Call) -> web.Response:
    return scrape_response(await detailed_of(call.server, call.request))


async def detailed_of(server: Server, request: web.Request) -> Scraped:
    """The families and virtual hosts that the query string names, each as often as wanted."""
    query = request.query
    return await detailed(server, *accepted(request), query.getall("family", []), query.getall("vhost", []))


def accepted(request: web.Request) -> tuple[str, str]:
    """The formats and the encodings that the caller takes."""
    return request.headers.get("Accept", ""), request.headers.get("Accept-Encoding", "")


def scrape_response(scraped: Scraped) -> web.Response:
    headers = {"Content-Type": scraped.content_type, "Cache-Control": "no-store", "Vary": "Accept, Accept-Encoding"}
    if scraped.is_gzipped:
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=scraped.body, headers=headers)
