"""Two brokers with one name, admitted by different primaries: the one that the root has admitted stays."""

from __future__ import annotations

from openclust.cluster.protocol.hello import Hello
from openclust.cluster.protocol.roster import Roster

PATIENCE_MS = 3_000
"""What the root tells may be older than a restart. After so long it is not: the root has another broker of the name."""


class Twins:
    """Tell it each roster of the root. `refused` is asked for every broker that dials."""

    def __init__(self) -> None:
        # Names whose broker here differs from the root's: both lives, and since when they differ.
        self._doubted: dict[str, tuple[str, str, int]] = {}
        # By name, the life that was refused for the one that the root has.
        self._refused: dict[str, str] = {}

    def told(self, roster: Roster, hellos: dict[str, Hello], now_ms: int) -> list[str]:
        """The names of brokers whose links here must end."""
        self._refused = {name: life for name, life in self._refused.items() if self._is_other(roster, name, life)}
        before, self._doubted = self._doubted, {}
        going = []
        for name, hello in hellos.items():
            if not self._is_other(roster, name, hello.life):
                continue
            lives = hello.life, self._life(roster, name)
            since_ms = before[name][2] if name in before and before[name][:2] == lives else now_ms
            if now_ms - since_ms < PATIENCE_MS:
                self._doubted[name] = (*lives, since_ms)
            else:
                self._refused[name] = hello.life
                going.append(name)
        return going

    def is_refused(self, hello: Hello) -> bool:
        """Whether this broker was refused for another one of its name, which the root still has."""
        return self._refused.get(hello.name) == hello.life

    def _is_other(self, roster: Roster, name: str, life: str) -> bool:
        known = self._life(roster, name)
        return bool(known) and known != life

    def _life(self, roster: Roster, name: str) -> str:
        known = roster.find(name)
        return known.life if known is not None else ""
