"""A backlog that keeps the last value of each key."""

from __future__ import annotations

from collections.abc import Callable

from openclust.broker.backlog.backlog import Entry, FifoBacklog


class LastValueBacklog(FifoBacklog):
    """Of each key only the newest entry counts; it stands at its own place, not at that of the one it replaced.

    A delivery that is unacknowledged when a newer value arrives is superseded: `superseded` is called for it, it can be
    acknowledged, but not put back.
    The caller must `settle` the entries that it has popped, or the last entry of every key stays in memory.
    """

    __slots__ = ("_key_by_seq", "_newest", "_out", "_superseded")

    def __init__(self, superseded: Callable[[Entry], None] = lambda entry: None) -> None:
        super().__init__()
        self._superseded = superseded
        self._newest: dict[str, Entry] | None = None
        self._key_by_seq: dict[int, str] = {}
        self._out: set[int] = set()

    def push(self, entry: Entry, key: str | None = None) -> Entry | None:
        if key is None:
            return super().push(entry)
        if self._newest is None:
            self._newest, self._key_by_seq, self._out = {}, {}, set()
        older, replaced = self._newest.get(key), None
        # The new one first: the tables stay while it is in them.
        self._newest[key] = entry
        self._key_by_seq[entry.seq] = key
        super().push(entry)
        if older is not None and older.seq in self._out:
            self._forget(older)
            older.gone = True
            self._superseded(older)
        elif older is not None:
            replaced = older
            self.remove(older)
        return replaced

    def newest(self, key: str) -> Entry | None:
        """The entry that is the value of a key, ready or delivered."""
        return None if self._newest is None else self._newest.get(key)

    def put_back(self, entry: Entry) -> bool:
        self._out.discard(entry.seq)
        return super().put_back(entry)

    def know(self, entry: Entry, key: str) -> None:
        """An entry that was taken for good comes back after all; `put_back` must follow."""
        if self._newest is None:
            self._newest, self._key_by_seq, self._out = {}, {}, set()
        newest = self._newest.get(key)
        if newest is None or newest.seq < entry.seq:
            self._newest[key] = entry
        self._key_by_seq[entry.seq] = key

    def settle(self, entry: Entry) -> None:
        self._forget(entry)

    def pop(self) -> Entry | None:
        entry = super().pop()
        if entry is not None and entry.seq in self._key_by_seq:
            self._out.add(entry.seq)
        return entry

    def _forget(self, entry: Entry) -> None:
        key = self._key_by_seq.pop(entry.seq, None)
        if key is None or self._newest is None:
            return
        self._out.discard(entry.seq)
        if self._newest.get(key) is entry:
            del self._newest[key]
            if not self._newest:
                self._newest = None
