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
    from openclust.broker.server.broker import Broker
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.protocol.hello import Hello
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links


class ClusterUuid:
    """`uuid` is the name as the log has it. `hello` is what this broker tells of itself to every peer: it has the name
    when that is sure to stay.
    """

    def __init__(
        self, broker: Broker, links: Links, leadership: Leadership[object], commit_index: CommitIndex, hello: Hello
    ) -> None:
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._commit_index = commit_index
        self.hello = hello
        self.uuid = ""
        self._opened = Position()

    def begin_reign(self) -> bytes:
        """As root: the name, for the entry that opens the reign. Then tell `opened` where that is."""
        self.uuid = self.hello.uuid or self.uuid or self._broker.unguessable()
        return self.uuid.encode()

    def opened(self, position: Position) -> None:
        self._opened = position
        self.look()

    def look(self) -> None:
        """As root: whether the name is sure to stay by now."""
        is_known = self.hello.uuid == self.uuid
        if is_known or not self._leadership.is_root or self._commit_index.disk < self._opened:
            return
        self._learn(self.uuid)
        for name in self._links.outboxes:
            self.tell(name)

    def tell(self, name: str) -> None:
        """As root: tell a follower, if it is so."""
        if self.hello.uuid:
            self._links.send(name, Founded(uuid=self.hello.uuid))

    def told(self, peer: str, message: Founded) -> None:
        if peer == self._leadership.root:
            self._learn(message.uuid)

    def met(self, uuid: str) -> None:
        """A broker that is admitted goes by this name, or by none yet."""
        if uuid and not self.hello.uuid:
            self._learn(uuid)

    def _learn(self, uuid: str) -> None:
        """From now on, whoever goes by another name is refused."""
        self.hello = msgspec.structs.replace(self.hello, uuid=uuid)
