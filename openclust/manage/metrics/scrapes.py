"""The answers to scrapes: all of this broker in sums, or its queues and exchanges one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from openclust.broker.server.broker import Broker
from openclust.manage.metrics.exposition import Exposition, Scraped, SeriesBudget
from openclust.manage.metrics.metric import Metric
from openclust.manage.metrics.object_metrics import CUT, DEFAULT_FAMILIES, FAMILIES, SERIES_MAX, Objects, plain
from openclust.manage.metrics.openclust_metrics import OPENCLUST_METRICS
from openclust.manage.metrics.rabbitmq_metrics import RABBITMQ_METRICS
from openclust.manage.metrics.readings import Readings, read

if TYPE_CHECKING:
    from openclust.shell.server import Server

AGGREGATED: tuple[Metric[Readings], ...] = (*RABBITMQ_METRICS, *OPENCLUST_METRICS)
IDENTITIES = ("rabbitmq_identity_info", "rabbitmq_build_info")
"""These stand in every answer: boards join all others with them."""


async def aggregated(server: Server, accept: str, accept_encoding: str) -> Scraped:
    """The numbers of this broker."""
    exposition = Exposition(accept, accept_encoding)
    await exposition.add(AGGREGATED, await read(server))
    return await exposition.scraped()


async def per_object(server: Server, accept: str, accept_encoding: str) -> Scraped:
    """The numbers of this broker, with those of its queues one by one in place of their sums."""
    objects = [plain(each) for name in DEFAULT_FAMILIES for each in FAMILIES[name]]
    names = {each.name for each in objects}
    sums = [each for each in AGGREGATED if each.name not in names]
    return await _answer(server, accept, accept_encoding, sums, objects, None)


async def detailed(
    server: Server, accept: str, accept_encoding: str, families: Iterable[str], vhosts: Sequence[str]
) -> Scraped:
    """Some families, of some virtual hosts or of all. As in RabbitMQ, a family that is not known is empty."""
    objects = [each for name in dict.fromkeys(families) for each in FAMILIES.get(name, ())]
    sums = [each for each in AGGREGATED if each.name in IDENTITIES]
    return await _answer(server, accept, accept_encoding, sums, objects, vhosts or None)


async def _answer(
    server: Server,
    accept: str,
    accept_encoding: str,
    sums: Sequence[Metric[Readings]],
    objects: Sequence[Metric[Objects]],
    vhosts: Sequence[str] | None,
) -> Scraped:
    exposition = Exposition(accept, accept_encoding)
    await exposition.add(sums, await read(server))
    budget = SeriesBudget(SERIES_MAX)
    await exposition.add(objects, _objects(server.broker, vhosts), budget)
    await exposition.add((CUT,), budget.cut)
    return await exposition.scraped()


def _objects(broker: Broker, names: Sequence[str] | None) -> Objects:
    vhosts = [each for name, each in sorted(broker.vhosts.items()) if names is None or name in names]
    elsewhere = broker.cluster.is_elsewhere
    return Objects(
        vhosts=vhosts,
        queues=[queue for vhost in vhosts for queue in vhost.queues.values() if not elsewhere(queue)],
        exchanges=[(vhost, exchange) for vhost in vhosts for exchange in vhost.exchanges.values()],
    )
