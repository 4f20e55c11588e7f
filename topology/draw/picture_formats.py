"""Draws a cluster file in one of several formats."""

from __future__ import annotations

from pathlib import PurePath

from topology.draw.picture import picture_of
from topology.model.graph import Model
from topology.rules.finding import FileReport

FORMATS = ("svg", "png", "dot", "mermaid")
SUFFIXES = {".svg": "svg", ".png": "png", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}


def format_of(file: str) -> str | None:
    """The format that the ending of a file's name stands for; None if it stands for none."""
    return SUFFIXES.get(PurePath(file).suffix.lower())


def draw(model: Model, report: FileReport, format_: str) -> bytes:
    """The picture. ModuleNotFoundError for PNG where matplotlib is not installed."""
    picture = picture_of(model, report)
    if format_ == "dot":
        from topology.draw.graph_languages import dot_of

        return dot_of(picture).encode()
    if format_ == "mermaid":
        from topology.draw.graph_languages import mermaid_of

        return mermaid_of(picture).encode()
    from topology.draw.scene import scene_of

    if format_ == "png":
        from topology.draw.png import png_of

        return png_of(scene_of(picture))
    from topology.draw.svg import svg_of

    return svg_of(scene_of(picture)).encode()
