"""The links between this broker and its peers: which peers there are, and what is to be sent to each."""

from __future__ import annotations

from openclust.cluster.protocol.leadership import Leadership
from openclust.cluster.protocol.messages import ControlMessage
from openclust.cluster.protocol.outbox import Outbox


class Links:
    """The shell dials `peers`, looks at `peers_changed`, and sends what is in the outboxes that are `dirty`.

    `primaries` are the names of the defined ones, this broker among them; a secondary learns them from its peers, and
    `heartbeat_ms` too. `is_alone`: there is no other broker in the cluster, and none can come.
    """

    def __init__(
        self,
        name: str,
        primaries: tuple[str, ...],
        leadership: Leadership[object],
        *,
        heartbeat_ms: int,
        is_alone: bool,
        outbox_bytes_max: int,
    ) -> None:
        self.name = name
        self.primaries = primaries
        self.heartbeat_ms = heartbeat_ms
        self.is_alone = is_alone
        # Peers by name, and the addresses at which they are dialled.
        self.peers: dict[str, str] = {}
        self.peers_changed = False
        self.outboxes: dict[str, Outbox] = {}
        self.dirty: list[Outbox] = []
        # Peers that are short of memory: any of them may be root next.
        self.pressed: set[str] = set()
        # Peers that have said nothing yet on their new link to this broker.
        self.fresh: set[str] = set()
        # Peers that have said goodbye, and whose link to this broker is there still.
        self.stopped: set[str] = set()
        # This broker has said goodbye to its peers: when they go silent now, that is its own doing.
        self.is_leaving = False
        self._leadership = leadership
        self._outbox_bytes_max = outbox_bytes_max

    # -- peers

    def is_secondary(self, name: str) -> bool:
        return name in self.peers and name not in self.primaries

    def secondaries_up(self) -> list[str]:
        """The secondaries to which this broker has a link."""
        return [name for name, outbox in self.outboxes.items() if outbox.is_up and self.is_secondary(name)]

    def want_peer(self, name: str, address: str) -> None:
        """Have a peer dialled at this address."""
        if self.peers.get(name) != address:
            self.peers[name] = address
            self.peers_changed = True

    def forget_peer(self, name: str) -> None:
        """Have a peer dialled no more."""
        del self.peers[name]
        self.peers_changed = True

    # -- what is sent

    def outbox(self, peer: str) -> Outbox:
        """The outbox of a peer, made with the first link to it."""
        outbox = self.outboxes.get(peer)
        if outbox is None:
            outbox = self.outboxes[peer] = Outbox(peer, self.dirty, self._outbox_bytes_max)
        return outbox

    def send(self, peer: str, message: ControlMessage) -> bool:
        """Send a control message; False where there is no link to the peer."""
        outbox = self.outboxes.get(peer)
        return outbox is not None and outbox.control(message)

    def root_outbox(self) -> Outbox | None:
        """The outbox of the root; None where the root is this broker, or there are not links in both directions yet.

        The first word of the root on its link comes before anything is sent to it: what has waited for it goes first.
        """
        root = self._leadership.root
        outbox = self.outboxes.get(root)
        return outbox if outbox is not None and outbox.is_up and root not in self.fresh else None

    def relaying_primary(self) -> str:
        """The primary that passes messages on to the other secondaries; empty where there is no link to any.

        It is the root, or where that is not there the first primary that is.
        """
        likely = (self._leadership.root, *self.primaries)
        return next((name for name in likely if name in self.outboxes and self.outboxes[name].is_up), "")
