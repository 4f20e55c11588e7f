"""The counts of exchanges and virtual hosts: every broker has these objects, and counts what passed at it."""

from __future__ import annotations

from openclust.broker.server.broker import Broker
from openclust.manage.gather.questions import CountTotals
from openclust.manage.gather.slices import Slices
from openclust.manage.gather.totals import Totals
from openclust.manage.history.shown import ShownHistory
from openclust.manage.rows.scope import vhosts_seen
from openclust.manage.rows.values import text


class ExchangeNumbers:
    """The `message_stats` of exchanges, by virtual host and name."""

    def __init__(self, broker: Broker, history: ShownHistory) -> None:
        self._broker = broker
        self._history = history

    async def count(self, question: CountTotals) -> Totals:
        slices = Slices()
        found: Totals = {}
        for vhost in vhosts_seen(self._broker, question.viewer, question.vhost):
            of_vhost = found[text(vhost.name)] = {}
            for exchange in list(vhost.exchanges.values()):
                await slices.rest()
                if not question.name or question.name == exchange.name:
                    of_vhost[text(exchange.name)] = self._history.of_exchange(exchange)
        return found


class VhostNumbers:
    """Messages, lengths and bytes of virtual hosts, by name."""

    def __init__(self, broker: Broker, history: ShownHistory) -> None:
        self._broker = broker
        self._history = history

    async def count(self, question: CountTotals) -> Totals:
        vhosts = vhosts_seen(self._broker, question.viewer, question.vhost)
        return {text(vhost.name): self._history.of_vhost(vhost) for vhost in vhosts}
