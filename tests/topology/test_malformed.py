"""No file, however broken, makes lint fall over: it is told what is wrong, a line each, or it is clean."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.topology.cases import CASES
from tests.support.topology.files import SOUND
from topology.lint.check import check
from topology.output.plain_text import show_reports

LIMITS = examples(30, suppress=[HealthCheck.function_scoped_fixture])

NAMES = st.sampled_from(["p1", "p2", "p3", "s1", "sw1", "", "p.1", "ü", "\x00", "a b", '"', "x" * 300])
ADDRESSES = st.sampled_from(
    ["10.0.0.1:5672", "10.0.0.1:x", ":", "[::]:1", "0.0.0.0:5", "a:99999", "::1", "h:" + "9" * 5000]
)
NUMBERS = st.one_of(
    st.integers(-2, 100), st.sampled_from([2**63, -(2**70), 10**4500, 10**9]), st.floats(allow_nan=True), st.booleans()
)
PLAIN = st.one_of(NAMES, ADDRESSES, NUMBERS, st.just([]), st.just({}))
ENDS = st.lists(st.one_of(NAMES, NUMBERS), max_size=3)
PLACE_KEYS = [
    *(
        "client",
        "peer",
        "http",
        "host",
        "rack",
        "zone",
        "region",
        "connections",
        "memory_mb",
        "cores",
        "bandwidth_mbit",
    ),
    *("weight", "clinet"),
]
BROKER = st.one_of(PLAIN, st.dictionaries(st.sampled_from(PLACE_KEYS), PLAIN, max_size=6))
SOUND_BROKER = st.fixed_dictionaries(
    {"client": ADDRESSES, "peer": ADDRESSES}, optional={"zone": NAMES, "cores": NUMBERS}
)
BROKERS = st.one_of(PLAIN, st.dictionaries(NAMES, st.one_of(BROKER, SOUND_BROKER), max_size=4))
LINK = st.one_of(
    PLAIN,
    st.fixed_dictionaries(
        {"between": st.one_of(PLAIN, ENDS)},
        optional={"latency_ms": NUMBERS, "loss": NUMBERS, "bandwidth_mbit": NUMBERS},
    ),
)
IGNORE = st.one_of(
    PLAIN, st.fixed_dictionaries({"rule": NAMES}, optional={"reason": PLAIN, "brokers": ENDS, "why": PLAIN})
)
SETTINGS = st.dictionaries(
    NAMES,
    st.dictionaries(st.sampled_from(["cluster.heartbeat_ms", "limits", "cluster", "x.y", "cluster.primaries"]), PLAIN),
)
TOPOLOGY = st.fixed_dictionaries(
    {},
    optional={
        "secondaries": BROKERS,
        "nodes": st.one_of(PLAIN, st.dictionaries(NAMES, st.one_of(PLAIN, st.fixed_dictionaries({"kind": NAMES})))),
        "links": st.one_of(PLAIN, st.lists(LINK, max_size=4)),
        "settings": st.one_of(PLAIN, SETTINGS),
        "ignore": st.one_of(PLAIN, st.lists(IGNORE, max_size=3)),
        "failover_ms": NUMBERS,
        "clients": PLAIN,
        "shared_mbit": NUMBERS,
    },
)
DOCUMENT = st.fixed_dictionaries(
    {},
    optional={
        "cluster_key": PLAIN,
        "cluster": st.one_of(
            PLAIN,
            st.fixed_dictionaries(
                {"primaries": BROKERS},
                optional={"heartbeat_ms": NUMBERS, "secret": PLAIN, "join": st.one_of(PLAIN, ENDS)},
            ),
        ),
        "topology": st.one_of(PLAIN, TOPOLOGY),
        "limits": st.one_of(
            PLAIN, st.fixed_dictionaries({"connections_max": NUMBERS, "memory_high_watermark": NUMBERS})
        ),
    },
)


def toml(value: Any) -> str:
    """A value as TOML, tables in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) > 2**80:
        return "1" + "0" * 4500
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    return json.dumps(value) if isinstance(value, str) else repr(value)


def is_told(path: Path) -> None:
    report, model = check(path)
    assert report.exit_code() == 2 if model is None else not report.is_bad_input
    for each in report.findings:
        assert each.message.isprintable() and each.message, each
        assert "Traceback" not in each.message and "Error" not in each.message, each
    stream = io.StringIO()
    show_reports([report], stream)
    assert report.file in stream.getvalue()
    if model is not None:
        assert model.graph.number_of_nodes() >= len(model.brokers)


@LIMITS
@given(DOCUMENT)
def test_any_values_under_the_right_keys_are_taken_or_told(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in document.items()), encoding="utf-8")
    is_told(path)


