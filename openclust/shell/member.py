"""This broker's part in its cluster, performed: ticks, links, the vote on disk, and what the election wants done."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, assert_never

import msgspec

from openclust.cluster.events import (
    Answer,
    CaughtUp,
    Effect,
    Follow,
    NoRoot,
    PersistVote,
    Ready,
    Resign,
    Serve,
    StepDown,
    TakeOver,
    Tell,
    Tick,
)
from openclust.cluster.hello import Hello, digest
from openclust.cluster.membership import Membership
from openclust.cluster.status import Reign, Status
from openclust.cluster.view import Role, Terms, begin, electorate, is_online, lease_end_ms, serves, vote_of, why_no_root
from openclust.shell.votes import Votes

if TYPE_CHECKING:
    from openclust.broker.connection import Connection
    from openclust.shell.links import Link
    from openclust.shell.server import Server

log = logging.getLogger("openclust.cluster")


class Member:
    """Call `settle` after anything that may have told the membership something."""

    def __init__(self, server: Server) -> None:
        config = server.config
        self._server = server
        self._cluster = config.cluster
        self._loop = server.loop
        primaries = list(config.cluster.primaries) or [config.name]
        self._votes = Votes(config.cluster.data_dir)
        terms = Terms(
            primaries=tuple(sorted(primaries)),
            heartbeat_ms=config.cluster.heartbeat_ms,
            start_grace_ms=config.cluster.start_grace_ms,
        )
        hello = Hello(
            cluster_key=config.cluster_key,
            name=config.name,
            primaries=digest(primaries),
            heartbeat_ms=terms.heartbeat_ms,
        )
        stamp_ms = time.time_ns() // 1_000_000
        election = begin(terms, config.name, stamp_ms, server.now_ms(), self._votes.last)
        self.membership = Membership(server.broker, hello, config.cluster.secret or "", election, config.redirect)
        self._links: dict[str, Link] = {}
        self._disk_failed = False
        self._lease: asyncio.TimerHandle | None = None
        self._tick: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Dial the other primaries, and begin to elect."""
        if len(self._cluster.primaries) > 1:
            self._dial()
        self.membership.tell(Ready(self._server.now_ms()))
        self._on_tick()

    def _dial(self) -> None:
        # Not at the top: a broker of one needs no client library in its memory.
        from openclust.shell.links import Link

        secret = self._cluster.secret or ""
        for name, addresses in sorted(self._cluster.primaries.items()):
            if name != self.membership.hello.name:
                self._links[name] = Link(name, addresses.peer, self.membership.hello, secret)
        if not secret:
            log.warning("no cluster secret: peers are admitted from the loopback only")
        if self._cluster.data_dir is None:
            log.warning("no cluster.data_dir: votes are not on disk, a restarted broker could vote twice in an epoch")

    def _on_tick(self) -> None:
        self.membership.tell(Tick(self._server.now_ms()))
        self.settle()
        self._tick = self._loop.call_later(self._cluster.heartbeat_ms / 1_000, self._on_tick)

    def _on_lease_end(self) -> None:
        self._lease = None
        self.membership.tell(Tick(self._server.now_ms()))
        self.settle()

    def settle(self) -> None:
        """Perform what the election wants done, in its order."""
        membership = self.membership
        while membership.effects:
            effects, membership.effects = membership.effects, []
            for effect in effects:
                self._perform(effect)
        self._watch_lease()

    def _watch_lease(self) -> None:
        """A root that is not heard resigns when its lease ends, not at its next heartbeat."""
        if self._lease is not None:
            self._lease.cancel()
            self._lease = None
        if self.membership.election.role is Role.ROOT and self._links:
            left_ms = lease_end_ms(self.membership.election) + 1 - self._server.now_ms()
            self._lease = self._loop.call_later(max(1, left_ms) / 1_000, self._on_lease_end)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case PersistVote():
                self._is_on_disk(effect.vote)
            case Tell():
                for link in self._links.values():
                    self._send(link, effect.status)
            case Answer():
                self._send(self._links[effect.name], effect.status)
            case TakeOver():
                # There is no log to catch up with yet.
                if self._is_on_disk(self.membership.election.vote):
                    self.membership.tell(CaughtUp(self._server.now_ms(), effect.epoch))
            case Serve():
                log.info("root of epoch %d", effect.epoch)
            case Resign():
                log.warning("no root any more, of epoch %d: %s", effect.epoch, effect.reason)
            case Follow():
                log.info("%s is root of epoch %d", effect.reign.root, effect.reign.epoch)
            case NoRoot():
                log.warning("the root %s of epoch %d is not heard any more", effect.last.root, effect.last.epoch)
            case _:
                assert_never(effect)

    def _send(self, link: Link, status: Status) -> None:
        if self._is_on_disk(status.vote):
            link.send("status", msgspec.msgpack.encode(status))

    def _is_on_disk(self, vote: Reign | None) -> bool:
        """Whether the vote would survive us, after another try to write it. Until then nobody may hear of it."""
        if vote is None or vote == self._votes.last:
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
        return True

    def connection_lost(self, connection: Connection) -> None:
        self.membership.connection_lost(connection)

    def step_down(self, reason: str) -> bool:
        """Stop being root; whether it was."""
        was_root = self.membership.election.role in (Role.ROOT, Role.TAKING_OVER)
        self.membership.tell(StepDown(self._server.now_ms(), reason))
        self.settle()
        return was_root

    async def stop(self) -> None:
        for timer in (self._tick, self._lease):
            if timer is not None:
                timer.cancel()
        await asyncio.gather(*(link.close() for link in self._links.values()))

    def snapshot(self) -> dict[str, Any]:
        """What is known of the cluster here."""
        election = self.membership.election
        there = electorate(election)
        reign = election.reign
        given = sum(1 for name in there if reign is not None and self._agrees(name))
        return {
            "cluster_key": self.membership.hello.cluster_key,
            "name": election.name,
            # Until the timer of its lease comes round, a root that nobody hears has not resigned yet.
            "role": Role.ELECTOR.value if self._is_lapsed() else election.role.value,
            "root": reign.root if reign else None,
            "epoch": reign.epoch if reign else election.status().epoch,
            "seniority_ms": election.seniority.stamp_ms,
            "votes": {"given": given, "electorate": len(there), "defined": len(election.terms.primaries)},
            "why_no_root": [{"peer": peer, "reason": reason} for peer, reason in why_no_root(election)],
            "brokers": [self._shown(name) for name in election.terms.primaries],
            "links": [
                {
                    "peer": link.peer,
                    "state": link.state,
                    "error": link.error,
                    "sent": link.sent,
                    "dropped": link.dropped,
                    "waiting": link.waiting,
                }
                for link in self._links.values()
            ],
            "connections": self._server.broker.open_count(),
            "queues": self._server.broker.queue_count,
        }

    def _is_lapsed(self) -> bool:
        election = self.membership.election
        return election.role is Role.ROOT and not serves(election, self._server.now_ms())

    def _agrees(self, name: str) -> bool:
        """Whether a primary voted for the root there is, or follows it."""
        election = self.membership.election
        if name == election.name:
            return True
        peer = election.peers.get(name)
        return peer is not None and election.reign in (vote_of(election, name), peer.status.reign)

    def _shown(self, name: str) -> dict[str, Any]:
        election = self.membership.election
        peer = election.peers.get(name)
        if name == election.name:
            status, heard_ms, online = election.status(), self._server.now_ms(), True
        elif peer is not None:
            status, heard_ms, online = peer.status, peer.heard_ms, is_online(election, name)
        else:
            status, heard_ms, online = None, 0, False
        addresses = self._cluster.primaries.get(name)
        return {
            "name": name,
            "role": _role(status, online),
            "online": online,
            "address": addresses.client if addresses else self._own_address(),
            "http": f"http://{addresses.http}" if addresses and addresses.http else "",
            "seniority_ms": status.seniority.stamp_ms if status else None,
            "vote": msgspec.to_builtins(status.vote) if status and status.vote else None,
            "heard_ms_ago": self._server.now_ms() - heard_ms if status else None,
        }

    def _own_address(self) -> str:
        host, port = self._server.listeners[0].address
        return f"{host}:{port}"


def _role(status: Status | None, online: bool) -> str:
    if status is None:
        return "never heard"
    if not online:
        return "offline"
    if status.reign is not None:
        return "root" if status.reign.root == status.name else "backup"
    return "starting" if status.phase == "starting" else "elector"
