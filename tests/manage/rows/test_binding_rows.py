"""Which broker shows which bindings, and what they are called."""

from __future__ import annotations

import pytest

from openclust.manage.gather.questions import ListRows, Viewer
from openclust.manage.rows.binding_rows import BindingRows, properties_key
from openclust.wire.methods import QueueBind, QueueBindOk, QueueDeclare, QueueDeclareOk
from openclust.wire.table import Table
from tests.support.cluster.joined import Joined

ALL = Viewer(name="guest", sees_all=True)


@pytest.fixture(scope="module")
def cluster() -> Joined:
    """Three primaries; the shared queue `work` and a private one of p2's, both bound to amq.direct."""
    joined = Joined("p1", "p2", "p3")
    client = joined.client("p2")
    client.queue("work")
    client.call(QueueDeclare(queue="mine", exclusive=True), QueueDeclareOk)
    for queue in ("work", "mine"):
        client.call(QueueBind(queue=queue, exchange="amq.direct", routing_key=f"to {queue}"), QueueBindOk)
    joined.tick(500)
    return joined


def shown(cluster: Joined, name: str, *, is_own: bool, **where: str) -> set[tuple[str, str]]:
    rows = BindingRows(cluster.broker(name))
    question = ListRows(kind="bindings", viewer=ALL, where=where, is_own=is_own)
    return {(it.source, rows.row(it)["destination"]) for it in rows.objects(question)}


SHARED = {("", "work"), ("amq.direct", "work")}
PRIVATE = {("", "mine"), ("amq.direct", "mine")}


@pytest.mark.parametrize(
    ("name", "is_own", "wanted"),
    [
        ("p1", True, SHARED),
        ("p1", False, set()),
        ("p2", True, SHARED | PRIVATE),
        ("p2", False, PRIVATE),
    ],
)
def test_shared_bindings_are_shown_by_who_is_asked_and_private_ones_by_who_has_them(
    cluster: Joined, name: str, is_own: bool, wanted: set[tuple[str, str]]
) -> None:
    assert shown(cluster, name, is_own=is_own) == wanted


def test_bindings_are_asked_for_by_their_ends(cluster: Joined) -> None:
    def asked(**where: str) -> set[tuple[str, str]]:
        return shown(cluster, "p2", is_own=True, **where)

    assert asked(source="amq.direct") == {("amq.direct", "work"), ("amq.direct", "mine")}
    assert asked(source="") == {("", "work"), ("", "mine")}
    assert asked(destination="work") == SHARED
    assert asked(source="amq.direct", destination="work") == {("amq.direct", "work")}
    assert asked(source="amq.direct", destination="work", properties_key="to+work") == {("amq.direct", "work")}
    assert asked(source="amq.direct", destination="work", properties_key="k") == set()
    assert asked(source="none") == asked(destination="none") == set()
    assert asked(destination="work", destination_type="exchange") == set()


def test_a_viewer_sees_the_bindings_of_its_virtual_hosts(cluster: Joined) -> None:
    rows = BindingRows(cluster.broker("p1"))
    for vhosts, count in ((("/",), 2), (("other",), 0)):
        viewer = Viewer(name="anna", sees_all=False, vhosts=vhosts)
        assert len([*rows.objects(ListRows(kind="bindings", viewer=viewer, is_own=True))]) == count


@pytest.mark.parametrize(
    ("routing_key", "arguments", "key"),
    [
        ("", {}, "~"),
        ("a.b", {}, "a.b"),
        ("~", {}, "%7E"),
        ("a/b c", {}, "a%2Fb+c"),
        ("", {"x": 1}, "~orJQwiZffA7uPYP4aDXyRw"),
    ],
)
def test_a_binding_is_called_by_its_routing_key_and_a_hash_of_its_arguments(
    routing_key: str, arguments: Table, key: str
) -> None:
    assert properties_key(routing_key, arguments) == key


def test_the_order_of_arguments_does_not_count() -> None:
    assert properties_key("k", {"a": 1, "b": 2}) == properties_key("k", {"b": 2, "a": 1})
    assert properties_key("k", {"a": 1, "b": 2}) != properties_key("k", {"a": 1, "b": 3})
