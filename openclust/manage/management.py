"""What this broker knows for whoever operates it: it answers for itself, and asks the others for the whole cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.manage.actions.closing import ConnectionClosing
from openclust.manage.brokers.listeners import HttpAddress
from openclust.manage.brokers.node_rows import MemoryRows, NodeRows, gauges
from openclust.manage.brokers.object_numbers import ExchangeNumbers, VhostNumbers
from openclust.manage.brokers.overview_rows import ListenerCounts, OverviewCounts
from openclust.manage.brokers.process_figures import ProcessWatch
from openclust.manage.brokers.product import applications
from openclust.manage.gather.answering import Answering, not_implemented
from openclust.manage.gather.gathering import ClusterQuery
from openclust.manage.gather.questions import decode_question, encode
from openclust.manage.history.history import History
from openclust.manage.history.sampler import Sampler
from openclust.manage.history.shown import ShownHistory
from openclust.manage.rows.binding_rows import BindingRows
from openclust.manage.rows.channel_rows import ChannelRows
from openclust.manage.rows.connection_rows import ConnectionRows, octets_of
from openclust.manage.rows.consumer_rows import ConsumerRows
from openclust.manage.rows.queue_rows import QueueRows
from openclust.shell.host.clock import wall_ms

if TYPE_CHECKING:
    from openclust.shell.server import Server


class Management:
    """A service of every broker, also of one without an HTTP API: the others ask it."""

    gathering: ClusterQuery
    shown: ShownHistory
    _sampler: Sampler

    def __init__(self) -> None:
        self.http: list[HttpAddress] = []
        """Where services with HTTP listen: each adds itself when it does."""

    async def start(self, server: Server) -> None:
        broker = server.broker
        watch = ProcessWatch(server.config.cluster.data_dir, server.loop.time)
        closing = ConnectionClosing(server)
        history = History(broker, wall_ms, octets_of, lambda: gauges(server, watch()))
        self.shown = shown = ShownHistory(history)
        self._sampler = Sampler(history)
        self._answering = Answering(
            {
                "queues": QueueRows(broker, server.member.membership, shown),
                "bindings": BindingRows(broker),
                "connections": ConnectionRows(broker, shown),
                "channels": ChannelRows(broker, shown),
                "consumers": ConsumerRows(broker),
                "nodes": NodeRows(server, watch, self.http, shown),
                "memory": MemoryRows(server, watch, self.http, shown),
            },
            {
                "close_connection": closing.close,
                "close_connections_of_user": closing.close_of_user,
            },
            {
                "overview": OverviewCounts(server, self.http, shown),
                "exchanges": ExchangeNumbers(broker, shown),
                "vhosts": VhostNumbers(broker, shown),
                "listeners": ListenerCounts(server, self.http),
            },
        )
        inquiries = server.member.inquiries
        self.gathering = ClusterQuery(self._answering, inquiries)
        inquiries.answer = self._answer
        self._sampler.start()
        # Reading the versions of all libraries takes some 20 ms, once: the loop must not be held for so long.
        server.loop.run_in_executor(None, applications)

    async def stop(self) -> None:
        """Whoever asks from now on gets no answer."""
        await self._sampler.stop()

    async def _answer(self, body: bytes) -> bytes:
        try:
            question = decode_question(body)
        except msgspec.DecodeError as error:
            return encode(not_implemented(f"not known to this version: {error}"))
        return encode(await self._answering.answer(question))
