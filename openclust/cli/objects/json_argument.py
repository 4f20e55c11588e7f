"""JSON on the command line."""

from __future__ import annotations

from typing import Any

import click
import msgspec


def json_object(what: str, text: str) -> dict[str, Any]:
    """The object that the text is; a usage error that names `what` if it is none."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise click.UsageError(f"""{what} is no JSON object such as '{{"max-length": 1000}}': {text[:100]}""")
    return found
