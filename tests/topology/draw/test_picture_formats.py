from __future__ import annotations

import re
import time
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from itertools import combinations, pairwise, product
from typing import Any

import pytest
from hypothesis import HealthCheck, given

from tests.support.examples import examples
from tests.support.paths import ROOT
from tests.support.topology.random_models import broker, model_of, models
from topology.draw.colors import ORANGE, RED
from topology.draw.lines import ways_of
from topology.draw.picture import ALONE_MAX, picture_of
from topology.draw.picture_formats import FORMATS, draw, format_of
from topology.draw.picture_layout import layout_of
from topology.draw.scene import Scene, scene_of
from topology.draw.shapes import Area, Polyline, Rect, Words, shortened, width_of
from topology.lint.check import check, lint
from topology.model.file_entries import Key, ListedNode
from topology.model.graph import Model
from topology.rules.finding import FileReport, Finding, Severity

EXAMPLE = "conf/topologies/three-zones.toml"
QUICK = examples(12, suppress=[HealthCheck.too_slow])
NO_FINDINGS = FileReport(file="cluster.toml", findings=())


def loaded(file: str) -> tuple[Model, FileReport]:
    report, model = check(ROOT / file)
    assert model is not None
    return model, report


def svg(model: Model, report: FileReport = NO_FINDINGS) -> ET.Element:
    return ET.fromstring(draw(model, report, "svg"))


