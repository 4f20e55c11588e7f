"""The legend below the picture: the meaning of its signs, and the findings in words."""

from __future__ import annotations

from topology.draw.colors import FAINT, LINES, LOOKS, ORANGE, RED
from topology.draw.picture import Edge, Picture
from topology.draw.shapes import Area, Polyline, Rect, Shape, Words, width_of, wrapped
from topology.rules.finding import Finding, Severity

FINDINGS_MAX = 40
COLORS = {Severity.ERROR: RED, Severity.WARNING: ORANGE, Severity.INFO: FAINT}
LINES_MAX = 6
"""The most lines of text for one finding."""

MESSAGE = 124
"""The x at which the text of a finding begins, right of its severity and id."""

SIGN, ROW = 30, 24


def below(picture: Picture, top: float, width: float, margin: float) -> tuple[list[Shape], float]:
    """The shapes of the legend, and their height together."""
    shapes: list[Shape] = [
        Polyline(points=((margin, top), (width - margin, top)), stroke="#cbd5e1"),
    ]
    x, y = margin, top + 26
    for sign, text in _signs(picture):
        start = SIGN + 8 if sign else 0
        room = start + width_of(text, 11.5) + 26
        if x + room > width - margin + 26 and x > margin:
            x, y = margin, y + ROW
        shapes += _sign(sign, x, y)
        shapes.append(Words(x=x + start, y=y, text=text, size=11.5, color="#334155"))
        x += room
    y += ROW + 4
    for finding in picture.findings[:FINDINGS_MAX]:
        shapes += _finding(finding, margin, y)
        for text in _lines(finding.message, width - 2 * margin - MESSAGE):
            shapes.append(Words(x=margin + MESSAGE, y=y, text=text, size=11.5))
            y += 16
        y += 2
    more = len(picture.findings) - FINDINGS_MAX
    if more > 0:
        text = f"and {more} more: openclust lint tells them"
        shapes.append(Words(x=margin, y=y, text=text, size=11.5, color="#475569"))
        y += 18
    return shapes, y - top + 4


def _lines(message: str, room: float) -> list[str]:
    lines = wrapped(message, 11.5, room)
    return lines if len(lines) <= LINES_MAX else [*lines[: LINES_MAX - 1], f"{lines[LINES_MAX - 1]} …"]


def _finding(finding: Finding, x: float, y: float) -> list[Shape]:
    color = COLORS[finding.severity]
    return [
        Words(x=x, y=y, text=finding.severity.word, size=11.5, color=color, is_bold=True),
        Words(x=x + 68, y=y, text=finding.code, size=11.5, color=color, is_bold=True),
    ]


def _signs(picture: Picture) -> list[tuple[str, str]]:
    """The signs in the picture, each with its meaning."""
    kinds = {each.kind for each in picture.cards}
    edges = {each.kind for each in picture.edges}
    marks = [*(each.mark for each in picture.cards), *(each.mark for each in picture.edges)]
    severities = {each.severity for each in marks if each is not None}
    signs: list[tuple[str, str]] = [
        (kind, kind) for kind in ("primary", "secondary", "switch", "router", "network", "wan") if kind in kinds
    ]
    if any(len(each.names) > 1 for each in picture.cards):
        signs.append(("many", "several that are alike"))
    alike = alike_lines(picture)
    for sign, ends, text in (
        ("physical", "access", "link to a physical node"),
        ("physical", "trunk", "link between physical nodes"),
        ("direct", "direct", "link between brokers"),
    ):
        if any(ends_of(picture, each) == ends for each in picture.edges):
            signs.append((sign, f"{text}: {alike[ends]}" if ends in alike else text))
    if "mesh" in edges:
        signs.append(("mesh", "primaries link with each other"))
    if picture.is_mesh and "mesh" not in edges and kinds & {"primary"}:
        signs.append(("", "primaries link with each other (not drawn)"))
    if picture.is_mesh and kinds & {"secondary"}:
        signs.append(("", "secondaries link with every primary (not drawn)"))
    if "pair" in edges:
        signs.append(("pair", "two that a finding is about"))
    if Severity.ERROR in severities:
        signs.append(("error", "error"))
    if Severity.WARNING in severities:
        signs.append(("warning", "warning"))
    return signs


def ends_of(picture: Picture, edge: Edge) -> str:
    """The kind of link by its ends: "access" for a broker and a node, "trunk" for two nodes, else the edge's kind."""
    if edge.kind != "physical":
        return edge.kind
    has_broker = picture.cards[edge.one].is_broker or picture.cards[edge.other].is_broker
    return "access" if has_broker else "trunk"


def alike_lines(picture: Picture) -> dict[str, str]:
    """For each kind of link the text that is the same for all of them in the file: the legend has it once."""
    texts: dict[str, list[str]] = {}
    for edge in picture.edges:
        texts.setdefault(ends_of(picture, edge), []).append(edge.text)
    return {ends: each[0] for ends, each in texts.items() if len(each) > 3 and each[0] and len(set(each)) == 1}


def _sign(sign: str, x: float, y: float) -> list[Shape]:
    area = Area(x, y - 12, SIGN, 16)
    if sign in LINES:
        stroke, width = LINES[sign]
        points = ((x, y - 4), (x + SIGN, y - 4))
        return [Polyline(points=points, stroke=stroke, width=width, is_dashed=sign == "pair")]
    if sign in ("error", "warning"):
        return [Rect(area=area, fill=COLORS[Severity[sign.upper()]], stroke="none", radius=4)]
    if not sign:
        return []
    fill, stroke, width = LOOKS["secondary" if sign == "many" else sign]
    radius = 8 if sign in ("router", "network", "wan") else 4
    rect = Rect(area=area, fill=fill, stroke=stroke, width=width, radius=radius, is_dashed=sign == "wan")
    if sign != "many":
        return [rect]
    return [Rect(area=Area(x + 4, y - 16, SIGN, 16), fill=fill, stroke=stroke, width=width, radius=4), rect]
