"""All that one scrape shows, read at one moment or nearly. The tables of metrics take their values from it."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from openclust.broker.server.broker import Broker
from openclust.cluster.membership.membership import Membership
from openclust.manage.brokers.process_figures import ProcessFigures, ProcessWatch
from openclust.manage.metrics.totals import ScrapeTotals, count
from openclust.shell.host.clock import wall_ms

if TYPE_CHECKING:
    from openclust.shell.server import Server


class Readings:
    """One broker's own numbers: Prometheus adds up those of a cluster."""

    def __init__(
        self, server: Server, totals: ScrapeTotals, figures: ProcessFigures, now_ms: int, now_s: float
    ) -> None:
        self.server = server
        self.totals = totals
        self.figures = figures
        self.now_ms = now_ms
        self.now_s = now_s

    @property
    def broker(self) -> Broker:
        return self.server.broker

    @property
    def membership(self) -> Membership:
        return self.server.member.membership


async def read(server: Server) -> Readings:
    totals = await count(server.broker)
    # The system may take its time.
    figures = await asyncio.to_thread(ProcessWatch(server.config.cluster.data_dir, monotonic))
    return Readings(server, totals, figures, server.now_ms(), wall_ms() / 1_000)
