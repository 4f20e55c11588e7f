"""The entries of a cluster file: brokers, physical nodes, and the links between them."""

from __future__ import annotations

import msgspec

from openclust.shell.config.schema import NodeKind

Key = tuple[str, str]
"""Kind and name of a node of the graph, such as `("broker", "p1")`. A broker and a switch may have one name."""


class ListedBroker(msgspec.Struct, frozen=True, kw_only=True):
    """A primary of the list, or a secondary that is expected. Fields that the file leaves out are empty or 0.

    Without a `host` in the file it is that of the peer address; empty if that is a wildcard.
    """

    name: str
    is_primary: bool
    client: str = ""
    peer: str = ""
    http: str = ""
    host: str = ""
    rack: str = ""
    zone: str = ""
    region: str = ""
    connections: int = 0
    memory_mb: int = 0
    cores: int = 0
    bandwidth_mbit: float = 0
    weight: int = 0
    line: int = 0

    @property
    def key(self) -> Key:
        return ("broker", self.name)

    @property
    def partition(self) -> str:
        return "primary" if self.is_primary else "secondary"


class ListedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A physical node, such as a switch, through which links pass."""

    name: str
    kind: NodeKind = "switch"
    rack: str = ""
    zone: str = ""
    region: str = ""
    line: int = 0

    @property
    def key(self) -> Key:
        return ("node", self.name)


class ListedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link of the file. `ends` are keys of the graph, `index` is its place in the list."""

    index: int
    ends: tuple[Key, Key]
    latency_ms: float = 0
    bandwidth_mbit: float = 0
    loss: float = 0
    line: int = 0

    @property
    def names(self) -> tuple[str, str]:
        return self.ends[0][1], self.ends[1][1]

    @property
    def is_direct(self) -> bool:
        """Whether both ends are brokers. The file does not tell the nodes in between."""
        return self.ends[0][0] == self.ends[1][0] == "broker"

    @property
    def text(self) -> str:
        return " - ".join(self.names)
