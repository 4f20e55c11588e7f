"""What is left after a loss."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given

from tests.support.topology.cases import ONE_EACH, STAR, TWO_SWITCHES
from tests.support.topology.files import FOURTH, SOUND, links, model_of, nodes, with_topology
from tests.topology.test_malformed import LIMITS, USABLE, toml
from topology.lint.check import check
from topology.model.graph import Model
from topology.model.loss import LOSS_KINDS, Loss, aftermath, losses


def lost(model: Model, *texts: str) -> list[Loss]:
    by_text = {each.text: each for each in losses(model)}
    return [by_text[each] for each in texts]


def test_everything_can_fail_once() -> None:
    model = model_of(SOUND + STAR)
    counts = {kind: sum(1 for each in losses(model, [kind])) for kind in LOSS_KINDS}
    assert counts == {"broker": 5, "host": 5, "rack": 3, "zone": 3, "region": 0, "node": 1, "link": 5}


def test_more_than_half_elect_a_root() -> None:
    model = model_of(SOUND)
    assert aftermath(model).root == "elected"
    assert aftermath(model, *lost(model, "zone a")).root == "elected"
    assert aftermath(model, *lost(model, "zone a", "broker p2")).root == "none"


def test_exactly_half_keep_the_root_they_have() -> None:
    model = model_of(SOUND + FOURTH)
    left = aftermath(model, *lost(model, "zone a", "broker p4"))
    assert (left.root, left.voters) == ("stays", ("p2", "p3"))


def test_the_clients_of_what_is_lost_move_and_its_room_is_gone() -> None:
    model = model_of(with_topology("clients = 1000"))
    left = aftermath(model, *lost(model, "rack b1"))
    assert left.gone == ("p2", "s2")
    assert (left.moved, left.connections) == (400, 180_000)


def test_a_broker_that_runs_and_reaches_no_voter_is_cut_off() -> None:
    model = model_of(SOUND + ONE_EACH)
    left = aftermath(model, *lost(model, "node sw1"))
    assert (left.root, left.cut_off, left.gone) == ("elected", ("p1", "s1"), ())


def test_a_zone_takes_its_switches_along() -> None:
    placed = STAR.replace("[topology.nodes.sw1]", '[topology.nodes.sw1]\nzone = "a"')
    model = model_of(SOUND + placed)
    assert aftermath(model, *lost(model, "zone a")).root == "none"


def test_two_losses_do_together_what_neither_does_alone() -> None:
    model = model_of(SOUND + TWO_SWITCHES)
    assert aftermath(model, *lost(model, "node sw1")).root == "elected"
    assert aftermath(model, *lost(model, "node sw1", "node sw2")).root == "none"


def test_one_of_two_cables_may_fail() -> None:
    text = SOUND + nodes("a", "b") + links("p1 a", "p2 b", "p3 b", "a b", "b a")
    model = model_of(text)
    assert aftermath(model, *lost(model, "link a - b")).cut_off == ()
    assert aftermath(model, *lost(model, "link a - b", "link b - a")).cut_off == ("p1",)


@LIMITS
@given(USABLE)
def test_no_node_or_trunk_that_costs_the_quorum_is_overlooked(tmp_path: Path, document: dict[str, object]) -> None:
    """The rule looks at articulation points and bridges only; here everything is tried."""
    path = tmp_path / "cluster.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in document.items()), encoding="utf-8")
    report, model = check(path, select=["OC306"])
    assert model is not None
    assume(len(model.primaries) > 1 and aftermath(model).root == "elected")
    nodes_told = {name for each in report.findings for name in each.nodes}
    links_told = {pair for each in report.findings for pair in each.links}
    for each in losses(model, ["node"]):
        assert (aftermath(model, each).root != "elected") == (each.name in nodes_told), each
    for link in model.routes.trunks:
        loss = Loss(kind="link", name=link.text, links=frozenset((link.index,)))
        assert (aftermath(model, loss).root != "elected") <= (link.names in links_told), loss


@pytest.mark.parametrize("kind", LOSS_KINDS)
def test_a_loss_tells_what_it_is(kind: str) -> None:
    for each in losses(model_of(SOUND + STAR), [kind]):  # type: ignore[list-item]
        assert each.text == f"{kind} {each.name}"
