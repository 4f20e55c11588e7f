"""A primary that restarts begins with what its store has kept, and goes on from there as a follower of whoever is root.

Here the store has kept all rows; what becomes of checkpoints is in `test_checkpoints.py`.
"""

from __future__ import annotations

from openclust.broker.journal.store_rows import Contents, Cut, Keep, StoredRow, Write
from openclust.broker.model.change_codec import encode_change
from openclust.broker.model.changes import DeclareQueue
from openclust.cluster.protocol.messages import Append, Snapshot
from tests.cluster.log.test_replica import fingerprints, said
from tests.cluster.test_contents_replicated import PRIMARIES, cut_off, fill, held, numbers, same
from tests.support.cluster.joined import Joined
from tests.support.shared_state import shared_state


class Rows:
    """What one broker's store has kept: definitions and the log's end as they are now, and all rows from now on."""

    def __init__(self, cluster: Joined, name: str) -> None:
        self.rows: list[Keep] = []
        self.position = cluster[name].replica.position
        self.definitions = [encode_change(each) for each in shared_state(cluster.broker(name))]
        writes = cluster[name].store_writes
        give = writes.give

        def given(write: Write) -> None:
            if isinstance(write, Keep):
                self.rows.append(write)
            elif isinstance(write, Cut):
                self.rows = [row for row in self.rows if row.sequence <= write.sequence]
            give(write)

        writes.give = given  # type: ignore[method-assign]

    def restart(self, cluster: Joined, name: str) -> None:
        """It is there again, with these rows."""
        if name in cluster.members:
            cluster.kill(name)
        cluster.make(name, is_primary=True)
        rows = [StoredRow(row, is_told=False) for row in self.rows]
        epoch, sequence = self.position.epoch, self.position.sequence
        cluster[name].recover(Contents(epoch=epoch, sequence=sequence, definitions=self.definitions, rows=rows))
        cluster.begin(name)
        cluster.settle()


def test_a_follower_goes_on_from_where_its_log_ends() -> None:
    cluster = Joined(*PRIMARIES)
    kept = Rows(cluster, "p3")
    fill(cluster, *numbers(1, 5))
    cluster.kill("p3")
    fill(cluster, *numbers(6, 9))
    sent = cluster.tap("p1")
    kept.restart(cluster, "p3")
    cluster.tick(500)
    assert same(cluster) == numbers(1, 9)
    assert set(said(sent, "p3", Append, Snapshot)) == {"Append"}


def test_what_was_taken_before_is_not_there_after() -> None:
    cluster = Joined(*PRIMARIES)
    kept = Rows(cluster, "p1")
    fill(cluster, *numbers(1, 5))
    assert cluster.client("p2").get("q") is not None
    for name in PRIMARIES:
        cluster.kill(name)
    kept.restart(cluster, "p1")
    assert held(cluster, "p1") == [(number, b"%03d" % number) for number in range(2, 6)]


def test_a_definition_in_a_tail_that_others_do_not_have_does_not_survive_a_restart() -> None:
    cluster = Joined(*PRIMARIES)
    kept = Rows(cluster, "p1")
    fill(cluster, *numbers(1, 3))
    cluster.hold("p1", "p2")
    cluster.hold("p1", "p3")
    cluster["p1"].role.define(DeclareQueue(vhost="/", name="stray", durable=True), lambda _: None)
    cut_off(cluster, "p1")
    cluster.tick(2_000)
    cluster.held.clear()
    cluster.kill("p1")
    cluster.cuts.clear()
    kept.restart(cluster, "p1")
    assert "stray" in cluster.broker("p1").vhosts["/"].queues
    cluster.await_root()
    cluster.tick(500)
    assert "stray" not in cluster.broker("p1").vhosts["/"].queues
    assert len(fingerprints(cluster)) == 1 and same(cluster) == numbers(1, 3)
