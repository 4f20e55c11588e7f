"""One line an event, whatever peers put into it."""

from __future__ import annotations

import io
import json
import logging
import re
import time
from collections.abc import Iterator

import pytest

from openclust.shell.host.event_log import configure, escape, fields

log = logging.getLogger("openclust.listener")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = (root.handlers[:], root.level, logging.getLogger("openclust").level, logging.raiseExceptions)
    yield io.StringIO()
    root.handlers[:], root.level = before[0], before[1]
    logging.getLogger("openclust").setLevel(before[2])
    logging.raiseExceptions = before[3]


def test_text_is_time_level_source_message_and_fields(stream: io.StringIO) -> None:
    configure(stream=stream)
    log.info("accepting on %s:%d", "127.0.0.1", 5672, extra=fields(tls=True, peer="a b", empty="", n=5))
    line = stream.getvalue()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO  listener: accepting on 127\.0\.0\.1:5672 "
        r'tls=true peer="a b" empty="" n=5\n',
        line,
    )


def test_time_is_utc_with_milliseconds(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(stream=stream)
    monkeypatch.setattr(time, "localtime", lambda *_: time.gmtime(0))
    record = log.makeRecord("openclust.x", logging.WARNING, "f", 1, "m", (), None)
    record.created, record.msecs = 1769860920.123, 123.0
    logging.getLogger().handlers[-1].handle(record)
    assert stream.getvalue() == "2026-01-31T12:02:00.123Z WARN  x: m\n"


def test_json_is_one_object_a_line(stream: io.StringIO) -> None:
    configure("debug", "json", stream)
    log.debug("hello %s", "you\n", extra=fields(peer="x", level="mine"))
    event = json.loads(stream.getvalue())
    assert event.pop("time").endswith("Z")
    assert event == {"level": "debug", "source": "listener", "message": "hello you\n", "peer": "x", "level_": "mine"}
    assert stream.getvalue().count("\n") == 1


NASTY = "a\r\nb\x1b[31m\x00\x85\u2028\u202e\x7f\ud800"


@pytest.mark.parametrize("format", ["text", "json"])
def test_a_peer_cannot_write_lines_of_its_own(stream: io.StringIO, format: str) -> None:
    configure("info", format, stream)  # type: ignore[arg-type]
    log.info("login of %s failed", NASTY, extra=fields(**{"peer": NASTY, NASTY: "x"}))
    text = stream.getvalue()
    assert len(text.splitlines()) == 1
    assert text[:-1].isprintable()
    assert "\\u202e" in text


def test_what_is_harmless_is_not_escaped() -> None:
    assert escape('Ünïcode 漢字 \\d+ "quoted"') == 'Ünïcode 漢字 \\d+ "quoted"'
    assert escape("a\tb") == "a\\tb"


def test_a_quote_in_a_field_does_not_end_it(stream: io.StringIO) -> None:
    configure(stream=stream)
    log.info("m", extra=fields(name='x" admin=true'))
    assert stream.getvalue().endswith('name="x\\" admin=true"\n')


def test_an_exception_is_on_the_same_line(stream: io.StringIO) -> None:
    configure(stream=stream)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("it failed")
    (line,) = stream.getvalue().splitlines()
    assert 'it failed error="ValueError: two\\nlines (test_event_log.py:' in line


def test_levels_leave_out_what_is_below_and_libraries_only_warn(stream: io.StringIO) -> None:
    configure("warning", stream=stream)
    log.info("no")
    configure("debug", stream=stream)
    logging.getLogger("asyncio").info("no")
    assert stream.getvalue() == ""
    log.debug("yes")
    logging.getLogger("asyncio").warning("yes")
    assert len(stream.getvalue().splitlines()) == 2, "each once, though configured twice"


def test_a_closed_stream_is_no_trouble(stream: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
    configure(stream=stream)
    stream.close()
    log.info("into the void")
    assert capsys.readouterr().err == ""
