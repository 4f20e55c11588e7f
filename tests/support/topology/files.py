"""Cluster files for the tests: a sound one, and what is put into it or taken out."""

from __future__ import annotations

import tempfile
from pathlib import Path

from topology.lint.check import check
from topology.model.graph import Model
from topology.rules.finding import FileReport, Finding

SOUND = """\
cluster_key = "orders-eu"

[cluster]
secret_file = "cluster.secret"
heartbeat_ms = 100
data_dir = "/var/lib/openclust"
[cluster.primaries.p1]
client = "10.0.1.1:5672"
peer = "10.0.1.1:5682"
rack = "a1"
zone = "a"

[cluster.primaries.p2]
client = "10.0.2.1:5672"
peer = "10.0.2.1:5682"
rack = "b1"
zone = "b"

[cluster.primaries.p3]
client = "10.0.3.1:5672"
peer = "10.0.3.1:5682"
rack = "c1"
zone = "c"

[topology.secondaries.s1]
client = "10.0.1.2:5672"
peer = "10.0.1.2:5682"
rack = "a1"
zone = "a"

[topology.secondaries.s2]
client = "10.0.2.2:5672"
peer = "10.0.2.2:5682"
rack = "b1"
zone = "b"
"""

FOURTH = '\n[cluster.primaries.p4]\nclient = "10.0.4.1:5672"\npeer = "10.0.4.1:5682"\nrack = "d1"\nzone = "d"\n'
FIFTH = '\n[cluster.primaries.p5]\nclient = "10.0.5.1:5672"\npeer = "10.0.5.1:5682"\nrack = "e1"\nzone = "e"\n'


def with_topology(text: str) -> str:
    """The sound file, and these keys of `[topology]`."""
    return f"{SOUND}\n[topology]\n{text}"


def links(*pairs: str, **numbers: float) -> str:
    """`links("p1 sw1", latency_ms=2)`."""
    also = "".join(f"{key} = {number}\n" for key, number in numbers.items())
    return "".join(f"\n[[topology.links]]\nbetween = {[*pair.split()]}\n{also}".replace("'", '"') for pair in pairs)


def nodes(*names: str, kind: str = "switch") -> str:
    return "".join(f'\n[topology.nodes.{name}]\nkind = "{kind}"\n' for name in names)


def each_primary(text: str, *lines: str) -> str:
    """The text with a line more for p1, p2 and p3."""
    for name, line in zip(("p1", "p2", "p3"), lines, strict=True):
        text = text.replace(f"[cluster.primaries.{name}]", f"[cluster.primaries.{name}]\n{line}")
    return text


def checked(text: str, **options: object) -> tuple[FileReport, Model | None]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.toml"
        path.write_text(text, encoding="utf-8")
        return check(path, **options)  # type: ignore[arg-type]


def report_of(text: str, **options: object) -> FileReport:
    return checked(text, **options)[0]


def model_of(text: str) -> Model:
    report, model = checked(text)
    assert model is not None, report.findings
    return model


def found(text: str, code: str) -> list[Finding]:
    return [each for each in report_of(text).findings if each.code == code]
