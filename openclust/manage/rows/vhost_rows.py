"""Virtual hosts as rows."""

from __future__ import annotations

from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.selection import Row
from openclust.manage.rows.values import text, value


def vhost_row(vhost: VirtualHost) -> Row:
    metadata = vhost.metadata
    shown: Row = {
        "name": text(vhost.name),
        "description": "",
        "tags": [],
        # As RabbitMQ shows a virtual host that has none.
        "default_queue_type": "undefined",
        "tracing": False,
        **value(metadata),
        "metadata": {"description": "", "tags": [], **value(metadata)},
        "queues": len(vhost.queues),
        "exchanges": len(vhost.exchanges),
    }
    name = vhost.broker.name
    return shown | {"cluster_state": {name: "running"} if name else {}}
