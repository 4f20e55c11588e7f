"""A client's channel, and the hot path of what is published on it."""

from __future__ import annotations

from openclust.broker.amqp.channel import Channel
from openclust.broker.amqp.publishing import (
    check_header,
    confirm,
    is_simple,
    perform_message,
    publish_with_care,
    resolve,
)
from openclust.broker.amqp.runs import pass_run
from openclust.broker.delivery.fanout import PUBLISHED, fan_out
from openclust.wire.errors import ChannelError
from openclust.wire.methods import BasicPublish
from openclust.wire.properties import PREAMBLE

NO_PROPERTIES = b"\0\0"


class ClientChannel(Channel):
    """A channel of a client. Channels of links between brokers are `cluster/relay/relay_lane.py`."""

    __slots__ = ()

    def publish(self, arguments: bytes, header: bytes, body: bytes) -> None:
        """A whole publish: the hot path, as long as nothing about it asks for a closer look."""
        try:
            route = self.routes.get(arguments) or resolve(self, arguments)
            flags = header[12] << 8 | header[13]
            if (
                flags & route.watch
                or not route.is_plain
                or self.transaction is not None
                or len(body) > self.broker.limits.message_size_max
            ):
                if route.forward and not flags & route.watch and is_simple(self, body):
                    check_header(self.broker, header)
                    perform_message(self, route, header, body, None)
                else:
                    publish_with_care(self, route, header, body)
                return
            broker = self.broker
            if (flags or len(header) != PREAMBLE.size) and header[12:] not in broker.sound:
                check_header(broker, header)
            outcome = fan_out(broker, route, header, body, None, PUBLISHED)
        except ChannelError as error:
            self.fail(error, *BasicPublish.ID)
            return
        self.published = published = self.published + 1
        if published >= self.size_sample_at:
            self.sample_size(len(body))
        if self.confirms is not None:
            confirm(self, outcome)

    def publish_run(self, arguments: bytes, properties: bytes, bodies: list[bytes]) -> int:
        """Publishes that differ in their bodies only. The caller has checked that they need not wait."""
        route = self.routes.get(arguments)
        broker = self.broker
        if (
            route is None
            or (properties[0] << 8 | properties[1]) & route.watch
            or self.confirms is not None
            or self.transaction is not None
            or broker.tracer is not None
            or (properties != NO_PROPERTIES and properties not in broker.sound)
            or max(map(len, bodies)) > broker.limits.message_size_max
        ):
            return 0
        if route.is_plain:
            taken = pass_run(broker, route, properties, bodies)
        elif route.forward and not route.destinations and not route.mandatory:
            taken = broker.cluster.forward_run(self, self.connection.vhost, route.suffix, properties, bodies)
            route.published += taken
        else:
            return 0
        self.published += taken
        if taken and self.published >= self.size_sample_at:
            self.sample_size(len(bodies[0]))
        return taken
