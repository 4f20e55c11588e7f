"""The picture as text that other tools lay out: Graphviz (dot) and Mermaid."""

from __future__ import annotations

from topology.draw.colors import FILLS, LINES, LOOKS, color_of
from topology.draw.picture import Box, Card, Edge, Mark, Picture
from topology.output.junit import clear


def dot_of(picture: Picture) -> str:
    lines = [
        f"graph {_quoted(picture.title)} {{",
        f"  label={_quoted(f'{picture.title}: {picture.subtitle}')};",
        '  labelloc="t"; compound=true; fontname="DejaVu Sans";',
        '  node [fontname="DejaVu Sans", fontsize=11, style="filled,rounded", shape=box];',
        '  edge [fontname="DejaVu Sans", fontsize=9];',
    ]
    lines += _dot_box(picture.root, "  ", [0])
    lines += [_dot_edge(each) for each in picture.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_box(box: Box, indent: str, number: list[int]) -> list[str]:
    lines = []
    for inner in box.boxes.values():
        number[0] += 1
        lines.append(f"{indent}subgraph cluster_{number[0]} {{")
        label = _quoted(f"{inner.kind} {inner.name}")
        lines.append(f'{indent}  label={label}; style="filled,rounded"; fillcolor="{FILLS[inner.kind]}";')
        lines += _dot_box(inner, f"{indent}  ", number)
        lines.append(f"{indent}}}")
    for card in box.cards:
        fill, stroke, width = LOOKS[card.kind]
        shape = {"router": "ellipse", "network": "hexagon", "wan": "egg"}.get(card.kind, "box")
        if card.mark is not None:
            stroke, width = color_of(card.mark), 3
        label = _quoted("\n".join(_label(card)))
        look = f'fillcolor="{fill}", color="{stroke}", penwidth={width}, shape={shape}'
        lines.append(f"{indent}c{card.id} [label={label}, {look}];")
    return lines


def _dot_edge(edge: Edge) -> str:
    stroke, _ = LINES[edge.kind]
    stroke = stroke if edge.mark is None else color_of(edge.mark)
    parts = [f'color="{stroke}"']
    if text := _told(edge):
        parts.append(f"label={_quoted(text)}")
    if edge.mark is not None:
        parts.append("penwidth=2")
    if edge.kind in ("mesh", "pair"):
        parts.append(f"constraint=false, style={'dashed' if edge.kind == 'pair' else 'solid'}")
    return f"  c{edge.one} -- c{edge.other} [{', '.join(parts)}];"


def _quoted(text: str) -> str:
    """A string of dot. A backslash is written twice, because a single one begins an escape."""
    lines = [clear(line).replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n")]
    return '"' + "\\n".join(lines) + '"'


def mermaid_of(picture: Picture) -> str:
    lines = ["flowchart TB"]
    lines += _mermaid_box(picture.root, "  ", [0])
    styles = []
    for i, edge in enumerate(picture.edges):
        arrow = "-.-" if edge.kind == "pair" else "---"
        text = _told(edge)
        lines.append(f"  c{edge.one} {arrow}{f'|{_plain(text)}|' if text else ''} c{edge.other}")
        if edge.mark is not None:
            styles.append(f"  linkStyle {i} stroke:{color_of(edge.mark)},stroke-width:2px")
    for kind, (fill, stroke, width) in LOOKS.items():
        if any(each.kind == kind for each in picture.cards):
            lines.append(f"  classDef {kind} fill:{fill},stroke:{stroke},stroke-width:{width:g}px,color:#0f172a")
    for card in picture.cards:
        if card.mark is not None:
            lines.append(f"  style c{card.id} stroke:{color_of(card.mark)},stroke-width:3px")
    return "\n".join([*lines, *styles]) + "\n"


def _mermaid_box(box: Box, indent: str, number: list[int]) -> list[str]:
    lines = []
    for inner in box.boxes.values():
        number[0] += 1
        lines.append(f"{indent}subgraph b{number[0]}[{_plain(f'{inner.kind} {inner.name}')}]")
        lines += _mermaid_box(inner, f"{indent}  ", number)
        lines.append(f"{indent}end")
    for card in box.cards:
        label = _plain("\n".join(_label(card)))
        left, right = ("([", "])") if card.kind in ("router", "network", "wan") else ("[", "]")
        lines.append(f"{indent}c{card.id}{left}{label}{right}:::{card.kind}")
    return lines


def _plain(text: str) -> str:
    """A quoted text of Mermaid. Characters that could be markup are written as their numbers."""
    lines = [
        "".join(each if each.isalnum() or each in " .,:·…-" else f"#{ord(each)};" for each in clear(line))
        for line in text.split("\n")
    ]
    return '"' + "<br/>".join(lines) + '"'


def _label(card: Card) -> list[str]:
    return [card.title, *card.lines, *([_codes(card.mark)] if card.mark is not None else [])]


def _told(edge: Edge) -> str:
    return " · ".join(each for each in ("" if edge.mark is None else _codes(edge.mark), edge.text) if each)


def _codes(mark: Mark) -> str:
    return ", ".join(mark.codes)
