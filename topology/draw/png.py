"""A scene as PNG, painted by matplotlib, which is an extra: `pip install openclust[plot]`."""

from __future__ import annotations

import io
import warnings

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from topology.draw.scene import Scene
from topology.draw.shapes import Polyline, Rect, Words
from topology.output.junit import clear

PIXELS_AN_INCH = 96
SHARPNESS = 2.0
"""Pixels of the file for each pixel of the scene."""

SIDE_MAX = 12_000
"""The longest side of the file, in pixels. A larger scene has fewer pixels for each of its own."""


def png_of(scene: Scene) -> bytes:
    sharpness = min(SHARPNESS, SIDE_MAX / max(scene.width, scene.height))
    figure = Figure(figsize=(scene.width / PIXELS_AN_INCH, scene.height / PIXELS_AN_INCH))
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    axes.axis("off")
    for order, shape in enumerate(scene.shapes):
        match shape:
            case Rect():
                axes.add_patch(_rect(shape, order))
            case Polyline():
                axes.add_patch(_line(shape, order))
            case Words():
                _words(axes, shape, order)
    data = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks is drawn as a box: no warning
        canvas.print_figure(data, format="png", dpi=PIXELS_AN_INCH * sharpness, metadata={"Software": "openclust"})
    return data.getvalue()


def _points(pixels: float) -> float:
    return pixels * 72 / PIXELS_AN_INCH


def _rect(shape: Rect, order: int) -> FancyBboxPatch:
    area = shape.area
    radius = min(shape.radius, area.w / 2, area.h / 2)
    style = f"round,pad=0,rounding_size={radius}" if radius else "square,pad=0"
    return FancyBboxPatch(
        (area.x, area.y),
        area.w,
        area.h,
        boxstyle=style,
        facecolor=shape.fill,
        edgecolor=shape.stroke,
        linewidth=0 if shape.stroke == "none" else _points(shape.width),
        linestyle=(0, (4, 3)) if shape.is_dashed else "solid",
        zorder=order,
    )


def _line(shape: Polyline, order: int) -> PathPatch:
    vertices, codes = [shape.points[0]], [Path.MOVETO]
    for begin, corner, end in shape.corners():
        vertices += [begin, corner, end] if shape.radius else [corner]
        codes += [Path.LINETO, Path.CURVE3, Path.CURVE3] if shape.radius else [Path.LINETO]
    path = Path([*vertices, shape.points[-1]], [*codes, Path.LINETO])
    style = (0, (4, 3)) if shape.is_dashed else "solid"
    width = _points(shape.width)
    return PathPatch(path, facecolor="none", edgecolor=shape.stroke, linewidth=width, linestyle=style, zorder=order)


def _words(axes: object, shape: Words, order: int) -> None:
    anchors = {"start": "left", "middle": "center", "end": "right"}
    axes.text(  # type: ignore[attr-defined]
        shape.x,
        shape.y,
        clear(shape.text),
        fontsize=_points(shape.size),
        fontfamily="DejaVu Sans",
        fontweight="bold" if shape.is_bold else "normal",
        color=shape.color,
        ha=anchors[shape.anchor],
        va="baseline",
        parse_math=False,
        zorder=order,
    )
