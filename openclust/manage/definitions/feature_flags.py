"""Feature flags of RabbitMQ, for tools that ask whether a feature is there, and deprecated features."""

from __future__ import annotations

from aiohttp import web

from openclust.manage.calls.call import Call, answer
from openclust.manage.calls.listing import Showing, listing
from openclust.manage.gather.selection import Row

_ENABLED = {
    "drop_unroutable_metric": "Unroutable messages that are dropped are counted",
    "empty_basic_get_metric": "basic.get on empty queues is counted",
    "implicit_default_bindings": "The bindings to the default exchange are not kept: every queue has one",
    "maintenance_mode_status": "A broker can be emptied of its clients before it is stopped (drain)",
    "quorum_queue": "Queues of type quorum: replicated to at least half of the primaries",
    "user_limits": "Limits of connections and channels of a user",
    "virtual_host_metadata": "Virtual hosts have a description and tags",
}

FLAGS = Showing(place=lambda row: ("", row["name"]), row=lambda row: row)


async def feature_flags(call: Call) -> web.Response:
    """Those of RabbitMQ's whose feature is here. They cannot be switched: all brokers have it."""
    return await listing(call, [_row(name, told) for name, told in _ENABLED.items()], FLAGS)


async def deprecated_features(call: Call) -> web.Response:
    """None: nothing here is about to go."""
    return answer([])


def _row(name: str, told: str) -> Row:
    return {
        "name": name,
        "desc": told,
        "doc_url": "",
        "state": "enabled",
        "stability": "stable",
        "provided_by": "openclust",
    }
