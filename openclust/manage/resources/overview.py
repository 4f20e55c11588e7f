"""The cluster in numbers."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.brokers.overview_rows import overview_row
from openclust.manage.calls.call import Call, answer
from openclust.manage.calls.gathered import NOTE, lacking, wanted_ages
from openclust.manage.gather.questions import CountTotals


async def overview(call: Call) -> web.Response:
    """The numbers of all brokers added up; those of a broker that does not answer are left out, and it is named."""
    found = await call.gathering.totals(CountTotals(of="overview", viewer=call.viewer(), ages=wanted_ages(call)))
    shown = overview_row(call.broker, found.totals, found.missing)
    response = lacking(answer(shown), found.missing)
    if shown["queues_without_root"]:
        count = shown["queues_without_root"]
        response.headers[NOTE] = f"the messages of {count} shared queues are not counted: there is no root"
    return response