def texts(root: ET.Element) -> list[str]:
    return [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text")]


def three(**of: object) -> Model:
    return model_of(tuple(broker(name, **of) for name in ("p1", "p2", "p3", "s1")))


def finding(**of: object) -> Finding:
    told: dict[str, object] = {"code": "OC403", "severity": Severity.ERROR, "message": "wrong", "file": "x"}
    return Finding(**(told | of))  # type: ignore[arg-type]


def test_the_picture_in_the_docs_is_that_of_its_command() -> None:
    model, report = loaded(EXAMPLE)
    shown = (ROOT / "docs" / "topology.svg").read_bytes()
    again = f"openclust draw {EXAMPLE} -o docs/topology.svg"
    assert shown == draw(model, report, "svg"), f"draw it again: {again}"
    assert again in (ROOT / "docs" / "topology.md").read_text()


def test_everybody_is_told_with_their_partition() -> None:
    told = texts(svg(three(zone="a")))
    assert {"p1", "p2", "p3", "s1", "zone a"} <= set(told)
    assert (told.count("primary"), told.count("secondary")) == (4, 2), "and once each in the legend"


def test_boxes_stand_in_boxes() -> None:
    model = model_of(tuple(broker(f"p{i}", host="metal", rack="r", zone="z", region="eu") for i in range(2)))
    layout = layout_of(picture_of(model, NO_FINDINGS).root)
    outer = [each.area for each in layout.frames]
    assert [each.kind for each in layout.frames] == ["region", "zone", "rack", "host"]
    for one, inner in pairwise(outer):
        assert one.x < inner.x and one.y < inner.y and inner.right < one.right and inner.bottom < one.bottom


def test_a_host_of_one_broker_is_no_box() -> None:
    model = model_of((broker("p1", host="h1"), broker("p2", host="h2")))
    assert layout_of(picture_of(model, NO_FINDINGS).root).frames == ()


def test_findings_are_red_where_they_are() -> None:
    report = FileReport(file="x", findings=(finding(brokers=("p2",)),))
    picture = picture_of(three(), report)
    assert [each.title for each in picture.cards if each.mark is not None] == ["p2"]
    red = [each for each in scene_of(picture).shapes if isinstance(each, Rect) and each.stroke == RED]
    assert len(red) == 1 and "OC403" in red[0].title
    assert "OC403" in texts(svg(three(), report))


def test_a_warning_is_orange_and_information_is_only_told_below() -> None:
    warning = FileReport(file="x", findings=(finding(brokers=("p2",), severity=Severity.WARNING),))
    assert ORANGE in draw(three(), warning, "svg").decode()
    info = FileReport(file="x", findings=(finding(brokers=("p2",), severity=Severity.INFO, message="only so"),))
    assert all(each.mark is None for each in picture_of(three(), info).cards)
    assert "only so" in texts(svg(three(), info))


def test_a_link_with_a_finding_is_red_and_one_that_is_missing_is_dashed() -> None:
    core: Key = ("node", "core")
    brokers = tuple(broker(name) for name in ("p1", "p2", "p3"))
    model = model_of(brokers, (ListedNode(name="core"),), ((brokers[0].key, core), (brokers[1].key, core)))
    report = FileReport(file="x", findings=(finding(links=(("p1", "core"), ("p1", "p3"))),))
    lines = [each for each in scene_of(picture_of(model, report)).shapes if isinstance(each, Polyline)]
    marked = {each.title.partition(":")[0]: each.is_dashed for each in lines if each.stroke == RED and each.title}
    assert marked == {"p1 - core": False, "p1 - p3": True}


def test_many_secondaries_of_one_place_are_one_card() -> None:
    brokers = [broker(f"p{i}", zone="a") for i in range(3)]
    brokers += [broker(f"s{i:03}", zone="ab"[i % 2]) for i in range(ALONE_MAX)]
    picture = picture_of(model_of(tuple(brokers)), NO_FINDINGS)
    assert [each.title for each in picture.cards] == ["p0", "p1", "p2", "30 secondaries", "30 secondaries"]
    assert len(picture_of(model_of(tuple(brokers[:ALONE_MAX])), NO_FINDINGS).cards) == ALONE_MAX


def test_a_thousand_brokers_are_drawn_in_seconds() -> None:
    brokers = tuple(broker(f"{'p' if i < 9 else 's'}{i}", zone=f"z{i % 20}") for i in range(1_000))
    nodes = tuple(ListedNode(name=f"sw{i}", zone=f"z{i}") for i in range(20))
    model = model_of(brokers, nodes, tuple((each.key, ("node", f"sw{i % 20}")) for i, each in enumerate(brokers)))
    started = time.process_time()
    picture = draw(model, NO_FINDINGS, "svg")
    assert time.process_time() - started < 5
    assert len(picture) < 200_000


@given(models(primaries_max=4, secondaries_max=5))
@QUICK
def test_no_card_covers_another_and_no_text_another(model: Model) -> None:
    picture = picture_of(model, lint(model))
    scene = scene_of(picture)
    layout = layout_of(picture.root)
    for one, other in combinations(layout.areas.values(), 2):
        assert not one.meets(other, 5)
    words = [each for each in scene.shapes if isinstance(each, Words)]
    for first, second in combinations(words, 2):
        assert not first.area.meets(second.area, -1.5), (first.text, second.text)
    whole = Area(0, 0, scene.width, scene.height)
    for each in words:
        assert whole.x <= each.area.x and each.area.right <= whole.right + 1 and each.area.bottom <= whole.bottom


@given(models(primaries_max=4, secondaries_max=5))
@QUICK
def test_no_line_passes_behind_a_card(model: Model) -> None:
    picture = picture_of(model, lint(model))
    layout = layout_of(picture.root)
    for edge, points in zip(picture.edges, ways_of(picture.edges, layout, ()).points, strict=True):
        others = [area for card, area in layout.areas.items() if card not in (edge.one, edge.other)]
        for piece in pairwise(points):
            assert not any(each.is_crossed(*piece) for each in others)


def drawn_lines(scene: Scene) -> list[Polyline]:
    """Those between cards: lines of the legend and below the picture have no title."""
    return [each for each in scene.shapes if isinstance(each, Polyline) and each.title]


def shared_length(one: Polyline, other: Polyline) -> float:
    """How far two lines lie on each other, or so close that they look like one."""
    found = 0.0
    for (a, b), (c, d) in product(one.pieces, other.pieces):
        for i, k in ((0, 1), (1, 0)):
            is_lane = abs(a[i] - b[i]) < 0.5 and abs(c[i] - d[i]) < 0.5 and abs(a[i] - c[i]) < 3
            together = min(max(a[k], b[k]), max(c[k], d[k])) - max(min(a[k], b[k]), min(c[k], d[k]))
            found += max(0.0, together) if is_lane else 0
    return found


def dual_homed() -> Model:
    """Fourteen brokers in one zone, all linked to two switches but p1 and s4."""
    brokers = [broker(f"p{i}", zone="a") for i in range(5)] + [broker(f"s{i}", zone="a") for i in range(9)]
    nodes = (ListedNode(name="sw1", zone="a"), ListedNode(name="sw2", zone="a"))
    between = [(each.key, node.key) for each in brokers for node in nodes]
    between = [each for each in between if each not in ((brokers[1].key, nodes[1].key), (brokers[9].key, nodes[1].key))]
    return model_of(tuple(brokers), nodes, tuple(between))


@pytest.mark.parametrize("name", ["three-zones", "eight", pytest.param("dual-homed", marks=pytest.mark.slow)])
def test_a_broker_with_two_links_is_seen_to_have_two(name: str) -> None:
    model = dual_homed() if name == "dual-homed" else loaded(f"conf/topologies/{name}.toml")[0]
    lines = drawn_lines(scene_of(picture_of(model, NO_FINDINGS)))
    assert len(lines) == len(model.links)
    for one, other in combinations(lines, 2):
        assert shared_length(one, other) < 3, (one.title, other.title)
    ends = [point for each in lines for point in (each.points[0], each.points[-1])]
    assert len(set(ends)) == len(ends)


@pytest.mark.parametrize("name", ["three-zones", "eight", "two-sites"])
def test_no_line_runs_through_words(name: str) -> None:
    model, report = loaded(f"conf/topologies/{name}.toml")
    scene = scene_of(picture_of(model, report))
    plates: list[Area] = []
    for shape in reversed(scene.shapes):
        # What is painted later covers what was painted before.
        if isinstance(shape, Rect):
            plates.append(shape.area)
        if isinstance(shape, Polyline) and shape.title:
            words = [each for each in scene.shapes if isinstance(each, Words)]
            for each in words:
                is_behind = any(
                    plate.x <= each.area.x and plate.y <= each.area.y + 2 and each.area.right <= plate.right
                    for plate in plates
                    if plate.meets(each.area)
                )
                assert is_behind or not any(each.area.is_crossed(*piece) for piece in shape.pieces), each.text


def test_a_long_finding_is_told_to_its_end() -> None:
    message = " ".join(f"word{i}" for i in range(60))
    told = texts(svg(three(), FileReport(file="x", findings=(finding(message=message),))))
    assert " ".join(each for each in told if each.startswith("word")) == message


def test_an_error_about_a_link_is_red_at_its_brokers_too() -> None:
    about: dict[str, Any] = {"brokers": ("p2",), "links": (("p1", "p2"),)}
    error = picture_of(three(), FileReport(file="x", findings=(finding(**about),)))
    assert [each.title for each in error.cards if each.mark is not None] == ["p2"]
    warning = picture_of(three(), FileReport(file="x", findings=(finding(severity=Severity.WARNING, **about),)))
    assert all(each.mark is None for each in warning.cards)


@pytest.mark.parametrize(
    "host", ["broker-orders-production-a.eu-central-1a.compute.internal", "[2001:0db8:85a3:1234:5678:8a2e:0370:7334]"]
)
def test_a_long_address_keeps_its_port_and_is_whole_under_the_pointer(host: str) -> None:
    model = model_of((broker("p1", peer=f"{host}:5682"),))
    (told,) = [each for each in texts(svg(model)) if each.startswith(host[:8])]
    assert told.endswith("…:5682")
    assert f"{host}:5682" in draw(model, NO_FINDINGS, "svg").decode()


def test_memory_is_told_as_the_file_has_it() -> None:
    assert "8,000 MB" in texts(svg(model_of((broker("p1", memory_mb=8000),))))


def test_many_brokers_of_one_zone_stand_in_rows() -> None:
    areas = list(
        layout_of(
            picture_of(model_of(tuple(broker(f"s{i}", zone="a") for i in range(14))), NO_FINDINGS).root
        ).areas.values()
    )
    assert len({each.y for each in areas}) == 4
    assert not any(one.meets(other, 20) for one, other in combinations(areas, 2))


@given(models())
@QUICK
def test_any_cluster_can_be_drawn_in_any_format_and_always_alike(model: Model) -> None:
    report = lint(model)
    for format_ in FORMATS:
        if format_ != "png":
            assert draw(model, report, format_) == draw(model, report, format_)
    ET.fromstring(draw(model, report, "svg"))


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="PNG needs matplotlib")
@pytest.mark.parametrize("file", [EXAMPLE, "conf/cluster.toml"])
def test_png_is_a_picture(file: str) -> None:
    assert draw(*loaded(file), "png").startswith(b"\x89PNG\r\n")


