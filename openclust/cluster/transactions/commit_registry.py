"""The transactions that were done already: a broker without an answer asks again, this root or the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from openclust.cluster.protocol.status import Position

if TYPE_CHECKING:
    from openclust.broker.backlog.backlog import Entry
    from openclust.broker.queues.queue import Queue
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.protocol.leadership import Leadership

RUNS_MAX = 1_000
NUMBERS_MAX = 100_000

Name: TypeAlias = tuple[bytes, int, int]
"""The run (one life of one broker), the number of the transaction in it, and the run's first unanswered number."""


class DoneTransaction(msgspec.Struct):
    """A transaction that was done. It is in the log at `position`; None where this root of `epoch` has just done it.

    Then it is in this `batch` of the journal, and sure to stay when that is in all `places`. `unroutable` are the
    publishes that no queue was bound for, `taken` the places in queues that its messages have until that is sure.
    """

    epoch: int
    position: Position | None = None
    batch: int = 0
    places: int = 0
    unroutable: list[int] = []
    taken: list[tuple[Queue, int]] = []


class CommitRegistry:
    """A run's answered transactions are forgotten with its next one, and of all runs those that are idle longest.

    Call `did` as root, `sealed` when the journal's batch is in the log, `heard` for transactions of another root, and
    `cut` where the log loses its end.
    """

    def __init__(self, leadership: Leadership[object], commit_index: CommitIndex) -> None:
        self._leadership = leadership
        self._commit_index = commit_index
        self._runs: dict[bytes, dict[int, DoneTransaction]] = {}
        # Transactions in the open batch of the journal.
        self._open: list[DoneTransaction] = []
        # The transactions that may still be undone here, by the places of their messages.
        self._bound: dict[tuple[Queue, int], DoneTransaction] = {}

    def find(self, run: bytes, number: int) -> DoneTransaction | None:
        """The transaction, if it was done and nothing has undone it."""
        transaction = self._runs.get(run, {}).get(number)
        return transaction if transaction is not None and self._holds(transaction) else None

    def _holds(self, transaction: DoneTransaction) -> bool:
        """Whether it is in the log, or is on its way there."""
        return transaction.position is not None or (
            transaction.epoch == self._leadership.epoch and self._leadership.is_root
        )

    def did(self, name: Name, transaction: DoneTransaction, *, is_open: bool) -> None:
        """This root has done it; `is_open`: a part of it is in the open batch of the journal."""
        self._add(name, transaction)
        if is_open:
            self._open.append(transaction)
            self._bound |= dict.fromkeys(transaction.taken, transaction)
            transaction.taken = []

    def dead_letters_entered(self, queue: Queue, seq: int, letters: Sequence[tuple[Queue, Entry]]) -> None:
        """These are dead letters of the message at that place: if it came by a transaction, so did they."""
        transaction = self._bound.get((queue, seq))
        if transaction is not None:
            self._bound |= {(of, letter.seq): transaction for of, letter in letters}

    def sealed(self, position: Position) -> None:
        """The journal's batch is in the log now."""
        if self._bound:
            sure = self._commit_index.memory
            self._bound = {
                place: transaction
                for place, transaction in self._bound.items()
                if not _is_sure(transaction, sure, position)
            }
        opened, self._open = self._open, []
        for transaction in opened:
            if transaction.epoch == position.epoch:
                transaction.position = position

    def forget_place(self, queue: Queue, seq: int) -> bool:
        """The message at that place is undone. True if it came by a transaction.

        Then it must not be handed over alone: the transaction is asked for again, and done as a whole.
        """
        return self._bound.pop((queue, seq), None) is not None

    def heard(self, position: Position, names: Iterable[Name]) -> None:
        """The log has these transactions at that position."""
        for name in names:
            self._add(name, DoneTransaction(position.epoch, position))

    def cut(self, after: Position) -> None:
        """The log ends at this position now: transactions after it were not done."""
        for run, transactions in self._runs.items():
            self._runs[run] = {
                number: transaction
                for number, transaction in transactions.items()
                if transaction.position is None or transaction.position <= after
            }

    def _add(self, name: Name, transaction: DoneTransaction) -> None:
        run, number, oldest = name
        transactions = self._runs.pop(run, {})
        self._runs[run] = transactions
        while transactions and (next(iter(transactions)) < oldest or len(transactions) >= NUMBERS_MAX):
            del transactions[next(iter(transactions))]
        transactions[number] = transaction
        if len(self._runs) > RUNS_MAX:
            del self._runs[next(iter(self._runs))]

    # -- snapshots

    def names(self, upto: Position) -> list[Name]:
        """All transactions up to this position that may be asked for again, for a snapshot."""
        return [
            (run, number, min(transactions))
            for run, transactions in self._runs.items()
            for number, transaction in transactions.items()
            if transaction.position is not None and transaction.position <= upto and self._holds(transaction)
        ]

    def begin_anew(self, position: Position, names: Iterable[Name]) -> None:
        """A snapshot has taken the place of the log: only these transactions are known to be done."""
        self._runs.clear()
        self._open.clear()
        self.heard(position, names)


def _is_sure(transaction: DoneTransaction, committed: Position, now: Position) -> bool:
    """Whether it is committed; or of an earlier reign, when its places have gone to other messages."""
    return transaction.epoch != now.epoch or (transaction.position is not None and transaction.position <= committed)
