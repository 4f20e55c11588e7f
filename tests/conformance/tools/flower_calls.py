"""Flower's broker page: what it asks of RabbitMQ's management API, by its own code."""

from __future__ import annotations

import asyncio

from flower.utils.broker import Broker
from tally import held_connection, place, tried, wanted

where = place()
end = held_connection(where, "flower")
url = f"http://guest:guest@{where.host}:{where.http_port}/api/"
broker = Broker(f"amqp://guest:guest@{where.host}:{where.amqp_port}//", http_api=url)

tried("queues", lambda: wanted(asyncio.run(broker.queues(["flower-queue"]))[0]["name"] == "flower-queue"))
end()