def test_names_are_no_markup_anywhere() -> None:
    name = 'p<b>"&]--\\ #1;'
    model = model_of((broker(name), broker('p2"]'), broker("p3")))
    assert name in texts(svg(model))
    dot = draw(model, NO_FINDINGS, "dot").decode()
    assert 'c0 [label="p<b>\\"&]--\\\\ #1;\\nprimary"' in dot
    mermaid = draw(model, NO_FINDINGS, "mermaid").decode()
    labels = re.findall(r'^  c\d\["(.*)"\]:::primary$', mermaid, re.M)
    assert len(labels) == 3
    assert not any(set(label.replace("<br/>", "")) & set('<>"&]\\-[') - {"-"} for label in labels)


def test_dot_and_mermaid_have_boxes_links_and_marks() -> None:
    model, _ = loaded(EXAMPLE)
    report = FileReport(file="x", findings=(finding(brokers=("p2",), links=()), finding(links=(("p1", "switch-a1"),))))
    dot, mermaid = (draw(model, report, each).decode() for each in ("dot", "mermaid"))
    assert dot.count("subgraph cluster_") == mermaid.count("subgraph b") == 3
    assert dot.count(" -- ") == mermaid.count(" ---") == len(model.links)
    assert dot.count(RED) == mermaid.count(RED) == 2


@pytest.mark.parametrize(
    ("file", "format_"), [("a.svg", "svg"), ("A.PNG", "png"), ("x.gv", "dot"), ("x.mmd", "mermaid"), ("-", None)]
)
def test_the_name_of_a_file_tells_its_format(file: str, format_: str | None) -> None:
    assert format_of(file) == format_


def test_what_is_too_long_is_shortened_to_its_room() -> None:
    short = shortened("a-very-long-name-of-a-broker", 12, 90)
    assert short.endswith("…") and width_of(short, 12) <= 90
    assert shortened("p1", 12, 90) == "p1"