DEEP = 1_500
"""Deeper than Python calls itself; what tomllib takes for a key of so many parts grows with their square."""


@LIMITS
@given(st.binary(max_size=200))
@example(b"\xff\xfe")
@example(b"\x00")
@example(b"")
@example(b"[" * DEEP)
@example(b"x = " + b"[" * DEEP)
@example(b"a" + b".a" * DEEP + b" = 1")
@example(b"[cluster]\nheartbeat_ms" + b".a" * DEEP + b" = 1")
@example(b"[topology.settings.p1]\na" + b".a" * DEEP + b" = 1")
@example(b"[topology.secondaries.p1]\nhost" + b".a" * DEEP + b" = 1")
@example(b"cluster_key = 1" + b"0" * 5000)
def test_any_bytes_are_told(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "cluster.toml"
    path.write_bytes(data)
    is_told(path)


ALL = "\n".join(
    [SOUND, *(case.failing.removeprefix(SOUND) for case in CASES.values() if case.failing.startswith(SOUND))]
)


@LIMITS
@given(st.lists(st.tuples(st.integers(0, len(ALL)), st.integers(0, 30), st.text(max_size=5)), min_size=1, max_size=4))
def test_a_file_with_pieces_cut_out_and_put_in_is_told(tmp_path: Path, cuts: list[tuple[int, int, str]]) -> None:
    text = ALL
    for at, length, instead in cuts:
        text = text[:at] + instead + text[at + length :]
    path = tmp_path / "cluster.toml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    is_told(path)


@pytest.mark.parametrize("path", ["/", "/nowhere/cluster.toml", "/dev/null/x", "a\0b", "x" * 5000])
def test_a_path_to_no_file_is_told(path: str) -> None:
    report, model = check(path)
    assert model is None
    assert [each.code for each in report.findings] == ["OC101"]


# -- files that can be used, and make no sense

SOME = st.sampled_from(["p1", "p2", "p3", "p4", "s1", "s2", "sw1", "sw2", "sw3", "P1", "a", "q"])
WHERE = st.sampled_from(
    ["10.0.0.1:1", "10.0.0.2:1", "127.0.0.1:2", "0.0.0.0:3", "[::1]:4", "b.example:5", "B.example.:5"]
)
SIZES = st.sampled_from([0, 1, 700, 60_000, 100_000])
PLACES = {
    **dict.fromkeys(("host", "rack", "zone", "region"), SOME),
    **dict.fromkeys(("connections", "memory_mb", "bandwidth_mbit"), SIZES),
    "weight": st.integers(0, 3),
    "cores": st.integers(0, 3),
}
PRIMARIES = st.dictionaries(
    SOME, st.fixed_dictionaries({"client": WHERE, "peer": WHERE}, optional={"http": WHERE, **PLACES}), max_size=6
)
EXPECTED = st.dictionaries(
    SOME, st.fixed_dictionaries({}, optional={"client": WHERE, "peer": WHERE, **PLACES}), max_size=4
)
NODES = st.dictionaries(
    SOME,
    st.fixed_dictionaries({}, optional={"kind": st.sampled_from(["switch", "wan"]), "rack": SOME, "zone": SOME}),
    max_size=4,
)
LINKS = st.lists(
    st.fixed_dictionaries(
        {"between": st.lists(SOME, min_size=2, max_size=2)},
        optional={
            "latency_ms": st.floats(0, 300),
            "loss": st.floats(0, 1),
            "bandwidth_mbit": SIZES,
        },
    ),
    max_size=14,
)
USABLE = st.fixed_dictionaries(
    {
        "cluster": st.fixed_dictionaries(
            {"primaries": PRIMARIES}, optional={"heartbeat_ms": st.sampled_from([20, 1000])}
        ),
        "topology": st.fixed_dictionaries(
            {"links": LINKS, "nodes": NODES, "secondaries": EXPECTED},
            optional={
                "clients": SIZES,
                "client_mbit": SIZES,
                "shared_mbit": SIZES,
                "failover_ms": SIZES,
                "settings": st.dictionaries(
                    SOME, st.just({"cluster": {"heartbeat_ms": 200}, "listen.port": 1}), max_size=2
                ),
            },
        ),
    }
)


@LIMITS
@given(USABLE)
def test_all_rules_have_an_answer_to_any_model(tmp_path: Path, document: dict[str, Any]) -> None:
    path = tmp_path / "cluster.toml"
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in document.items()), encoding="utf-8")
    is_told(path)
    report, model = check(path)
    assert model is not None, report.findings
    for each in report.findings:
        assert set(each.brokers) <= {*model.brokers, *(twin.name for twin in model.twins)}, each
        assert set(each.nodes) <= set(model.nodes), each
