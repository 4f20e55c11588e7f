"""Brokers as users of one another: the user that a link logs in as, and the broker that a connection is from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclust.broker.model.access import Permission, User

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection

PEER_PREFIX = "peer:"
"""The user names of brokers begin with this: no user of the users file can be mistaken for one."""

_EVERYTHING = {"": Permission(configure="^$", write="^amq\\.cluster$", read="^$")}


def login(name: str) -> User:
    """The user that a peer logs in as."""
    return User(name=PEER_PREFIX + name, type="cluster", permissions=_EVERYTHING)


def peer_name(connection: Connection) -> str:
    """The broker whose link this is; empty where it is a client's."""
    user: User | None = getattr(connection, "user", None)
    if user is None or not connection.peer.is_peer:
        return ""
    return user.name.removeprefix(PEER_PREFIX)
