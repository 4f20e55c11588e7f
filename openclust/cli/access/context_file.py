"""The file of contexts: a name for each cluster, with the URLs of its brokers and the place of the password."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping

import click
import msgspec

CONTEXTS_MAX = 1_000


class ClusterContext(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How commands reach one cluster."""

    urls: list[str]
    password_file: str | None = None
    ca_file: str | None = None


class ContextFile(msgspec.Struct, forbid_unknown_fields=True):
    """All contexts by name; `current` is the one in use, if any is."""

    current: str = ""
    contexts: dict[str, ClusterContext] = {}


def contexts_path(environ: Mapping[str, str] = os.environ) -> str:
    """`$XDG_CONFIG_HOME/openclust/contexts.toml`; without that variable, under `~/.config`."""
    home = environ.get("XDG_CONFIG_HOME", "")
    folder = home if os.path.isabs(home) else os.path.expanduser("~/.config")
    return os.path.join(folder, "openclust", "contexts.toml")


def load_contexts(path: str) -> ContextFile:
    """The contexts; none where there is no file. click's errors where it cannot be used."""
    try:
        with open(path, "rb") as opened:
            mode = os.fstat(opened.fileno()).st_mode
            document = tomllib.load(opened)
    except FileNotFoundError:
        return ContextFile()
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: no TOML: {error}") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise click.ClickException(f"{path}: others may read it, and it can hold passwords: chmod 600 {path}")
    try:
        return msgspec.convert(document, ContextFile)
    except msgspec.ValidationError as error:
        raise click.ClickException(f"{path}: {error}") from None


def save_contexts(path: str, file: ContextFile) -> None:
    """Replace the file in one step, readable for its owner only."""
    from openclust.shell.host.atomic_file import replace_file

    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    replace_file(path, as_toml(file).encode())


def as_toml(file: ContextFile) -> str:
    lines = [f"current = {_quoted(file.current)}"] if file.current else []
    for name, each in sorted(file.contexts.items()):
        lines += ["", f"[contexts.{_quoted(name)}]", f"urls = [{', '.join(map(_quoted, each.urls))}]"]
        for key in ("password_file", "ca_file"):
            value = getattr(each, key)
            if value is not None:
                lines.append(f"{key} = {_quoted(value)}")
    return "\n".join([*lines, ""]).lstrip("\n")


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    escapes = {'"': '\\"', "\\": "\\\\"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text) + '"'
