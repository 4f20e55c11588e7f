"""Users files in a cluster of real processes: all brokers agree on who may log in, whatever their files say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pika
import pika.exceptions
import pytest

from openclust.broker.model.access import User
from openclust.cli.cluster.local_cluster import plan_cluster
from openclust.shell.users.users_file import GUEST_HASH, guest, load_users, save_users
from tests.support.clients.deadline import eventually
from tests.support.cluster.running_cluster import RunningCluster

pytestmark = pytest.mark.sockets


class Cluster(RunningCluster):
    """Three primaries with a data directory and a users file each."""

    def __init__(self, folder: Path) -> None:
        plan = plan_cluster("test", folder, 3)
        plan.write()
        super().__init__(plan)
        self.commands = {}
        for name, each in self.primaries.items():
            self.commands[name] = [*plan.command(each.place), "--users-file", str(folder / f"{name}.json")]
        self.folder = folder

    def write(self, *users: str, at: tuple[str, ...] = ("p1", "p2", "p3")) -> None:
        """Have these users, and guest, in the files of some brokers. Their password is guest's."""
        named = {name: User(name=name, password_hash=GUEST_HASH, tags=("management",)) for name in users}
        for name in at:
            save_users(str(self.folder / f"{name}.json"), guest() | named)

    def start(self) -> None:
        for name, each in self.primaries.items():
            each.start(self.commands[name])
        self.wait_until_settled()

    def stop(self) -> None:
        for each in self.primaries.values():
            each.stop()

    def await_users(self, let_in: Mapping[str, bool]) -> None:
        """Wait until every broker lets in whom it should, and nobody else of those named."""
        eventually(lambda: self._users(let_in) == {name: dict(let_in) for name in self.primaries})

    def _users(self, names: Mapping[str, bool]) -> dict[str, dict[str, bool]]:
        with contextlib.suppress(OSError):  # who is started does not listen yet
            return {
                name: {user: may_log_in(each.place.client_port, user) for user in names}
                for name, each in self.primaries.items()
            }
        return {}


def may_log_in(port: int, user: str) -> bool:
    """Whether it is let in over AMQP. The HTTP API makes whoever tries wrong logins wait."""
    parameters = pika.ConnectionParameters("127.0.0.1", port, credentials=pika.PlainCredentials(user, "guest"))
    try:
        pika.BlockingConnection(parameters).close()
    except pika.exceptions.ProbableAuthenticationError:
        return False
    except pika.exceptions.ProbableAccessDeniedError:
        # The login was right; the user has no permissions.
        return True
    except pika.exceptions.AMQPConnectionError as error:
        raise OSError("it does not listen yet") from error
    return True


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    try:
        yield cluster
    finally:
        cluster.stop()


def test_files_that_were_edited_while_all_brokers_were_stopped_hold_for_all_of_them(cluster: Cluster) -> None:
    cluster.write("eve", "anna")
    cluster.start()
    cluster.await_users({"guest": True, "eve": True, "anna": True, "frank": False})

    cluster.stop()
    cluster.write("anna", "frank")
    cluster.start()
    cluster.await_users({"guest": True, "eve": False, "anna": True, "frank": True})

    edited = cluster.primaries["p2"]
    edited.stop()
    cluster.write("frank", "gina", at=("p2",))
    edited.start(cluster.commands["p2"])
    cluster.await_users({"guest": True, "anna": False, "frank": True, "gina": True})
    for name, each in cluster.primaries.items():
        if name != "p2":
            named = (
                f"{name}.json is not what the cluster's users are, and those hold: only in the file: anna; only in the"
            )
            eventually(lambda: named in each.log.read_text())  # noqa: B023
    assert load_users(str(cluster.folder / "p1.json")).keys() == {"guest", "anna", "frank"}, "files are people's"


def test_brokers_that_begin_with_different_files_agree_and_name_what_is_different(cluster: Cluster) -> None:
    for name in cluster.primaries:
        cluster.write(f"user-of-{name}", at=(name,))
    cluster.start()
    root = cluster.root().name
    cluster.await_users({"guest": True} | {f"user-of-{name}": name == root for name in cluster.primaries})
    for each in cluster.others(cluster.primaries[root]):
        named = f"only in the file: user-of-{each.name}; only in the cluster: user-of-{root}"
        eventually(lambda: named in each.log.read_text())  # noqa: B023
