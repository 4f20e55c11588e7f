"""The membership, driven: heartbeats, links to peers, the lease, and the vote on disk."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from openclust.cluster.election.events import Force, StepDown, StoreRead
from openclust.cluster.election.view import ElectionRole, Terms, begin
from openclust.cluster.membership.membership import Membership
from openclust.cluster.protocol.bounds import Bounds
from openclust.cluster.protocol.hello import Hello, introduce
from openclust.cluster.protocol.outbox import Outbox
from openclust.cluster.protocol.status import Reign
from openclust.shell.cluster.cluster_snapshot import cluster_snapshot
from openclust.shell.cluster.cluster_uuid_file import ClusterUuidFile
from openclust.shell.cluster.inquiry_driver import InquiryDriver
from openclust.shell.cluster.last_primaries import look_at_primaries
from openclust.shell.cluster.rebalancing import Rebalancing
from openclust.shell.cluster.votes import Votes
from openclust.shell.config.addresses import (
    client_advertised,
    http_advertised,
    own_entry,
    peer_advertised,
    tls_advertised,
)
from openclust.shell.host.clock import monotonic_ms
from openclust.shell.tracing.rates import Rates
from openclust.shell.tracing.trace import new_tracing

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.node import Node
    from openclust.shell.cluster.links import Link
    from openclust.shell.config.schema import Config
    from openclust.shell.tls.certificate_files import TlsFiles
    from openclust.shell.tls.peer_context import PeerContexts

log = logging.getLogger("openclust.cluster")

MB = 1_048_576
GOODBYE_WAIT_MS = 500
"""How long a peer that reads nothing may keep this broker from its end."""

GOODBYE_POLL_S = 0.005


class ClusterHost(Protocol):
    """What runs the node that has this membership."""

    loop: asyncio.AbstractEventLoop
    node: Node

    def turn(self) -> None: ...
    def turn_soon(self) -> None: ...
    def look_at_disk(self) -> None: ...
    def end_proxied(self, count: int) -> None: ...


class ClusterDriver:
    """Call `send` in each turn of the node."""

    def __init__(
        self, config: Config, broker: Broker, host: ClusterHost, peer_tls: TlsFiles[PeerContexts] | None
    ) -> None:
        self._config = config
        self._broker = broker
        self._host = host
        self._loop = host.loop
        self._peer_tls = peer_tls
        self._cluster = config.cluster
        self._votes = Votes(config.cluster.data_dir)
        self._identity = ClusterUuidFile(config.cluster.data_dir)
        self._uuid = self._identity.uuid
        # The membership's parts ask for the tracer when they are made.
        self.tracing = new_tracing(config, broker, host.loop)
        self.membership = self._membership(config)
        self.membership.client_addresses = {name: each.client for name, each in config.cluster.primaries.items()}
        self.membership.readiness.dialled = self._dialled
        self.inquiries = InquiryDriver(self.membership, monotonic_ms, host.turn_soon)
        self.rates = Rates(self.membership)
        self.links: dict[str, Link] = {}
        self._joining: list[Link] = []
        self._disk_failed = False
        self._lease: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._rebalancing = Rebalancing(
            host.loop, self.membership, turn_soon=host.turn_soon, end_proxied=host.end_proxied
        )

    def _membership(self, config: Config) -> Membership:
        cluster = config.cluster
        primaries = list(cluster.primaries) if own_entry(config) is not None else [config.name]
        entry = own_entry(config)
        hello = Hello(
            cluster_key=config.cluster_key,
            name=config.name,
            role="secondary" if cluster.join else "primary",
            primaries=() if cluster.join else tuple(sorted(primaries)),
            heartbeat_ms=cluster.heartbeat_ms,
            uuid=self._identity.uuid,
            peer=entry.peer if entry is not None else "",
            life=self._broker.unguessable(),
        )
        election = None
        if not cluster.join:
            terms = Terms(
                primaries=tuple(sorted(primaries)),
                heartbeat_ms=cluster.heartbeat_ms,
                start_grace_ms=cluster.start_grace_ms,
            )
            stamp_ms = time.time_ns() // 1_000_000
            election = begin(terms, config.name, stamp_ms, monotonic_ms(), self._votes.last)
        bounds = Bounds(
            state_bytes_max=cluster.state_max_mb * MB,
            log_entries_max=cluster.log_tail_max,
            root_wait_ms=cluster.root_wait_ms,
            disk_stall_ms=cluster.disk_stall_ms,
            waiting_bytes_max=cluster.waiting_mb_max * MB,
            outbox_bytes_max=cluster.link_outbox_mb_max * MB,
        )
        return Membership(
            self._broker,
            hello,
            cluster.secret or "",
            election,
            redirect=config.redirect,
            bounds=bounds,
            save_vote=self._is_on_disk,
        )

    # -- life

    def start(self, client_address: tuple[str, int], peer_address: tuple[str, int] | None) -> None:
        """Dial the others, and begin to elect. The addresses are where this broker listens."""
        membership = self.membership
        self._introduce_ourselves(client_address, peer_address)
        self._warn()
        if self._cluster.join:
            self._joining = [self._new_link(address, self._unheard_outbox()) for address in self._cluster.join]
        else:
            look_at_primaries(self._cluster.data_dir, membership.primaries)
            membership.want_primaries({name: each.peer for name, each in self._cluster.primaries.items()})
            membership.tell(StoreRead(monotonic_ms()))
        self._rebalancing.start()
        self._on_tick()

    def _introduce_ourselves(self, client_address: tuple[str, int], peer_address: tuple[str, int] | None) -> None:
        config, membership = self._config, self.membership
        client = client_advertised(config, client_address)
        membership.presences.own = msgspec.structs.replace(
            membership.presences.own,
            client=client,
            tls=tls_advertised(config, client),
            http=http_advertised(config),
            weight=config.redirect.weight,
        )
        if peer_address is not None:
            peer = peer_advertised(config, peer_address)
            membership.hello = msgspec.structs.replace(membership.hello, peer=peer)

    def _warn(self) -> None:
        membership = self.membership
        if not membership.is_alone and not self._cluster.secret and self._peer_tls is None:
            log.warning("no cluster secret: peers are admitted from the loopback only")
        if self._cluster.data_dir is not None or not membership.is_primary:
            return
        log.warning("no data directory: durable queues and messages are lost at the end; give --data-dir DIR")
        if not membership.is_alone:
            log.warning("no data directory: a restarted broker could vote twice in an epoch")

    async def stop(self, reason: str) -> None:
        """Tell all peers that this broker stops, and who asked for it; then end the links."""
        self._host.node.leave(reason, monotonic_ms())
        self._host.turn()
        self._rebalancing.stop()
        self.inquiries.stop()
        for timer in (self._tick, self._lease):
            if timer is not None:
                timer.cancel()
        end_ms = monotonic_ms() + GOODBYE_WAIT_MS
        while any(link.is_writing for link in self.links.values()) and monotonic_ms() < end_ms:
            await asyncio.sleep(GOODBYE_POLL_S)
        await asyncio.gather(*(link.close() for link in [*self.links.values(), *self._joining]))
        if self.tracing is not None:
            self.tracing.stop()

    # -- turns and time

    def look(self) -> None:
        """After a turn, before its messages are sent: a new cluster UUID must be on disk before peers hear of it."""
        membership = self.membership
        if membership.hello.uuid != self._uuid:
            self._uuid = membership.hello.uuid
            self._identity.save(self._uuid)
        if membership.links.peers_changed:
            self._sync_links()
        if self._lease is None and membership.is_root and not membership.is_alone:
            self._watch_lease()
        if membership.inquiries.received:
            self.inquiries.look()
        if self.tracing is not None:
            self.tracing.look(self.membership)

    def send(self, messages: list[Outbox]) -> None:
        for outbox in messages:
            link = self.links.get(outbox.peer)
            if link is not None:
                link.flush()

    def written(self) -> None:
        """All outboxes have been written to their sockets."""
        if self.tracing is not None:
            self.tracing.written()

    def _on_tick(self) -> None:
        now_ms = monotonic_ms()
        self._host.look_at_disk()
        self._host.node.beat(now_ms)
        self.rates.look(now_ms)
        if self.tracing is not None:
            self.tracing.tick(self.membership)
        self._tick = self._loop.call_later(self.membership.heartbeat_ms / 1_000, self._on_tick)
        self._host.turn()

    def _watch_lease(self) -> None:
        """Have a root whose peers are silent resign at the end of its lease, and not only at the next heartbeat."""
        self._lease = None
        ends_ms = self._host.node.lease_ends_ms
        if ends_ms is None:
            return
        left_ms = ends_ms + 1 - monotonic_ms()
        if left_ms > 0:
            # The lease is longer by then, most likely: looking again costs less than a new timer at each prolongation.
            self._lease = self._loop.call_later(min(left_ms, 60_000) / 1_000, self._watch_lease)
            return
        self._host.node.look_at_lease(monotonic_ms())
        self._host.turn()

    # -- links

    def _dialled(self) -> list[str]:
        """The addresses that this secondary dials, each with the state of its link."""
        return [f"{link.address}: {link.error or link.state}" for link in self._joining]

    def _unheard_outbox(self) -> Outbox:
        """For a link to a broker whose name is not known yet: nothing is sent on it."""
        return Outbox("", [], 0)

    def _new_link(self, address: str, outbox: Outbox) -> Link:
        # Imported here: a broker of one needs no client library in memory. Clusters load it when they start.
        from openclust.shell.cluster.links import Link

        return Link(
            address, outbox, self._introduction, tls=self._peer_tls, on_up=self._link_up, on_down=self._link_down
        )

    def _introduction(self, nonce: str) -> bytes:
        return introduce(self.membership.hello, nonce, self._cluster.secret or "")

    def _link_up(self, link: Link, frame_max: int) -> None:
        if link.peer:
            self._host.node.link_up(link.peer, frame_max, monotonic_ms())
            self._host.turn_soon()

    def _link_down(self, link: Link) -> None:
        if link.peer:
            self._host.node.link_down(link.peer, monotonic_ms())
            self._host.turn_soon()

    def _sync_links(self) -> None:
        """Have a link to each peer of the membership, and to no others."""
        membership = self.membership
        membership.links.peers_changed = False
        for name, address in membership.links.peers.items():
            link = self.links.get(name)
            if link is not None and link.address == address:
                continue
            if link is not None:
                self._end(link)
            self._link_to(name, address)
        for name in [name for name in self.links if name not in membership.links.peers]:
            self._end(self.links.pop(name))
        for link in self._joining if membership.links.peers else ():
            # The peers have names now, and perhaps other addresses than this link, which found them.
            self._end(link)
        self._joining = [] if membership.links.peers else self._joining

    def _link_to(self, name: str, address: str) -> None:
        outbox = self.membership.links.outbox(name)
        known = next((link for link in self._joining if link.address == address), None)
        if known is None:
            self.links[name] = self._new_link(address, outbox)
            return
        self._joining.remove(known)
        known.outbox = outbox
        self.links[name] = known
        if known.state == "connected":
            self.membership.link_up(name, known.frame_max)

    def _end(self, link: Link) -> None:
        if link.peer:
            self.membership.link_down(link.peer)
        task = self._loop.create_task(link.close())
        task.add_done_callback(partial(self._ended, task))

    def _ended(self, task: asyncio.Task[None], _: object) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.warning("a link did not end well: %s", task.exception())

    # -- the disk

    def _is_on_disk(self, vote: Reign) -> bool:
        """Whether the vote is on disk, after a try to write it. Until then no peer may hear of the vote."""
        if vote == self._votes.last:
            return True
        try:
            self._votes.save(vote)
        except OSError as error:
            if not self._disk_failed:
                log.error(
                    "cannot write the vote to %s: %s; silent until the disk is well",
                    self._cluster.data_dir,
                    error.strerror,
                )
            self._disk_failed = True
            return False
        self._disk_failed = False
        self._identity.save(self.membership.hello.uuid)
        return True

    # -- operators

    def snapshot(self) -> dict[str, Any]:
        """The cluster as this broker knows it, for people."""
        return cluster_snapshot(self.membership, self.links, self.rates, monotonic_ms())

    def force_root(self) -> bool:
        """Make this broker root without an election. Whether it is root now."""
        membership = self.membership
        if membership.is_primary:
            membership.tell(Force(monotonic_ms()))
            self._host.turn_soon()
        return membership.is_root

    def step_down(self, reason: str) -> bool:
        """Have this broker resign. Whether it was root."""
        membership = self.membership
        if not membership.is_primary:
            return False
        was_root = membership.election.role in (ElectionRole.ROOT, ElectionRole.TAKING_OVER)
        membership.tell(StepDown(monotonic_ms(), reason))
        self._host.turn_soon()
        return was_root
