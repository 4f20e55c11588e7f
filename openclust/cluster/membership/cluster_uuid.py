"""The cluster's own name, made up by its first root: another cluster of the same key has another.

The log carries it. Nobody goes by it before half of the primaries hold it: a root that is gone before that may be
followed by one that makes up another, and brokers that went by different names would refuse each other for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from openclust.cluster.protocol.messages import Founded
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.cluster.membership.membership import Membership


class ClusterUuid:
    """`uuid` is the name as the log has it; the membership's `hello` has it when it is sure to stay."""

    def __init__(self, membership: Membership) -> None:
        self._cluster = membership
        self.uuid = ""
        self._opened = Position()

    def begin_reign(self) -> bytes:
        """As root: the name, for the entry that opens the reign. Then tell `opened` where that is."""
        self.uuid = self._cluster.hello.uuid or self.uuid or self._cluster.broker.unguessable()
        return self.uuid.encode()

    def opened(self, position: Position) -> None:
        self._opened = position
        self.look()

    def look(self) -> None:
        """As root: whether the name is sure to stay by now."""
        cluster = self._cluster
        if (
            cluster.hello.uuid == self.uuid
            or not cluster.leadership.is_root
            or cluster.commit_index.disk < self._opened
        ):
            return
        self._learn(self.uuid)
        for name in cluster.links.outboxes:
            self.tell(name)

    def tell(self, name: str) -> None:
        """As root: tell a follower, if it is so."""
        if self._cluster.hello.uuid:
            self._cluster.links.send(name, Founded(uuid=self._cluster.hello.uuid))

    def told(self, peer: str, message: Founded) -> None:
        if peer == self._cluster.leadership.root:
            self._learn(message.uuid)

    def met(self, uuid: str) -> None:
        """A broker that is admitted goes by this name, or by none yet."""
        if uuid and not self._cluster.hello.uuid:
            self._learn(uuid)

    def _learn(self, uuid: str) -> None:
        """From now on, whoever goes by another name is refused."""
        self._cluster.hello = msgspec.structs.replace(self._cluster.hello, uuid=uuid)
