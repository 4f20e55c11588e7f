"""Whether clients are served here as they expect; if not, the obstacles: by name for programs, in words for people.

A broker that is not ready is alive, and does what it can: private queues go on without a root. But new clients had
better go to another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from openclust.broker.queues.repeats import Repeats
from openclust.cluster.election.quorum import votes_needed, why_no_root
from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.election.watch import Watch
    from openclust.cluster.log.log import Log
    from openclust.cluster.membership.presences import Presences
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.storage.disk_health import DiskHealth

BLOCKED_MS = 2_000
"""Publishers that wait for less are no obstacle: under load they are stopped and let go all the time."""

TOLD_AFTER_MS = 3_000
"""A broker that is not ready for less time logs nothing: an election takes less."""

ReadinessCheck = Literal["stopping", "draining", "primaries", "root", "link", "definitions", "disk", "publishers"]


class Obstacle(msgspec.Struct, frozen=True):
    """One reason why this broker is not ready."""

    check: ReadinessCheck
    reason: str


class Readiness:
    """Call `look` every heartbeat, and `started` when all that serves clients is there.

    `dialled` tells where a secondary looks for its primaries, and why it reaches none: the shell's links know.
    """

    def __init__(
        self,
        broker: Broker,
        links: Links,
        leadership: Leadership[object],
        elector: Elector,
        watch: Watch,
        presences: Presences,
        log: Log,
        disk_health: DiskHealth,
        *,
        cluster_key: str,
        wait_ms: int,
        is_in_touch: Callable[[], bool],
    ) -> None:
        self._broker = broker
        self._links = links
        self._leadership = leadership
        self._elector = elector
        self._watch = watch
        self._presences = presences
        self._log = log
        self._disk_health = disk_health
        self._cluster_key = cluster_key
        # A question may wait so long for the root.
        self._wait_ms = wait_ms
        # Whether the log has reached the reign of the root.
        self._is_in_touch = is_in_touch
        self.dialled: Callable[[], list[str]] = list
        self._has_started = False
        self._blocked_ms: int | None = None
        self._root_pressed_ms: int | None = None
        self._unheard_ms: int | None = None if elector.is_primary else broker.now_ms
        # Since when this broker is not ready; and whether the last log line about it said that it is.
        self._since_ms: int | None = broker.now_ms
        self._says_ready = False
        self._repeats = Repeats()

    def started(self) -> None:
        """Clients can come: from now on the log says whether they are served."""
        self._has_started = True
        self.look()
        if self._since_ms is not None:
            self._broker.note("info", f"started, and not ready yet: {self.reasons()}")

    # -- what is told

    def obstacles(self) -> list[Obstacle]:
        """All reasons why this broker is not ready, the gravest first."""
        found: list[Obstacle] = []
        if self._links.is_leaving:
            found.append(Obstacle("stopping", "this broker stops"))
        if self._presences.is_draining:
            found.append(Obstacle("draining", "this broker is drained of its clients"))
        found += self._of_root()
        if illness := self._disk_health.illness:
            found.append(Obstacle("disk", f"the disk is ill: {illness}"))
        now_ms = self._broker.now_ms
        if _lasts(self._blocked_ms, now_ms):
            found.append(Obstacle("publishers", f"publishers wait: {self._broker.memory_accounts.reason}"))
        if _lasts(self._root_pressed_ms, now_ms):
            found.append(
                Obstacle("publishers", f"publishers wait: the root {self._leadership.root} is short of memory or disk")
            )
        return found

    def reasons(self) -> str:
        return "; ".join(each.reason for each in self.obstacles())

    def _of_root(self) -> list[Obstacle]:
        if self.hears_no_primary:
            return [Obstacle("primaries", self.no_primary())]
        if not self._leadership.root:
            return [Obstacle("root", f"no root: {'; '.join(f'{peer} {why}' for peer, why in self.why_no_root())}")]
        if not self._leadership.is_root and self._links.root_outbox() is None:
            return [Obstacle("link", f"no link to the root {self._leadership.root}")]
        if not self._is_in_touch():
            return [Obstacle("definitions", f"the definitions have not come from the root {self._leadership.root} yet")]
        return []

    def why_no_root(self) -> list[tuple[str, str]]:
        """The brokers that stand in the way of a root, each with the reason; empty where there is a root."""
        if self._elector.is_primary:
            return why_no_root(self._elector.election)
        if self._leadership.root:
            return []
        if not self._links.primaries:
            return [(self._links.name, f"has reached no primary yet{self._tried()}")]
        now_ms = self._broker.now_ms
        silent = [name for name in self._links.primaries if not self._watch.is_online(name, now_ms)]
        reasons = [(name, "is not heard here") for name in silent]
        return reasons or [(self._links.name, "hears no primary that says it is root; ask one of them")]

    @property
    def votes_needed(self) -> int | None:
        """How many primaries must vote for a root; None where the primaries are not known yet."""
        primaries = self._links.primaries
        return votes_needed(len(primaries)) if primaries else None

    # -- a secondary without primaries

    @property
    def hears_no_primary(self) -> bool:
        now_ms = self._broker.now_ms
        return not self._elector.is_primary and not any(
            self._watch.is_online(each, now_ms) for each in self._links.primaries
        )

    def no_primary(self) -> str:
        """The reason to tell where a secondary hears no primary."""
        primaries = self._links.primaries
        if not primaries:
            return f"this secondary has reached no primary of its cluster yet{self._tried()}"
        return f"this secondary hears none of the primaries {', '.join(primaries)}"

    def _tried(self) -> str:
        dialled = self.dialled()
        return f" ({'; '.join(dialled)})" if dialled else ""

    @property
    def closed_to_clients(self) -> str:
        """Why a client cannot even log in: without definitions this broker knows no users. Empty where one can."""
        if self._elector.is_primary or self._log.last > Position():
            return ""
        missing = self._of_root()
        return f"{missing[0].reason}: connect to another broker, or later" if missing else ""

    @property
    def unanswerable(self) -> str:
        """Why a question to the root is refused at once; empty where an answer may come.

        A secondary that has heard no primary for as long as questions may wait will not hear one just now. One that has
        never reached any has no clients with work under way.
        """
        since_ms, now_ms = self._unheard_ms, self._broker.now_ms
        if not self._links.primaries:
            return self.no_primary()
        if since_ms is None or now_ms - since_ms < self._wait_ms or not self.hears_no_primary:
            return ""
        return f"{self.no_primary()}, for {(now_ms - since_ms) // 1_000} s by now"

    # -- time

    def look(self) -> None:
        """A heartbeat has passed."""
        now_ms = self._broker.now_ms
        self._unheard_ms = _since(self._unheard_ms, self.hears_no_primary, now_ms)
        self._blocked_ms = _since(self._blocked_ms, self._broker.memory_accounts.alarm, now_ms)
        self._root_pressed_ms = _since(self._root_pressed_ms, self._leadership.root in self._links.pressed, now_ms)
        if self._has_started and not self._links.is_leaving:
            self._tell(now_ms)

    def _tell(self, now_ms: int) -> None:
        """Log that this broker is not ready, when that lasts; that it is ready, at first and after such a line."""
        obstacles = self.obstacles()
        self._since_ms = _since(self._since_ms, bool(obstacles), now_ms)
        if self._since_ms is None:
            if not self._says_ready:
                self._says_ready = True
                self._repeats.forget()
                self._broker.note("info", "openclust is ready", cluster_key=self._cluster_key, name=self._links.name)
        elif now_ms - self._since_ms >= TOLD_AFTER_MS:
            again = self._repeats.again(" ".join(each.check for each in obstacles), now_ms)
            if again is not None:
                self._says_ready = False
                self._broker.note("warning", f"not ready: {self.reasons()}{again}")


def _since(since_ms: int | None, is_so: bool, now_ms: int) -> int | None:
    if not is_so:
        return None
    return now_ms if since_ms is None else since_ms


def _lasts(since_ms: int | None, now_ms: int) -> bool:
    return since_ms is not None and now_ms - since_ms >= BLOCKED_MS
