"""connection.start: the first frame of a connection, with the properties of the broker."""

from __future__ import annotations

import functools

from openclust import __version__
from openclust.wire.codec import method_frame
from openclust.wire.methods import ConnectionStart
from openclust.wire.table import Table

CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


@functools.lru_cache(maxsize=64)
def start_frame(cluster_name: str, mechanisms: tuple[str, ...]) -> bytes:
    """The frame for clients; the same for all of them."""
    return start_frame_with(cluster_name, mechanisms)


def start_frame_with(cluster_name: str, mechanisms: tuple[str, ...], nonce: str = "") -> bytes:
    """The frame with a nonce, for another broker of the cluster."""
    capabilities: Table = dict.fromkeys(CAPABILITIES, True)
    properties: Table = {
        "capabilities": capabilities,
        "cluster_name": cluster_name,
        "product": "openclust",
        "version": __version__,
        "platform": "Python",
        "copyright": "openclust contributors",
        "information": "Licensed under the Apache License 2.0",
    }
    if nonce:
        properties["nonce"] = nonce
    start = ConnectionStart(server_properties=properties, mechanisms=" ".join(mechanisms).encode(), locales=b"en_US")
    return method_frame(0, start)
