"""Virtual hosts as rows."""

from __future__ import annotations

from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.selection import Row
from openclust.manage.rows.values import text


def vhost_row(vhost: VirtualHost) -> Row:
    return {
        "name": text(vhost.name),
        "description": "",
        "tags": [],
        "queues": len(vhost.queues),
        "exchanges": len(vhost.exchanges),
    }
