"""All that one scrape shows, read at one moment or nearly. The tables of metrics take their values from it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from openclust.broker.server.broker import Broker
from openclust.cluster.membership.membership import Membership
from openclust.manage.metrics.machine import Machine, machine
from openclust.manage.metrics.totals import ScrapeTotals, count
from openclust.shell.host.clock import wall_ms

if TYPE_CHECKING:
    from openclust.shell.server import Server


class Readings:
    """One broker's own numbers: Prometheus adds up those of a cluster."""

    def __init__(self, server: Server, totals: ScrapeTotals, machine: Machine, now_ms: int, now_s: float) -> None:
        self.server = server
        self.totals = totals
        self.machine = machine
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
    found = await asyncio.to_thread(machine, server.config.cluster.data_dir)
    return Readings(server, totals, found, server.now_ms(), wall_ms() / 1_000)
