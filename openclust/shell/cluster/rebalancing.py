"""Moves clients to other brokers, once a second, by the rules of `cluster/placing/moving.py`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from openclust.cluster.placing.moving import Moved, Moving
from openclust.cluster.placing.rebalance import ROUND_MS
from openclust.shell.host.clock import monotonic_ms

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership

log = logging.getLogger("openclust.rebalancing")


class Rebalancing:
    """`start` it when the broker serves, `stop` it before it ends.

    `end_proxied` cuts off so many of the clients that another broker serves through this one.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        membership: Membership,
        *,
        turn_soon: Callable[[], None],
        end_proxied: Callable[[int], None],
    ) -> None:
        self._loop = loop
        self._membership = membership
        self._turn_soon = turn_soon
        self._end_proxied = end_proxied
        self._moving = Moving(membership.broker, membership.hello.name, membership.placing)
        self._told = Moved(0, "rebalancing")
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._loop.call_later(ROUND_MS / 1_000, self._round)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _round(self) -> None:
        self.start()
        membership = self._membership
        now_ms = membership.broker.now_ms = monotonic_ms()
        done = self._moving.round(
            membership.roster, membership.client_count(), now_ms, is_draining=membership.is_draining
        )
        if done.reason == "draining" and done.count < membership.placing.settings.drain_per_s:
            # This broker cannot send frames to clients that it only proxies: their sockets are closed.
            self._end_proxied(membership.placing.settings.drain_per_s - done.count)
        self._tell(done)
        if done.count:
            self._turn_soon()

    def _tell(self, done: Moved) -> None:
        if done.count and done.is_dry and done != self._told:
            log.info("rebalancing would move %d clients now (redirect.rebalance_dry_run)", done.count)
        elif done.count and not done.is_dry:
            log.info("%s: %d clients told to go to other brokers", done.reason, done.count)
        self._told = done
