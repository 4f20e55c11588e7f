"""A scene as SVG. Equal files always give equal text."""

from __future__ import annotations

from xml.sax.saxutils import escape

from topology.draw.scene import Scene
from topology.draw.shapes import Point, Polyline, Rect, Shape, Words
from topology.output.junit import clear

FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"


def svg_of(scene: Scene) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(scene.width)} {_n(scene.height)}" '
        f'width="{_n(scene.width)}" height="{_n(scene.height)}" font-family="{FONT}" role="img">'
    )
    lines = [head, f"<title>{_text(scene.title)}</title>", *(_shape(each) for each in scene.shapes), "</svg>"]
    return "\n".join(lines) + "\n"


def _shape(shape: Shape) -> str:
    match shape:
        case Rect():
            area = shape.area
            mark = (
                f'<rect x="{_n(area.x)}" y="{_n(area.y)}" width="{_n(area.w)}" height="{_n(area.h)}" '
                f'rx="{_n(shape.radius)}" fill="{shape.fill}"{_stroke(shape)}'
            )
            return _with_title(mark, "rect", shape.title)
        case Polyline():
            return _with_title(f'<path d="{_path(shape)}" fill="none"{_stroke(shape)}', "path", shape.title)
        case Words():
            bold = ' font-weight="bold"' if shape.is_bold else ""
            anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
            return (
                f'<text x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}" fill="{shape.color}"'
                f"{bold}{anchor}>{_text(shape.text)}</text>"
            )


def _stroke(shape: Rect | Polyline) -> str:
    if shape.stroke == "none":
        return ""
    dashes = ' stroke-dasharray="6 4"' if shape.is_dashed else ""
    return f' stroke="{shape.stroke}" stroke-width="{_n(shape.width)}"{dashes}'


def _path(line: Polyline) -> str:
    parts = [f"M{_p(line.points[0])}"]
    for begin, corner, end in line.corners():
        parts.append(f"L{_p(begin)} Q{_p(corner)} {_p(end)}" if line.radius else f"L{_p(corner)}")
    return " ".join([*parts, f"L{_p(line.points[-1])}"])


def _p(point: Point) -> str:
    return f"{_n(point[0])} {_n(point[1])}"


def _with_title(mark: str, tag: str, title: str) -> str:
    return f"{mark}><title>{_text(title)}</title></{tag}>" if title else f"{mark}/>"


def _text(text: str) -> str:
    return escape(clear(text))


def _n(value: float) -> str:
    """A number with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")
