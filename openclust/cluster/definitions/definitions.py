"""The definitions of this broker: they follow the log, can be replaced by a snapshot's, and their size is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from openclust.broker.model.change_codec import decode_change
from openclust.broker.model.changes import Change
from openclust.cluster.definitions.definitions_size import DefinitionsSize
from openclust.cluster.definitions.name_collisions import NameCollisions
from openclust.cluster.definitions.reconciliation import Reconciliation
from openclust.cluster.definitions.state import state_in_passing
from openclust.cluster.definitions.target_state import TargetState

if TYPE_CHECKING:
    from openclust.broker.server.broker import Broker
    from openclust.cluster.protocol.bounds import Bounds
    from openclust.cluster.protocol.log_entry import LogEntry

_UNBOUNDED = 2**62


class Definitions:
    """Call `install_on` and `size.measure_on` once a turn while it `is_busy`."""

    def __init__(self, broker: Broker, bounds: Bounds, *, is_primary: bool) -> None:
        self._broker = broker
        self._slice_max = bounds.slice_max
        self.hidden = NameCollisions(broker, is_primary=is_primary)
        self.size = DefinitionsSize(
            broker, self.in_passing, bytes_max=bounds.state_bytes_max, slice_max=bounds.slice_max
        )
        self._installing: Iterator[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self.is_installing or self.size.is_measuring

    def in_passing(self) -> Iterator[Change]:
        """All definitions, taken while they change. Hidden ones come first: they may be made here meanwhile."""
        yield from self.hidden.changes()
        yield from state_in_passing(self._broker)

    # -- following

    def follow(self, entry: LogEntry) -> None:
        """Make the change of an entry; AmqpError or ValueError where it cannot be made here."""
        self.size.added(entry.body)
        with self._unbounded():
            self.hidden.follow(decode_change(entry.body))

    @property
    def is_installing(self) -> bool:
        """Whether a snapshot's definitions are being installed: until then they are those of no position of the log."""
        return self._installing is not None

    def install(self, parts: list[list[bytes]]) -> None:
        """Begin to replace the definitions by those of a snapshot: `install_on` does a turn's work."""
        self._installing = self._install(parts)

    def install_on(self, *, to_the_end: bool = False) -> None:
        if self._installing is None:
            return
        with self._unbounded():
            count = sum(1 for _ in islice(self._installing, None if to_the_end else self._slice_max))
        if to_the_end or count < self._slice_max:
            self._installing = None

    def _install(self, parts: list[list[bytes]]) -> Iterator[None]:
        wanted = TargetState()
        size = 0
        for part in parts:
            for body in part:
                yield
                size += len(body)
                try:
                    wanted.add(decode_change(body))
                except ValueError as error:
                    self._broker.note("error", "a definition of the root's is none", text=str(error))
            # Its definitions are in the target state now: they need not be in memory twice.
            part.clear()
        yield from Reconciliation(self._broker, wanted, self.hidden).steps()
        self.size.known(size)

    @contextmanager
    def _unbounded(self) -> Iterator[None]:
        """Without limits: a change that the root has made is not refused here, where more private queues may count."""
        limits = self._broker.limits
        self._broker.limits = msgspec.structs.replace(
            limits, queues_max=_UNBOUNDED, exchanges_max=_UNBOUNDED, bindings_max=_UNBOUNDED
        )
        try:
            yield
        finally:
            self._broker.limits = limits
